"""The parts of a run in memory: clock, deadline, observers, child sessions, interruptions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import field
from types import TracebackType
from typing import Any

from ekiden.core.conversation.model import ModelDelta, ToolSpec
from ekiden.core.dataclass import dataclass
from ekiden.core.events import Event
from ekiden.core.roles import Clock
from ekiden.runtime.state.cursor import Cursor
from ekiden.storage.base import (
    DocumentWrite,
    MessageSettle,
    QueuePut,
    SessionOpening,
)


@dataclass(slots=True, eq=False)
class SideWrites:
    """Writes to other records in the commit of a step, such as documents, messages, answers and
    sessions."""

    documents: list[DocumentWrite] = field(default_factory=list)
    messages: list[QueuePut] = field(default_factory=list)
    settles: list[MessageSettle] = field(default_factory=list)
    openings: list[SessionOpening] = field(default_factory=list)
    wakes: list[str] = field(default_factory=list)
    """Sessions to wake, because there are new records for them."""
    afterwards: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Functions that are called after the commit. If the process dies before, they are not
    called."""

    def extended(self, later: SideWrites) -> SideWrites:
        """These writes, followed by `later` ones."""
        return SideWrites(
            documents=[*self.documents, *later.documents],
            messages=[*self.messages, *later.messages],
            settles=[*self.settles, *later.settles],
            openings=[*self.openings, *later.openings],
            wakes=[*self.wakes, *later.wakes],
            afterwards=[*self.afterwards, *later.afterwards],
        )


NO_SIDE_WRITES = SideWrites()
"""The empty side writes, which never change. Most commits write only their own session and share
this object."""


class WorkClock:
    """Counts the seconds of work on a run, without the time spent waiting for people."""

    __slots__ = ("_began", "_clock", "_stopped_at", "_turn", "deadline")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._stopped_at: float | None = None
        self._turn: asyncio.Lock | None = None
        self.deadline: asyncio.Timeout | None = None
        """Ends the current step when the run's time is used up."""

    def elapsed(self) -> float:
        """Seconds of work since the start, or since the last `lap`."""
        return self._now() - self._began

    def lap(self) -> float:
        """Return `elapsed`, and restart at 0."""
        now = self._now()
        spent, self._began = now - self._began, now
        return spent

    @asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        """Stop the clock during the ``with`` block, which waits for a person. Only one such block
        runs at a time, so people get one question after the other."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            began = self._stopped_at = self._clock.monotonic()
            left = self._suspend()
            try:
                yield
            finally:
                self._began += self._clock.monotonic() - began
                self._stopped_at = None
                if left is not None:
                    self._resume(left)

    def _now(self) -> float:
        return self._clock.monotonic() if self._stopped_at is None else self._stopped_at

    def _suspend(self) -> float | None:
        deadline = self.deadline
        if deadline is None or deadline.expired():
            return None
        when = deadline.when()
        if when is None:
            return None
        deadline.reschedule(None)
        return when - asyncio.get_running_loop().time()

    def _resume(self, left: float) -> None:
        if self.deadline is not None and not self.deadline.expired():
            self.deadline.reschedule(asyncio.get_running_loop().time() + left)


class ChildSessions:
    """The sessions of agents that this run sent questions or notices to."""

    __slots__ = ("eager", "notified", "tasks")

    def __init__(self) -> None:
        self.tasks: dict[str, asyncio.Task[None]] = {}
        """The tasks that run the asked sessions concurrently with this run, by session."""
        self.eager = False
        """Whether each answer is processed on arrival, while other answers are pending."""
        self.notified: list[str] | None = None
        """Sessions that got a notice and have not run yet."""

    async def stop(self, *session_ids: str) -> None:
        """Stop the tasks of these sessions, or all tasks. Another process can resume the
        sessions."""
        stopping = session_ids or tuple(self.tasks)
        tasks = [self.tasks.pop(each) for each in stopping if each in self.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Interruption:
    """Handoff requests of other tasks and processes, which are handled after the current step or at
    once."""

    __slots__ = ("_clock", "_cursor", "_scope", "at_once", "look")

    def __init__(self, cursor: Cursor, clock: WorkClock) -> None:
        self._cursor = cursor
        self._clock = clock
        self._scope: asyncio.Timeout | None = None
        self.look = False
        """Whether there may be stored handoff requests to read at the end of the step."""
        self.at_once = False
        """Whether the current step is interrupted."""

    def want(self, *, at_once: bool) -> None:
        """Note a requested handoff of this session, to be handled after the current step, or
        now."""
        self.look = True
        if at_once:
            self.at_once = True
            if self._cursor.handoffs.is_rolling_back:
                return  # A rollback in progress is finished first.
            if self._scope is not None and not self._scope.expired():
                self._scope.reschedule(asyncio.get_running_loop().time())

    def clear(self) -> None:
        """Note that all requests are handled."""
        self.look = self.at_once = False

    def begin_step(self, scope: asyncio.Timeout) -> None:
        """Note the start of a step. To interrupt the step, `scope` is rescheduled to now."""
        self._clock.deadline = self._scope = scope
        if self.at_once:
            self.want(at_once=True)

    @property
    def is_timed(self) -> bool:
        """Whether the current step has a deadline."""
        return self._scope is not None and self._scope.when() is not None

    def take_time(self) -> None:
        """Remove the deadline of the current step."""
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(None)

    def end_step(self) -> None:
        """Note the end of the step."""
        self._clock.deadline = self._scope = None


@dataclass(slots=True, eq=False)
class TurnOffer:
    """The tools and handoffs of the active agent in this turn, and its prompt block."""

    by_name: dict[str, Any] = field(default_factory=dict)
    """The agent's enabled tools and handoffs, by name."""
    specs: tuple[ToolSpec, ...] = ()
    """The specifications of these tools and handoffs for the model."""
    prompt_block: str | None = None
    """The prompt block about the handoff to the agent; `None` until the block is written."""


class Deadline:
    """The timeout of each model call of a run. Raises `TimeoutError`.

    Works like `asyncio.timeout`, but is cheaper, because one timer serves all waits of the run. A
    timer that fires too early is set again. The event loop keeps a cancelled timer and its context
    for a while. The current context would keep the run alive, so the timer gets an empty context.
    """

    __slots__ = ("_at", "_cancelling", "_task", "_timer", "_when", "expired")

    def __init__(self) -> None:
        self.expired = False
        """Whether the last wait timed out."""
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0
        """The time at which the timer fires."""
        self._when = 0.0
        """The time at which the current wait times out."""
        self._task: asyncio.Task[object] | None = None
        """The waiting task."""
        self._cancelling = 0

    def after(self, seconds: float) -> Deadline:
        """Used as ``with deadline.after(60):``, for one wait."""
        loop = asyncio.get_running_loop()
        self._when = loop.time() + seconds
        if self._timer is None or self._at > self._when:
            self._arm(loop)
        return self

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling, self.expired = task, task.cancelling(), False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        if self.expired and task is not None:
            is_ours = task.uncancel() <= self._cancelling
            if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
                raise TimeoutError from exc

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        self._at = self._when
        self._timer = loop.call_at(self._at, self._fire, context=Context())

    def _fire(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if self._when > self._at:
            self._arm(self._task.get_loop())
        else:
            self.expired = True
            self._task.cancel()


class Outbox:
    """The stored events and the deltas of answers that observers will see, in order."""

    __slots__ = ("_loop", "_news", "_place", "_published", "_seen", "held_back", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Event | ModelDelta] = []
        """Events and deltas that no observer has seen yet."""
        self.held_back: list[ModelDelta] = []
        """Deltas of the last answer, shown only after output guardrails pass."""
        self._published: Sequence[tuple[str, Any]] = ()
        """The data that the turn has published and shown, each with the key of its step."""
        self._place = 0
        """How many of these the current step has published again."""
        self._news: asyncio.Event | None = None
        self._seen: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def show(self, shown: ModelDelta | Event) -> None:
        """Show a delta, or an event of an asked session, to observers. The method is thread-safe,
        because tools may run in threads."""
        self.waiting.append(shown)
        if self._news is not None:
            if self._loop is _running_loop():
                self._news.set()
            elif self._loop is not None:
                self._loop.call_soon_threadsafe(self._news.set)

    def show_answer(self) -> None:
        """Show the deltas that were held back, because the answer passed the guardrails."""
        for each in self.held_back:
            self.show(each)
        self.held_back = []

    def show_published(
        self, key: str, published: ModelDelta, show: Callable[[ModelDelta], None]
    ) -> None:
        """Show the data that the step with this `key` published.

        Code that waited for an answer runs again from its first line. Data that it published before
        the wait is not shown again.
        """
        place, self._place = self._place, self._place + 1
        entry = (key, published.data)
        if list(self._published[place : place + 1]) != [entry]:
            self._published = [*self._published[:place], entry]
            show(published)

    def discard(self) -> None:
        """Take note that the current step starts again."""
        self._place = 0

    def announce(self) -> None:
        """Wake observers, because events were stored."""
        if self._news is not None:
            self._news.set()

    def take(self) -> list[Event | ModelDelta]:
        """Remove and return everything that is not shown yet."""
        taken, self.waiting = self.waiting, []
        return taken

    def watch(self) -> asyncio.Event:
        """An event that is set whenever there is something to `take`."""
        if self._news is None:
            self._news = asyncio.Event()
            self._loop = asyncio.get_running_loop()
        return self._news

    async def until_seen(self) -> None:
        """Wait until the observer has seen everything so far."""
        while self._news is not None and self.waiting:
            self._news.set()
            self._seen = self._seen or asyncio.Event()
            await self._seen.wait()

    def note_all_seen(self) -> None:
        """Note that the observer has seen everything so far."""
        if self._seen is not None:
            self._seen.set()
            self._seen = None


NO_OUTBOX = Outbox()
"""The outbox of runs without observers. They share it, because it stays empty."""


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
