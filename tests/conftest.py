"""One environment for all tests: the kernels' own, network guard included."""

import os
import tempfile

import pytest

from lmbook.press import run

_ENVIRONMENT = run.environment()
for _name in set(os.environ) - set(_ENVIRONMENT):
    del os.environ[_name]
os.environ.update(_ENVIRONMENT)
# Removed when this process ends, a worker of xdist or a child run as well.
_RUNTIME = tempfile.TemporaryDirectory(prefix="lmbook-", ignore_cleanup_errors=True)
os.environ["JUPYTER_RUNTIME_DIR"] = _RUNTIME.name


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
