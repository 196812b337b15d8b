"""The parts of a run in memory: clock, deadline, observers, child sessions, interruptions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
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
    """Writes to other records in the commit of a step: documents, messages, answers, sessions."""

    documents: list[DocumentWrite] = field(default_factory=list)
    messages: list[QueuePut] = field(default_factory=list)
    settles: list[MessageSettle] = field(default_factory=list)
    openings: list[SessionOpening] = field(default_factory=list)
    wakes: list[str] = field(default_factory=list)
    """Sessions to wake, because something was written for them."""
    afterwards: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Called after the commit; lost if the process dies before."""

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
"""Never changed: most commits write only their own session."""


@dataclass(slots=True, eq=False)
class SharedBudgets:
    """Budgets that the run shares with the sessions that asked it; see `runtime.state.budget`."""

    outer: tuple[str, ...] = ()
    """Keys of the shared budgets of the askers."""
    held: str | None = None
    """The model call that has reserved a part of them."""
    charged: list[object] | None = None
    """The amounts of the last charge."""


class WorkClock:
    """Counts the seconds of a run, but for those in which it waits for a person."""

    __slots__ = ("_began", "_clock", "_stopped_at", "_turn", "deadline")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._stopped_at: float | None = None
        self._turn: asyncio.Lock | None = None
        self.deadline: asyncio.Timeout | None = None
        """What ends the step under way when the run's time is up."""

    def elapsed(self) -> float:
        """Seconds since the beginning, or since the last `lap`."""
        return self._now() - self._began

    def lap(self) -> float:
        """`elapsed`, and start counting again at 0."""
        now = self._now()
        spent, self._began = now - self._began, now
        return spent

    @asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        """Stop the clock inside the block, which waits for a person; people are asked in turn."""
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

    __slots__ = ("eager", "tasks", "told")

    def __init__(self) -> None:
        self.tasks: dict[str, asyncio.Task[None]] = {}
        """By session: the tasks that run those who answer questions, concurrently with the run."""
        self.eager = False
        """Whether each answer is processed on arrival, while others are pending."""
        self.told: list[str] | None = None
        """Sessions that got a notice and have yet to be run."""

    async def stop(self, *session_ids: str) -> None:
        """Stop the tasks of these sessions, or all tasks; another process can resume them."""
        chosen = session_ids or tuple(self.tasks)
        tasks = [self.tasks.pop(each) for each in chosen if each in self.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Interruption:
    """Requests from outside of the run: noticed after the current step, or at once."""

    __slots__ = ("_clock", "_cursor", "_scope", "at_once", "look")

    def __init__(self, cursor: Cursor, clock: WorkClock) -> None:
        self._cursor = cursor
        self._clock = clock
        self._scope: asyncio.Timeout | None = None
        self.look = False
        """Whether to read handoff requests from the store at the end of the step."""
        self.at_once = False
        """Whether the current step is cut short."""

    def want(self, *, at_once: bool) -> None:
        """A handoff of this session was requested: handle it after the current step, or now."""
        self.look = True
        if at_once:
            self.at_once = True
            if self._cursor.handoffs.is_rolling_back:
                return  # A rollback that was begun is finished first.
            if self._scope is not None and not self._scope.expired():
                self._scope.reschedule(asyncio.get_running_loop().time())

    def clear(self) -> None:
        """All requests are handled."""
        self.look = self.at_once = False

    def begin_step(self, scope: asyncio.Timeout) -> None:
        """A step begins; rescheduling `scope` cuts it short."""
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
        """The step is over."""
        self._clock.deadline = self._scope = None


@dataclass(slots=True, eq=False)
class TurnOffer:
    """The tools and handoffs of the active agent in this turn, and its prompt block."""

    by_name: dict[str, Any] = field(default_factory=dict)
    """By name: its enabled tools and handoffs."""
    specs: tuple[ToolSpec, ...] = ()
    """Their specifications for the model."""
    prompt_block: str | None = None
    """The block of its prompt about the handoff to it, once it is written."""


class Deadline:
    """Limits each model call of a run to its time-out: `TimeoutError`.

    Does what `asyncio.timeout` does, with one timer for all waits of the run: a timer that fires
    too early is set again. The event loop keeps a cancelled timer, and the context it was made in,
    for a while. That context would keep the run alive, so the timer gets an empty one.
    """

    __slots__ = ("_at", "_cancelling", "_task", "_timer", "_when", "expired")

    def __init__(self) -> None:
        self.expired = False
        """Whether the last wait timed out."""
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0
        """When the timer fires."""
        self._when = 0.0
        """When the current wait times out."""
        self._task: asyncio.Task[object] | None = None
        """The waiting task."""
        self._cancelling = 0

    def after(self, seconds: float) -> Deadline:
        """``with deadline.after(60):`` is one wait."""
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
    """Stored events and pieces of answers for observers, in order."""

    __slots__ = ("_loop", "_news", "_place", "_published", "_seen", "held_back", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Event | ModelDelta] = []
        """Not shown yet."""
        self.held_back: list[ModelDelta] = []
        """Pieces of the last answer, shown only after output guardrails pass."""
        self._published: list[tuple[str, Any]] = []
        """What the turn published and showed before the commit, with the key of its step."""
        self._place = 0
        """How many of them the current step has published again."""
        self._news: asyncio.Event | None = None
        self._seen: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def show(self, shown: ModelDelta | Event) -> None:
        """Show observers a piece of an answer, which is not stored, or an event of a session that
        answers this one. Thread-safe, for tools in threads."""
        self.waiting.append(shown)
        if self._news is not None:
            if self._loop is _running_loop():
                self._news.set()
            elif self._loop is not None:
                self._loop.call_soon_threadsafe(self._news.set)

    def show_answer(self) -> None:
        """The answer passed the guardrails: show the pieces that were held back."""
        for each in self.held_back:
            self.show(each)
        self.held_back = []

    def show_published(
        self, key: str, published: ModelDelta, show: Callable[[ModelDelta], None]
    ) -> None:
        """Show what the step of this `key` published.

        Code that waited for an answer is run again from its beginning: what it published before is
        not shown again.
        """
        place, self._place = self._place, self._place + 1
        told = (key, published.data)
        if self._published[place : place + 1] != [told]:
            self._published = [*self._published[:place], told]
            show(published)

    def discard(self) -> None:
        """The current step restarts."""
        self._place = 0

    def announce(self) -> None:
        """Tell observers that events were stored."""
        if self._news is not None:
            self._news.set()

    def take(self) -> list[Event | ModelDelta]:
        """Remove and return everything that is not shown yet."""
        taken, self.waiting = self.waiting, []
        return taken

    def watch(self) -> asyncio.Event:
        """Set whenever there is something to `take`."""
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
        """The observer has seen everything so far."""
        if self._seen is not None:
            self._seen.set()
            self._seen = None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
