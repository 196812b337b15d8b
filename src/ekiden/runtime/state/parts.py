"""The parts of a run in memory: clock, deadline, observers, child sessions, interruptions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from ekiden.core.conversation.model import ModelDelta, ToolSpec
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
class Beside:
    """Documents, messages, answers, and sessions of others; and what follows from it all."""

    documents: list[DocumentWrite] = field(default_factory=list)
    messages: list[QueuePut] = field(default_factory=list)
    settles: list[MessageSettle] = field(default_factory=list)
    openings: list[SessionOpening] = field(default_factory=list)
    wakes: list[str] = field(default_factory=list)
    """Sessions that have to look at what was written."""
    afterwards: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Done once it is stored, if the process lives that long."""

    def extended(self, later: Beside) -> Beside:
        """This, and what came later."""
        return Beside(
            documents=[*self.documents, *later.documents],
            messages=[*self.messages, *later.messages],
            settles=[*self.settles, *later.settles],
            openings=[*self.openings, *later.openings],
            wakes=[*self.wakes, *later.wakes],
            afterwards=[*self.afterwards, *later.afterwards],
        )


NOTHING = Beside()
"""Never changed: what most commits write beside their session."""


@dataclass(slots=True, eq=False)
class SharedBudgets:
    """What the run spends from together with those who asked; see `runtime.state.budget`."""

    outer: tuple[str, ...] = ()
    """Purses of those who asked."""
    held: str | None = None
    """The model call that holds something of them."""
    charged: list[object] | None = None
    """What the last charge said."""


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
        """The same, and begin anew."""
        now = self._now()
        spent, self._began = now - self._began, now
        return spent

    @asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        """Wait for a person in here: the clock stands still, and people are asked one by one."""
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
    """The sessions of agents that a run asked or told something."""

    __slots__ = ("eager", "tasks", "told")

    def __init__(self) -> None:
        self.tasks: dict[str, asyncio.Task[None]] = {}
        """By session: those that answer the run's questions and are run beside it."""
        self.eager = False
        """Whether every answer is looked at as it comes, while others are awaited."""
        self.told: list[str] | None = None
        """Those that were told something, to be run by somebody."""

    async def stop(self, *session_ids: str) -> None:
        """Stop running these beside the run, or all; whoever wants their answer goes on with
        them."""
        chosen = session_ids or tuple(self.tasks)
        tasks = [self.tasks.pop(each) for each in chosen if each in self.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Interruption:
    """What somebody outside wants of a run, as soon as it can be."""

    __slots__ = ("_clock", "_cursor", "_scope", "at_once", "look")

    def __init__(self, cursor: Cursor, clock: WorkClock) -> None:
        self._cursor = cursor
        self._clock = clock
        self._scope: asyncio.Timeout | None = None
        self.look = False
        """Look into the store for requests of handoffs, at the end of the step."""
        self.at_once = False
        """The step under way is not to be finished."""

    def want(self, *, at_once: bool) -> None:
        """Somebody asked for a handoff of this session: look at the end of the step, or now."""
        self.look = True
        if at_once:
            self.at_once = True
            if self._cursor.handoffs.is_rolling_back:
                return  # A rollback that was begun is finished first.
            if self._scope is not None and not self._scope.expired():
                self._scope.reschedule(asyncio.get_running_loop().time())

    def clear(self) -> None:
        """Nobody wants anything any more."""
        self.look = self.at_once = False

    def begin_step(self, scope: asyncio.Timeout) -> None:
        """A step begins that `scope` can end."""
        self._clock.deadline = self._scope = scope
        if self.at_once:
            self.want(at_once=True)

    @property
    def is_timed(self) -> bool:
        """Whether the step under way is cut short after some time."""
        return self._scope is not None and self._scope.when() is not None

    def take_time(self) -> None:
        """The step under way is not to be cut short any more."""
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(None)

    def end_step(self) -> None:
        """The step is over."""
        self._clock.deadline = self._scope = None


@dataclass(slots=True, eq=False)
class TurnOffer:
    """What the active agent may use this turn, and is told about the task."""

    by_name: dict[str, Any] = field(default_factory=dict)
    """By name, the tools and handoffs that it may use."""
    specs: tuple[ToolSpec, ...] = ()
    """How its model is told of them."""
    prompt_block: str | None = None
    """What its model is told of the handoff to it, once that is made up."""


class Deadline:
    """Cuts one wait of a run short after the other, each after its time: `TimeoutError`.

    It does what `asyncio.timeout` does, with one timer for all waits of the run: one that fires too
    early is set again. A timer that was cancelled stays in the loop for a while, and with it the
    context that it was made in, which refers to the run: therefore that is an empty one.
    """

    __slots__ = ("_at", "_cancelling", "_task", "_timer", "_when", "expired")

    def __init__(self) -> None:
        self.expired = False
        """Whether the last wait was cut short."""
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0
        """When the timer fires."""
        self._when = 0.0
        """When the wait under way is over."""
        self._task: asyncio.Task[object] | None = None
        """Who waits."""
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
        """There is nothing more to wait for."""
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
    """Stored events and pieces of answers, in the order in which observers are shown them."""

    __slots__ = ("_loop", "_news", "_place", "_published", "_seen", "held_back", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Event | ModelDelta] = []
        """What nobody was shown yet."""
        self.held_back: list[ModelDelta] = []
        """Pieces of the last answer that nobody is shown before guardrails let it through."""
        self._published: list[tuple[str, Any]] = []
        """What the turn published and showed before it was stored, with the key of its step."""
        self._place = 0
        """How much of it the step under way published again."""
        self._news: asyncio.Event | None = None
        self._seen: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def show(self, shown: ModelDelta | Event) -> None:
        """Show observers a piece of an answer, which is not stored, or what happened in a session
        that answers this one. Tools in threads may show something, too."""
        self.waiting.append(shown)
        if self._news is not None:
            if self._loop is _running_loop():
                self._news.set()
            elif self._loop is not None:
                self._loop.call_soon_threadsafe(self._news.set)

    def show_answer(self) -> None:
        """The answer was let through: show observers the pieces that were held back."""
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
        """The step under way begins anew."""
        self._place = 0

    def announce(self) -> None:
        """Something was stored: observers have something to look at."""
        if self._news is not None:
            self._news.set()

    def take(self) -> list[Event | ModelDelta]:
        """What is new for an observer."""
        taken, self.waiting = self.waiting, []
        return taken

    def watch(self) -> asyncio.Event:
        """Set whenever there is something to `take`."""
        if self._news is None:
            self._news = asyncio.Event()
            self._loop = asyncio.get_running_loop()
        return self._news

    async def until_seen(self) -> None:
        """Return when whoever watches the run has seen everything that happened so far."""
        while self._news is not None and self.waiting:
            self._news.set()
            self._seen = self._seen or asyncio.Event()
            await self._seen.wait()

    def note_all_seen(self) -> None:
        """Whoever watches the run has seen everything that happened so far."""
        if self._seen is not None:
            self._seen.set()
            self._seen = None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
