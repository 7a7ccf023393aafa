"""No network in a kernel: connections leave this machine never, loopback is fine."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

#: What an IPython startup file holds to install the guard; it leaks no name.
STARTUP = '__import__("lmbook.press.guard").press.guard.install()\n'

_connect = socket.socket.connect
_connect_ex = socket.socket.connect_ex


class NetworkError(ConnectionRefusedError):
    """A cell tried to reach another machine."""


def is_local(family: int, address: Any) -> bool:
    """True for a loopback address, and for a socket that is no internet socket."""
    if family not in (socket.AF_INET, socket.AF_INET6):
        return True
    host = str(address[0])
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def _refuse(sock: socket.socket, address: Any) -> None:
    if not is_local(sock.family, address):
        raise NetworkError(f"no network at run time: connection to {address!r} refused")


def _guarded_connect(sock: socket.socket, address: Any) -> None:
    _refuse(sock, address)
    _connect(sock, address)


def _guarded_connect_ex(sock: socket.socket, address: Any) -> int:
    _refuse(sock, address)
    return _connect_ex(sock, address)


def install() -> None:
    """Make every later ``connect`` of this process refuse other machines."""
    socket.socket.connect = _guarded_connect  # type: ignore[method-assign,assignment]
    socket.socket.connect_ex = _guarded_connect_ex  # type: ignore[method-assign,assignment]
