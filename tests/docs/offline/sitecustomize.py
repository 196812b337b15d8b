"""Loaded by every Python that a console block starts: the network is not there."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any


def _is_of_the_page(host: object, port: object) -> bool:
    """Whether it is one of the servers that the page started."""
    return host == "127.0.0.1" and str(port) in os.environ.get("DOCS_PORTS", "").split(",")


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.getaddrinfo" and not _is_of_the_page(*arguments[:2]):
        raise OSError(f"documentation must not need the network: {arguments[0]!r} was looked up")
    if event != "socket.connect" or arguments[0].family == socket.AF_UNIX:
        return
    if arguments[0].family != socket.AF_INET or not _is_of_the_page(*arguments[1]):
        raise OSError(f"documentation must not need the network: {arguments[1]!r} was called")


sys.addaudithook(_refuse)
