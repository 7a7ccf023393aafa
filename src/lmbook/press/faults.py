"""What the machine refuses, in a sentence with its remedy. Light to import."""

from __future__ import annotations

import errno
import unicodedata

INSTALL = "python -m pip install -c requirements.lock -e '.[press,test]'"
_PERMISSION = "give yourself permission there, or copy the project to a folder of yours"
_ROOM = "make room on this disk (build/ may be deleted: make clean)"
REMEDIES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _PERMISSION),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _ROOM),
}
#: Unicode's control and format characters, and halves of surrogate pairs.
STEERING = {"Cc", "Cf", "Cs"}


def sentence(error: OSError) -> str:
    """Where the system refused something, why, and what to do."""
    if error.errno is None:  # one of ours
        return str(error)
    said = ": ".join(str(p) for p in (error.filename, error.strerror) if p)
    remedy = REMEDIES.get(error.errno)
    return f"{said}\n{remedy}" if remedy else said


def plain(text: str) -> str:
    """``text`` with what would steer a terminal written out (``\\x1b``)."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in STEERING else ascii(c)[1:-1]
        for c in text
    )
