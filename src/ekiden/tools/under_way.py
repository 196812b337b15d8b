"""Work that outlives its caller: threads for sync functions, cancellation, calls under way.

Cancelling a call ends the coroutine that waits, not the thread that it waits for. A rollback must
not undo an effect that is still to come, so every such part of a call is known here until it ends,
by the session that made the call.

`asyncio.to_thread` and `loop.run_in_executor` tell nobody when a thread that was given up ends. The
loop's `run_in_executor` is therefore replaced, for loops in which a call that may be undone is
made, by one that does the same and keeps count. A thread that a tool starts by itself is not seen.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import suppress
from contextvars import ContextVar, Token, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from queue import SimpleQueue

T = TypeVar("T")
_Part: TypeAlias = "Future[None]"

_current: ContextVar[CallUnderWay | None] = ContextVar("ekiden_call_under_way", default=None)
current_call = _current.get
"""The call that the running code belongs to; `None` if no rollback could undo it."""
_lock = threading.Lock()
_unfinished: dict[str, dict[_Part, CallUnderWay]] = {}
"""By session, what has not ended."""
_HARMLESS = (socket.getaddrinfo, socket.getnameinfo)
"""What loops look up in threads of their own accord."""
_watched_loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


class Undoable(Protocol):
    """A run whose calls a rollback may have to undo."""

    @property
    def session_key(self) -> str:
        """What its session is known by."""

    @property
    def rollback_wait_s(self) -> float:
        """How long a request of it goes on at most after it was given up."""


class CallUnderWay:
    """A call of a tool, or the step of an agent, that a rollback may have to undo.

    The body of ``with call:`` is part of it, with the tasks and threads that the body starts, in a
    loop of which `watch_threads` was told. Every step after a handoff is one, so making it costs
    next to nothing: all else is looked up when something goes on by itself.
    """

    __slots__ = ("_token", "compensations", "name", "run")

    _token: Token[CallUnderWay | None]

    def __init__(self, run: Undoable, name: str) -> None:
        self.run = run
        self.name = name
        """Of the tool or agent, for people."""
        self.compensations: tuple[str, ...] = ()
        """The keys of the compensations that it registered."""

    def __enter__(self) -> None:
        self._token = _current.set(self)

    def __exit__(self, *exc_info: object) -> None:
        _current.reset(self._token)

    def registered(self) -> set[str]:
        """The compensations of it and of the calls around it: they may be about its effect."""
        outer = self._token.old_value
        keys = set(self.compensations)
        return keys | outer.registered() if isinstance(outer, CallUnderWay) else keys

    def begin_part(self) -> _Part:
        """Something of the call goes on by itself from now on; `end_part` when it has ended."""
        part: _Part = Future()
        with _lock:
            _unfinished.setdefault(self.run.session_key, {})[part] = self
        return part

    def end_part(self, part: _Part) -> None:
        """It has ended; any thread may say so, also twice."""
        with _lock:
            session = self.run.session_key
            parts = _unfinished.get(session, {})
            if parts.pop(part, None) is None:
                return
            if not parts:
                del _unfinished[session]
        part.set_result(None)


class WithoutEffects:
    """The body of the `with` changes nothing outside, such as a call of a model: no rollback waits
    for it."""

    __slots__ = ("_token",)

    _token: Token[CallUnderWay | None]

    def __enter__(self) -> None:
        self._token = _current.set(None)

    def __exit__(self, *exc_info: object) -> None:
        _current.reset(self._token)


async def unfinished_calls(session: str, wait_s: float) -> list[CallUnderWay]:
    """Wait for what goes on of the session's calls; those that have not ended within `wait_s`.

    They are forgotten.
    """
    if session not in _unfinished:
        return []
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    while True:
        with _lock:
            parts = list(_unfinished.get(session, ()))
        left_s = deadline - loop.time()
        if not parts or left_s <= 0:
            break
        # One that ends may have begun another.
        await asyncio.wait(map(asyncio.wrap_future, parts), timeout=left_s)
    with _lock:
        left = _unfinished.pop(session, {})
    return list(dict.fromkeys(left.values()))


async def even_if_cancelled(request: Coroutine[Any, Any, T]) -> T:
    """Await a request that cannot be taken back once it is sent.

    A cancelled wait, in a call that may be rolled back, leaves it alone: it continues as a part of
    the call, for as long as a rollback would wait for it.
    """
    call = _current.get()
    if call is None:
        return await request
    task = asyncio.ensure_future(request)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            part, loop = call.begin_part(), asyncio.get_running_loop()
            giving_up = loop.call_later(call.run.rollback_wait_s, task.cancel)
            task.add_done_callback(partial(_end_request, call, part, giving_up))
        raise


def _end_request(
    call: CallUnderWay, part: _Part, giving_up: asyncio.TimerHandle, task: asyncio.Task[Any]
) -> None:
    giving_up.cancel()
    if not task.cancelled():
        task.exception()  # Nobody waits for it any more: it is not to be reported as unseen.
    call.end_part(part)


def watch_threads() -> None:
    """Keep count of the threads that calls wait for in the loop that runs."""
    loop = asyncio.get_running_loop()
    if loop in _watched_loops:
        return
    _watched_loops.add(loop)
    plain = loop.run_in_executor

    def run_in_executor(
        executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        call = _current.get()
        if call is None or func in _HARMLESS:
            return plain(executor, func, *args)
        part = call.begin_part()
        try:
            if executor is None:
                return plain(None, _Job(func, args, partial(call.end_part, part)))
            job = executor.submit(func, *args)
        except BaseException:
            call.end_part(part)
            raise
        job.add_done_callback(lambda _: call.end_part(part))
        return asyncio.wrap_future(job, loop=loop)

    with suppress(AttributeError):  # A loop that cannot be changed: its threads are not seen.
        loop.run_in_executor = run_in_executor  # type: ignore[method-assign, assignment]


class _Job:
    """A function for the loop's own executor, which gives no sign of its end but to its caller.

    One that is dropped from the queue before it began has ended, too.
    """

    __slots__ = ("_args", "_func", "_is_over")

    def __init__(
        self, func: Callable[..., Any], args: tuple[Any, ...], is_over: Callable[[], None]
    ) -> None:
        self._func = func
        self._args = args
        self._is_over = is_over

    def __call__(self) -> Any:
        try:
            return self._func(*self._args)
        finally:
            self._is_over()

    def __del__(self) -> None:
        self._is_over()


# Threads for sync functions: one for each call under way, and none that anybody waits for.
#
# An event loop's own executor is no place for a function that may hang. It has a few threads, so
# that some hung calls keep every other call waiting, and the end of the loop waits for all of
# them. Here a call never queues behind another, and the threads are daemons: neither a loop nor
# the process waits for a call that was given up.


_MAX_IDLE = 32
"""More threads than this end when their call does."""

_ThreadJob: TypeAlias = Callable[[], None]
_Ended: TypeAlias = asyncio.Future[tuple[Any, BaseException | None]]

_idle: list[SimpleQueue[_ThreadJob]] = []
"""The doors of the threads that have nothing to do; the one used last is taken first."""
_numbers = itertools.count(1)


async def in_thread(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What ``func(*args, **kwargs)`` gives or raises, run in a thread with the same context
    variables.

    A cancelled wait leaves the call alone: a thread cannot be stopped.
    """
    loop = asyncio.get_running_loop()
    ended: _Ended = loop.create_future()
    call = partial(copy_context().run, func, *args, **kwargs)
    is_over = None
    if (under_way := current_call()) is not None:
        is_over = partial(under_way.end_part, under_way.begin_part())
    _start(partial(_make, call, loop, ended, is_over))
    value, failure = await ended
    if failure is None:
        return value
    try:
        raise failure
    finally:
        del failure, ended  # its traceback has this frame: they would keep each other alive


def _make(
    call: Callable[[], Any],
    loop: asyncio.AbstractEventLoop,
    ended: _Ended,
    is_over: Callable[[], None] | None,
) -> None:
    value: Any = None
    failure: BaseException | None = None
    try:
        value = call()
    except BaseException as exc:
        failure = exc
    if is_over is not None:
        is_over()
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_settle, ended, value, failure)
    del failure, ended


def _settle(ended: _Ended, value: Any, failure: BaseException | None) -> None:
    if not ended.done():
        ended.set_result((value, failure))


def _start(job: _ThreadJob) -> None:
    try:
        door = _idle.pop()
    except IndexError:
        from queue import SimpleQueue

        door = SimpleQueue()
        name = f"ekiden-tool-{next(_numbers)}"
        threading.Thread(target=_serve, args=(door,), name=name, daemon=True).start()
    door.put(job)


def _serve(door: SimpleQueue[_ThreadJob]) -> None:
    while True:
        job = door.get()
        job()
        del job
        if len(_idle) >= _MAX_IDLE:
            return
        _idle.append(door)


if hasattr(os, "register_at_fork"):
    # A child of a fork has none of its parent's threads.
    os.register_at_fork(after_in_child=_idle.clear)


def is_being_cancelled() -> bool:
    """Whether the running task was asked to stop.

    If not, a `CancelledError` comes from below: something that was awaited is cancelled, as in
    ``task.cancel(); await task``, and that is a failure like any other.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
