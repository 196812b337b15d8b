"""What starting llama.cpp's server does to a process, undone: signal handlers and an open port."""

from __future__ import annotations

import ctypes
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LARGEST_SIGACTION = 512
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def signals_kept() -> Iterator[None]:
    """Put the handlers of Ctrl-C and SIGTERM back that the library replaces in C.

    `signal.signal` would not do: it works in the main thread only, and Python believes that its
    own handlers are still there.
    """
    if sys.platform == "win32":
        yield
        return
    libc = ctypes.CDLL(None)
    saved = [(number, ctypes.create_string_buffer(_LARGEST_SIGACTION)) for number in _SIGNALS]
    for number, buffer in saved:
        libc.sigaction(int(number), None, buffer)
    try:
        yield
    finally:
        for number, buffer in saved:
            libc.sigaction(int(number), buffer, None)


@contextmanager
def private_address() -> Iterator[tuple[str, str]]:
    """Where the library's HTTP server may listen, and the key it wants: nobody can get there.

    The server cannot be switched off. On Unix it gets a socket in a folder of its own, which is
    deleted as soon as the server has started; on Windows a port of the loopback interface.
    """
    key = secrets.token_urlsafe(24)
    if sys.platform == "win32":
        yield "127.0.0.1", key
        return
    folder = Path(tempfile.mkdtemp(prefix="ekiden-"))
    try:
        yield str(folder / "llama.sock"), key
    finally:
        shutil.rmtree(folder, ignore_errors=True)
