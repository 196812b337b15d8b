"""Small matrices on one thread.

The library that numpy computes with wakes a thread for every core, and they wait for each other
longer than they compute: a sentence takes 3 ms on one thread and 20 to 100 ms on two.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import NamedTuple

_EXTENSIONS = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")
_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)
"""As numpy's own builds call them, and as those of distributions do."""

_lock = threading.Lock()
_inside = 0
_before = 0


class _Threads(NamedTuple):
    get: Callable[[], int]
    set: Callable[[int], object]


@contextmanager
def one_thread() -> Iterator[None]:
    """Let numpy multiply on one thread inside, and as before afterwards.

    It is the whole process's setting: others that multiply meanwhile do so on one thread, too.
    Does nothing where numpy computes with another library than OpenBLAS.
    """
    global _before, _inside
    threads = _threads()
    if threads is None:
        yield
        return
    with _lock:
        if not _inside:
            _before = threads.get()
            threads.set(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                threads.set(_before)


@cache
def _threads() -> _Threads | None:
    """How to ask OpenBLAS, which numpy's own extension has loaded."""
    for extension in _EXTENSIONS:
        try:
            library = ctypes.CDLL(str(import_module(extension).__file__))
        except (ImportError, OSError):
            continue
        for name in _NAMES:
            try:
                found = library[name.format("get")], library[name.format("set")]
            except AttributeError:
                continue
            return _Threads(*found)
    return None
