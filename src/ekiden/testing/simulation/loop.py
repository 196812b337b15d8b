"""The event loop of a simulation, with simulated processes, time and random numbers. All of them
depend only on the seed.

Callbacks of one simulated process keep their order, as in asyncio. The seed decides which process
is next. Callbacks of a killed process do not run. Callbacks of a frozen process wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import heapq
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import Context, ContextVar, copy_context
from random import Random
from types import ModuleType
from typing import Any, TypeVar, TypeVarTuple, Unpack

import ekiden.bus.delivery
import ekiden.conditions.program
import ekiden.core.values
from ekiden.core.errors import EkidenError
from ekiden.core.values import SystemClock, owner_name

PROCESS: ContextVar[Process | None] = ContextVar("simulated_process", default=None)
"""The process that runs the current code. Each task inherits the process of its creator."""


class Process:
    """A simulated process. A restarted program runs in a new process."""

    __slots__ = ("held", "is_dead", "is_frozen", "main", "name", "wall_us")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        self.wall_us = 0
        """The error of its wall clock."""
        self.held: list[asyncio.Handle] = []
        """Callbacks that became due while it was frozen or dead."""
        self.main: asyncio.Task[None] | None = None

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the program in a context that marks all its tasks as tasks of this process."""
        context = copy_context()
        context.run(PROCESS.set, self)
        self.main = asyncio.get_running_loop().create_task(work, context=context)

    def __repr__(self) -> str:
        return f"<Process {self.name}>"


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_CANCEL_ROUNDS = 50
_MANY = 50


class Stuck(RuntimeError):
    """No callback is ready and no timer is due, so the remaining waits would never end."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """An asyncio event loop with a virtual clock and a seeded order of callbacks.

    It uses private fields of asyncio's handles, which the type stubs do not declare.
    """

    _ready: deque[Any]
    _timer_cancelled_count: int

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self.set_debug(False)
        self._chance = chance
        self._now = 0.0
        self._due: list[tuple[float, int, Any]] = []
        """Timers by time, then in the order in which they were set."""
        self._timers = 0
        self._tasks: list[Any] = []
        self.current: Process | None = None
        """The process whose callback runs."""
        self.turns = 0
        """The number of executed callbacks."""
        self.no_process: Context = copy_context()
        """The context of callbacks that belong to no process, such as the network's."""

    def time(self) -> float:
        """Simulated seconds since the start."""
        return self._now

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Like asyncio, without its checks."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon
    """The simulation has only one thread."""

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Like asyncio. Timers with the same time run in the order in which they were set."""
        timer: Any = asyncio.TimerHandle(when, callback, args, self, context)
        # asyncio counts cancelled timers only if they have this mark (see `_advance`).
        timer._scheduled = True
        self._timers += 1
        heapq.heappush(self._due, (when, self._timers, timer))
        made: asyncio.TimerHandle = timer
        return made

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Like `call_at`."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def create_task(
        self, coro: Coroutine[Any, Any, T] | Generator[Any, None, T], **options: Any
    ) -> asyncio.Task[T]:
        """Like asyncio, with a strong reference to each task."""
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, **options)
        self._tasks.append(task)
        return task

    def unread_errors(self) -> Iterator[BaseException]:
        """Exceptions of tasks whose result was never read."""
        for task in self._tasks:
            if task._log_traceback:
                yield task.exception()

    def thaw(self, process: Process) -> None:
        """Schedule the callbacks that became due while the process was frozen or dead."""
        held, process.held = process.held, []
        self._ready.extend(held)

    def _run_once(self) -> None:
        """Run all ready callbacks, in an order that keeps the order within each process."""
        ready = self._ready
        if not ready:
            self._advance()
        if len(ready) == 1:
            only = ready.popleft()
            self._run(only, only._context.get(PROCESS))
            self.current = None
            return
        batch = list(ready)
        ready.clear()
        queues = self._by_process(batch)
        order = [process for process, queue in queues.items() for _ in queue]
        if len(queues) > 1:
            self._chance.shuffle(order)
        for process in order:
            self._run(queues[process].popleft(), process)
        self.current = None

    def _advance(self) -> None:
        """Advance the time until a callback is ready."""
        due, ready = self._due, self._ready
        if self._timer_cancelled_count > _MANY and 2 * self._timer_cancelled_count > len(due):
            self._remove_cancelled()
            due = self._due
        while not ready:
            while due and due[0][2]._cancelled:
                self._pop()
            if not due:
                raise Stuck("nothing is ready and nothing is due")
            now = self._now = max(self._now, due[0][0])
            while due and due[0][0] <= now:
                handle = self._pop()
                if not handle._cancelled:
                    ready.append(handle)

    def _remove_cancelled(self) -> None:
        kept = []
        for each in self._due:
            if each[2]._cancelled:
                each[2]._scheduled = False
            else:
                kept.append(each)
        heapq.heapify(kept)
        self._due = kept
        self._timer_cancelled_count = 0

    def _pop(self) -> Any:
        handle = heapq.heappop(self._due)[2]
        handle._scheduled = False
        if handle._cancelled:
            self._timer_cancelled_count -= 1
        return handle

    def _by_process(self, batch: list[Any]) -> dict[Process | None, deque[Any]]:
        """The callbacks by process. Callbacks of dead and frozen processes are held back."""
        queues: dict[Process | None, deque[Any]] = {}
        for handle in batch:
            process = handle._context.get(PROCESS)
            if process is not None and (process.is_dead or process.is_frozen):
                process.held.append(handle)
                continue
            queues.setdefault(process, deque()).append(handle)
        return queues

    def _run(self, handle: Any, process: Process | None) -> None:
        # An earlier callback of the same turn may have killed or frozen the process.
        if process is not None and (process.is_dead or process.is_frozen):
            process.held.append(handle)
            return
        if handle._cancelled:
            return
        self.current = process
        self.turns += 1
        handle._run()

    def cancel_all(self) -> None:
        """Cancel all tasks after the end of the simulation.

        Otherwise the garbage collector would close the coroutines at any later time.
        """
        self._tasks.clear()
        for _ in range(_CANCEL_ROUNDS):
            tasks = asyncio.all_tasks(self)
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            ended = asyncio.gather(*tasks, return_exceptions=True)
            with contextlib.suppress(TimeoutError, Stuck):
                self.run_until_complete(_wait_briefly(ended))

    def _process_events(self, event_list: list[Any]) -> None:
        """Does nothing: the simulation has no sockets."""

    def _write_to_self(self) -> None:
        """Does nothing: no other thread waits for the loop."""


async def _wait_briefly(ended: asyncio.Future[Any]) -> None:
    async with asyncio.timeout(60):
        await asyncio.shield(ended)


def run_sync(work: Coroutine[Any, Any, T], *, may_yield: bool = False) -> T:
    """Run a coroutine that waits for nothing, and return its result. With `may_yield`, the
    coroutine may yield to other tasks with ``sleep(0)``."""
    while True:
        try:
            work.send(None)
        except StopIteration as done:
            value: T = done.value
            return value
        if not may_yield:
            work.close()
            raise RuntimeError("the simulated store waited for something")


BEGIN_US = 1_700_000_000_000_000
"""The wall clock at the start of every simulation, in microseconds since 1970."""

_CLOCK_READERS: tuple[ModuleType, ...] = (
    ekiden.bus.delivery,
    ekiden.conditions.program,
    ekiden.core.values,
)
"""Modules that read the machine's clocks."""


class _ErrorHandler(logging.Handler):
    """Reports logged exceptions to the loop: a bug that the runtime only logs must fail the
    simulation."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        exc = record.exc_info[1] if record.exc_info else None
        is_expected = isinstance(exc, EkidenError) and record.levelno < logging.ERROR
        if exc is not None and not is_expected:
            self._loop.call_exception_handler({"message": record.getMessage(), "exception": exc})


class SimulatedTime:
    """Replaces the module `time`. Each process has its own wall clock."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def time_ns(self) -> int:
        """The wall clock of the current process."""
        process = self._loop.current
        off_us = 0 if process is None else process.wall_us
        return (BEGIN_US + int(self._loop.time() * 1e6) + off_us) * 1000

    def time(self) -> float:
        """The wall clock in seconds."""
        return self.time_ns() / 1e9

    def monotonic(self) -> float:
        """The clock of the loop, which never jumps."""
        return self._loop.time()

    perf_counter = monotonic

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@contextmanager
def seeded(loop: SimulatedLoop, chance: Random) -> Iterator[None]:
    """Inside the block, ids, random bytes and clocks come from the simulation, and logged
    exceptions go to the loop.

    The garbage collector is off, because the time of a collection does not depend on the seed.
    """
    owner_name()  # Computed once per process; inside the block it would use seeded random bytes.
    simulated = SimulatedTime(loop)
    ids = Random(chance.random())
    with ExitStack() as stack:
        for module in _CLOCK_READERS:
            stack.callback(setattr, module, "time", module.__dict__["time"])
            setattr(module, "time", simulated)  # noqa: B010
        # For speed, this class has a reference to the function itself.
        stack.callback(setattr, SystemClock, "monotonic", SystemClock.__dict__["monotonic"])
        setattr(SystemClock, "monotonic", staticmethod(simulated.monotonic))  # noqa: B010
        stack.callback(setattr, os, "urandom", os.urandom)
        setattr(os, "urandom", ids.randbytes)  # noqa: B010
        _capture_logs(loop, stack)
        if gc.isenabled():
            gc.disable()
            stack.callback(gc.enable)
        yield


def _capture_logs(loop: SimulatedLoop, stack: ExitStack) -> None:
    log = logging.getLogger("ekiden")
    stack.callback(logging.disable, logging.root.manager.disable)
    stack.callback(log.setLevel, log.level)
    stack.callback(setattr, log, "handlers", log.handlers)
    stack.callback(setattr, log, "propagate", log.propagate)
    log.handlers, log.propagate = [_ErrorHandler(loop)], False
    log.setLevel(logging.WARNING)
    logging.disable(logging.INFO)
