"""Tracks calls in progress, including threads that outlive a cancelled call, and runs sync
functions in threads.

Cancelling a call ends the waiting coroutine, but not the thread that it waits for. A rollback must
not undo an effect that has not happened yet. Each part of a call that continues on its own is
therefore registered here, by session, until it ends.

`asyncio.to_thread` and `loop.run_in_executor` do not report the end of a thread whose waiter was
cancelled. In loops with calls that may be undone, `run_in_executor` is therefore replaced by a
version that registers its threads. Threads that a tool itself starts are not registered.
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
"""The call that the running code belongs to; `None` if no rollback can undo the call."""
_waiting: ContextVar[asyncio.Task[Any] | None] = ContextVar("ekiden_waiting_task", default=None)
waiting_task = _waiting.get
"""The task that waits for the current thread, if `in_thread` started the thread."""
_lock = threading.Lock()
_unfinished: dict[str, dict[_Part, CallUnderWay]] = {}
"""The parts that have not ended, with their calls, by session."""
_HARMLESS = (socket.getaddrinfo, socket.getnameinfo)
"""Functions that event loops run in threads themselves; they have no effects."""
_watched_loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


class Undoable(Protocol):
    """A run whose calls a rollback may have to undo."""

    @property
    def session_key(self) -> str:
        """The key of the run's session."""

    @property
    def rollback_wait_s(self) -> float:
        """The number of seconds for which a request may continue after its wait was cancelled."""


class CallUnderWay:
    """A call of a tool, or a step of an agent, that a rollback may have to undo.

    The body of ``with call:`` belongs to the call. If `watch_threads` was called for the loop,
    tasks and threads that the body starts also belong to it. Every step after a handoff creates
    such an object, so the creation must be cheap. Details are looked up only when a part continues
    on its own.
    """

    __slots__ = ("_token", "compensations", "name", "run")

    _token: Token[CallUnderWay | None]

    def __init__(self, run: Undoable, name: str) -> None:
        self.run = run
        self.name = name
        """The name of the tool or agent, for people."""
        self.compensations: tuple[str, ...] = ()
        """The keys of the compensations that the call registered."""

    def __enter__(self) -> None:
        self._token = _current.set(self)

    def __exit__(self, *exc_info: object) -> None:
        _current.reset(self._token)

    def registered(self) -> set[str]:
        """The compensations of this call and of its outer calls, which may undo its effect."""
        outer = self._token.old_value
        keys = set(self.compensations)
        return keys | outer.registered() if isinstance(outer, CallUnderWay) else keys

    def begin_part(self) -> _Part:
        """Register a part that continues on its own; call `end_part` when it has ended."""
        part: _Part = Future()
        with _lock:
            _unfinished.setdefault(self.run.session_key, {})[part] = self
        return part

    def end_part(self, part: _Part) -> None:
        """Mark a part as ended. This method is thread-safe and idempotent."""
        with _lock:
            session = self.run.session_key
            parts = _unfinished.get(session, {})
            if parts.pop(part, None) is None:
                return
            if not parts:
                del _unfinished[session]
        part.set_result(None)


class WithoutEffects:
    """Marks the body of a ``with`` statement as free of side effects, such as a model call. No
    rollback waits for the body."""

    __slots__ = ("_token",)

    _token: Token[CallUnderWay | None]

    def __enter__(self) -> None:
        self._token = _current.set(None)

    def __exit__(self, *exc_info: object) -> None:
        _current.reset(self._token)


async def unfinished_calls(session: str, wait_s: float) -> list[CallUnderWay]:
    """Wait until the session's calls have ended, at most `wait_s` seconds. Return the calls that
    have not ended.

    The returned calls are no longer registered.
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
        # A part that ends may have started another one, so the loop looks again.
        await asyncio.wait(map(asyncio.wrap_future, parts), timeout=left_s)
    with _lock:
        left = _unfinished.pop(session, {})
    return list(dict.fromkeys(left.values()))


async def even_if_cancelled(request: Coroutine[Any, Any, T]) -> T:
    """Await a request that cannot be undone after it is sent.

    If the wait is cancelled in a call that may be rolled back, the request continues as a part of
    the call, for at most `rollback_wait_s`.
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
        task.exception()  # Retrieved, so that asyncio does not report it as never retrieved.
    call.end_part(part)


def watch_threads() -> None:
    """Register the threads that calls in the running loop wait for."""
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

    with suppress(AttributeError):  # A loop with read-only attributes: its threads are not seen.
        loop.run_in_executor = run_in_executor  # type: ignore[method-assign, assignment]


class _Job:
    """A function for the loop's default executor that reports its end.

    A job that the executor drops before it starts has also ended; `__del__` reports it.
    """

    __slots__ = ("_args", "_func", "_on_end")

    def __init__(
        self, func: Callable[..., Any], args: tuple[Any, ...], on_end: Callable[[], None]
    ) -> None:
        self._func = func
        self._args = args
        self._on_end = on_end

    def __call__(self) -> Any:
        try:
            return self._func(*self._args)
        finally:
            self._on_end()

    def __del__(self) -> None:
        self._on_end()


# Threads for sync functions, one per call under way.
#
# The default executor of an event loop is not suitable for functions that may hang. It has few
# threads, so a few hung calls block all others, and closing the loop waits for all of them. Here no
# call queues behind another, and the threads are daemons: neither a loop nor the process waits for
# a call that was given up.


_MAX_IDLE = 32
"""Maximum number of idle threads; further threads end with their call."""

_ThreadJob: TypeAlias = Callable[[], None]
_Ended: TypeAlias = asyncio.Future[tuple[Any, BaseException | None]]

_idle: list[SimpleQueue[_ThreadJob]] = []
"""The job queues of the idle threads; the thread used last is taken first."""
_numbers = itertools.count(1)


async def in_thread(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run ``func(*args, **kwargs)`` in a thread with the same context variables.

    If the wait is cancelled, the call continues, because a thread cannot be stopped.
    """
    loop = asyncio.get_running_loop()
    ended: _Ended = loop.create_future()
    context = copy_context()
    context.run(_waiting.set, asyncio.current_task())
    call = partial(context.run, func, *args, **kwargs)
    on_end = None
    if (under_way := current_call()) is not None:
        on_end = partial(under_way.end_part, under_way.begin_part())
    _start(partial(_run, call, loop, ended, on_end))
    value, failure = await ended
    if failure is None:
        return value
    try:
        raise failure
    finally:
        del failure, ended  # The traceback refers to this frame: a reference cycle.


def _run(
    call: Callable[[], Any],
    loop: asyncio.AbstractEventLoop,
    ended: _Ended,
    on_end: Callable[[], None] | None,
) -> None:
    value: Any = None
    failure: BaseException | None = None
    try:
        value = call()
    except BaseException as exc:
        failure = exc
    if on_end is not None:
        on_end()
    with suppress(RuntimeError):  # The loop is closed, so nothing waits for the result.
        loop.call_soon_threadsafe(_settle, ended, value, failure)
    del failure, ended


def _settle(ended: _Ended, value: Any, failure: BaseException | None) -> None:
    if not ended.done():
        ended.set_result((value, failure))


def _start(job: _ThreadJob) -> None:
    try:
        jobs = _idle.pop()
    except IndexError:
        from queue import SimpleQueue

        jobs = SimpleQueue()
        name = f"ekiden-tool-{next(_numbers)}"
        threading.Thread(target=_serve, args=(jobs,), name=name, daemon=True).start()
    jobs.put(job)


def _serve(jobs: SimpleQueue[_ThreadJob]) -> None:
    while True:
        job = jobs.get()
        job()
        del job
        if len(_idle) >= _MAX_IDLE:
            return
        _idle.append(jobs)


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads.
    os.register_at_fork(after_in_child=_idle.clear)


def is_being_cancelled() -> bool:
    """Whether the running task was cancelled.

    If not, a `CancelledError` comes from something that the task awaited, as in ``task.cancel();
    await task``. Such an error is a failure like any other.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
