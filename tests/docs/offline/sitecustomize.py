"""Loaded by every Python that a console block starts: the network is not there."""

from __future__ import annotations

import socket
import sys
from typing import Any


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.getaddrinfo":
        raise OSError(f"documentation must not need the network: {arguments[0]!r} was looked up")
    if event == "socket.connect" and arguments[0].family != socket.AF_UNIX:
        raise OSError(f"documentation must not need the network: {arguments[1]!r} was called")


sys.addaudithook(_refuse)
