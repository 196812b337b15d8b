"""The rights of an ordinary user, also for tests that run as root."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_VERSION_3 = 0x20080522
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1 << 1, 1 << 2


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


@contextmanager
def modes_count() -> Iterator[None]:
    """In this thread, and in those that it starts, the modes of files hold for root, too."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, data = _Header(_VERSION_3, 0), (_Data * 2)()
    _call(libc.capget, header, data)
    before = data[0].effective
    data[0].effective = before & ~(_DAC_OVERRIDE | _DAC_READ_SEARCH)
    _call(libc.capset, header, data)
    try:
        yield
    finally:
        data[0].effective = before
        _call(libc.capset, header, data)


def _call(function: Callable[..., int], header: _Header, data: ctypes.Array[_Data]) -> None:
    if function(ctypes.byref(header), data) != 0:
        raise OSError(ctypes.get_errno(), "capabilities cannot be changed")
