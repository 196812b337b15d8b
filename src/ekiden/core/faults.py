"""Named places where a test may kill or stop the process; they cost one function call when off."""

from __future__ import annotations

import os
import signal

_countdown: dict[str, int] = {}
_signals: dict[str, signal.Signals] = {}


def _arm() -> None:
    """Read ``EKIDEN_FAULT=name[:nth[:stop]]``.

    Only a process that says ``EKIDEN_TESTING=1`` obeys it.
    """
    spec = os.environ.get("EKIDEN_FAULT", "")
    if not spec or os.environ.get("EKIDEN_TESTING") != "1":
        return
    name, _, visit = spec.partition(":")
    nth, _, how = visit.partition(":")
    _countdown[name] = int(nth or "1")
    _signals[name] = signal.SIGSTOP if how == "stop" else signal.SIGKILL


def fault_point(name: str) -> None:
    """Die with SIGKILL, or stop until SIGCONT, if this point is armed and this its n-th visit."""
    if not _countdown:
        return
    left = _countdown.get(name)
    if left is None:
        return
    if left > 1:
        _countdown[name] = left - 1
        return
    del _countdown[name]
    os.kill(os.getpid(), _signals[name])


_arm()
