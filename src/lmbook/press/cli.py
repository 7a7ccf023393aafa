"""`lmbook COMMAND`: from the first keystroke to an exit code, never a traceback."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from lmbook.press.faults import INSTALL, sentence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 if all is well, 1 if something failed, 2 for wrong usage."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    try:
        # Here, because it takes a second, in which a reader may press Ctrl-C.
        from lmbook.press import commands

        code, fault = commands.call(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code, fault = 130, "interrupted; what was finished is kept"
    except ModuleNotFoundError as error:
        if str(error.name).startswith("lmbook"):
            raise
        code, fault = 1, f"{error.name} is not installed here; {INSTALL}"
    except BrokenPipeError:  # `lmbook ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except OSError as error:
        code, fault = 1, sentence(error)
    if fault:
        print(f"lmbook: {fault}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
