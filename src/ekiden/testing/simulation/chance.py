"""Taking chance and time from the seed while a simulated world runs."""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from types import ModuleType
from typing import Any

import ekiden.bus.serving.delivery
import ekiden.bus.serving.service
import ekiden.conditions.program
import ekiden.core.values
from ekiden.core.errors import EkidenError
from ekiden.core.values import SystemClock
from ekiden.runtime.state.leases import owner_name
from ekiden.testing.simulation.loop import SimulatedLoop

BEGIN_US = 1_700_000_000_000_000
"""When every world begins."""

_READ_TIME: tuple[ModuleType, ...] = (
    ekiden.bus.serving.delivery,
    ekiden.bus.serving.service,
    ekiden.conditions.program,
    ekiden.core.values,
)
"""Modules that read the machine's clocks."""


class _Listener(logging.Handler):
    """Hears of errors that the runtime survives, and the world must not: they are the loop's."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        exc = record.exc_info[1] if record.exc_info else None
        is_expected = isinstance(exc, EkidenError) and record.levelno < logging.ERROR
        if exc is not None and not is_expected:
            self._loop.call_exception_handler({"message": record.getMessage(), "exception": exc})


class SimulatedTime:
    """What these modules have in place of `time`: each process has a wall clock of its own."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def time_ns(self) -> int:
        """The wall clock of whoever asks."""
        process = self._loop.current
        off_us = 0 if process is None else process.wall_us
        return (BEGIN_US + int(self._loop.time() * 1e6) + off_us) * 1000

    def time(self) -> float:
        """The same in seconds."""
        return self.time_ns() / 1e9

    def monotonic(self) -> float:
        """The clock of the loop, which never jumps."""
        return self._loop.time()

    def perf_counter(self) -> float:
        """The same."""
        return self._loop.time()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@contextmanager
def seeded(loop: SimulatedLoop, chance: Random) -> Iterator[None]:
    """During the body ids, random bytes and clocks come from the world. Nothing is logged: errors
    are told to the loop.

    Garbage is not collected meanwhile: when that happens is not the seed's to decide.
    """
    owner_name()  # Made once in a process, of chance: of none that the world has.
    simulated = SimulatedTime(loop)
    ids = Random(chance.random())
    with ExitStack() as stack:
        for module in _READ_TIME:
            if "time" not in module.__dict__:
                continue
            stack.callback(setattr, module, "time", module.__dict__["time"])
            setattr(module, "time", simulated)  # noqa: B010
        # It holds the machine's function itself, to be quick.
        stack.callback(setattr, SystemClock, "monotonic", SystemClock.__dict__["monotonic"])
        setattr(SystemClock, "monotonic", staticmethod(simulated.monotonic))  # noqa: B010
        stack.callback(setattr, os, "urandom", os.urandom)
        setattr(os, "urandom", ids.randbytes)  # noqa: B010
        _listen(loop, stack)
        if gc.isenabled():
            gc.disable()
            stack.callback(gc.enable)
        yield


def _listen(loop: SimulatedLoop, stack: ExitStack) -> None:
    log = logging.getLogger("ekiden")
    stack.callback(logging.disable, logging.root.manager.disable)
    stack.callback(log.setLevel, log.level)
    stack.callback(setattr, log, "handlers", log.handlers)
    stack.callback(setattr, log, "propagate", log.propagate)
    log.handlers, log.propagate = [_Listener(loop)], False
    log.setLevel(logging.WARNING)
    logging.disable(logging.INFO)
