"""Named places where a test may kill or stop the process; they cost one function call when off."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

_POINT = re.compile(r'\bfault_point\("([^"]+)"\)')

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
    _check(name, nth or "1", how)
    _countdown[name] = int(nth or "1")
    _signals[name] = signal.SIGSTOP if how == "stop" else signal.SIGKILL


def _check(name: str, nth: str, how: str) -> None:
    """`UserError` for what would arm nothing: a test that kills nobody would seem to pass."""
    from ekiden.core.errors import UserError
    from ekiden.core.suggest import suggestion

    if not (nth.isdecimal() and int(nth)) or how not in ("", "stop"):
        raise UserError(f"EKIDEN_FAULT is name[:nth[:stop]], with nth from 1 on, not {name}:{nth}")
    sources = Path(__file__).parents[1].rglob("*.py")
    points = {point for file in sources for point in _POINT.findall(file.read_text("utf-8"))}
    if points and name not in points:
        raise UserError(
            f"EKIDEN_FAULT names no fault point: {name!r}{suggestion(name, points)}; there are: "
            f"{', '.join(sorted(points))}"
        )


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
