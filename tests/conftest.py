"""One environment for all tests: the kernels' own, network guard included."""

import os
import signal
import sys
import tempfile

import pytest

from lmbook.press import run

# A worker of xdist works inside the folder of its controller, which outlives it.
_WORKER = "PYTEST_XDIST_WORKER" in os.environ
_INSIDE = os.environ.get("JUPYTER_RUNTIME_DIR") if _WORKER else None
_ENVIRONMENT = run.environment()
for _name in set(os.environ) - set(_ENVIRONMENT):
    del os.environ[_name]
os.environ.update(_ENVIRONMENT)
# Removed when this process ends; SIGTERM ends it, too, as if it had asked to.
_RUNTIME = tempfile.TemporaryDirectory(
    prefix="lmbook-", dir=_INSIDE, ignore_cleanup_errors=True
)
os.environ["JUPYTER_RUNTIME_DIR"] = _RUNTIME.name
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def pytest_configure(config):
    """EncodingWarning is an error in our own code (pyproject), not in others'."""
    config.addinivalue_line("filterwarnings", "ignore::EncodingWarning")
    ours = r"(lmbook|test_|helpers|conftest).*"
    config.addinivalue_line("filterwarnings", f"error::EncodingWarning:{ours}")


@pytest.fixture
def float64():
    """A chapter's arithmetic, seeded; torch's own default is put back."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)
