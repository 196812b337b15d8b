"""A claimed session in memory: what the steps of a run read and change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.events import Event
from ekiden.core.items import Item
from ekiden.core.memory import LongTermMemory
from ekiden.core.model import ModelDelta, ToolSpec
from ekiden.core.outcomes import Outcome
from ekiden.runtime.state.answers import call_ids
from ekiden.runtime.state.circumstances import Circumstances, memory_for
from ekiden.runtime.state.committing import Committing
from ekiden.runtime.state.cursor import Compensation, Cursor, PendingHandoff
from ekiden.runtime.state.leases import Hold
from ekiden.runtime.state.ledger import Ledger
from ekiden.runtime.state.recording import NOTHING, WorkClock
from ekiden.runtime.state.registration import register
from ekiden.runtime.state.tracked import Tracked
from ekiden.runtime.state.variables import Variables, load_shared
from ekiden.storage.base import (
    Claim,
    SessionRow,
    Store,
)

_LABELS = {"task_id": "task", "correlation_id": "correlation"}
"""What of a session's meta its handoffs are found by."""


@dataclass(slots=True, kw_only=True, eq=False)
class Interruption:
    """Something that somebody outside wants of a run."""

    look: bool = False
    """Look into the store for requests of handoffs, at the end of the step."""
    at_once: bool = False
    """The step under way is not to be finished."""


class RunState(Committing):
    """One run of one session, owned by this process through `claim`.

    Steps `record` events and then `commit` them: nothing is shown to anybody (`take`) before it is
    stored. What was recorded and not committed can be thrown away with `discard`.
    """

    __slots__ = (
        "_loop",
        "_scope",
        "_seen",
        "around",
        "call_ids",
        "children",
        "day",
        "eager",
        "exception",
        "hooks",
        "is_reachable",
        "live",
        "looks_for_undone",
        "memo",
        "meta",
        "offered",
        "outcome",
        "priority",
        "prompt_block",
        "specs",
        "staged",
        "told",
        "unshown",
        "user_id",
        "wanted",
    )

    def __init__(
        self,
        around: Circumstances,
        *,
        store: Store,
        claim: Claim,
        hold: Hold | None,
        row: SessionRow,
        agent: Agent[Any],
        cursor: Cursor,
        visible: list[Item],
    ) -> None:
        self.around = around
        self.root = around.root
        self.config = around.config
        if cursor.budget.limits and cursor.budget.limits != around.config.given:
            self.config = around.config.with_limits(cursor.budget.limits)
        self.hooks = around.hooks
        self.live = around.live
        """Whether somebody looks on: then deltas are asked for and shown."""
        self.store = store
        self.claim = claim
        self.meta = row.meta
        self.created_at_us = row.created_at_us
        """When the store made the session."""
        self.user_id = row.user_id
        self.priority = row.priority
        self._wakes = row.wakes
        self.kept: list[Callable[[], None]] | None = None
        """How to record again what was told others and is not stored."""
        self.questions: dict[str, Callable[[], None]] | None = None
        """How to record what the code of the step under way asked others, by the step's key."""
        self.outer_purses = tuple(row.meta.get("purses", ()))
        """Purses of those who asked; see `purse`."""
        self.held: str | None = None
        """The model call that holds something of them."""
        self.children: dict[str, asyncio.Task[None]] = {}
        """Sessions that answer this one's questions and are run beside it."""
        self.eager = False
        """Whether every answer is looked at as it comes, while others are awaited."""
        self.told: list[str] | None = None
        """Sessions of agents that this run told something, to be run by somebody."""
        self._labels = {
            label: str(row.meta[name]) for name, label in _LABELS.items() if row.meta.get(name)
        }
        self.hold = hold
        self.status = row.status
        """As it is stored."""
        self.before: SessionRow | None = None
        """How the session stands, while the run is not begun: a handoff is to begin it."""
        self.broken = None
        """Why something could not be stored in the middle of a step: nobody knows what became of
        it, so nothing more is stored under this claim, whatever a tool made of the error."""
        self.agent = agent
        self.cursor = cursor
        self.visible = visible
        """What the active agent sees; only ever appended to, or replaced as a whole."""
        self.history_length = len(visible)
        """How much of `visible` was there before this run produced anything."""
        self.call_ids = call_ids(visible)
        """The ids of calls that the active agent can see: none is used twice."""
        self.memo: Mapping[str, Any] = {}
        """Results that a killed predecessor stored for the step that is due."""
        self.events: list[Event] = []
        """All events of this run that are stored."""
        self.offered: dict[str, Any] = {}
        """By name, the tools and handoffs that the active agent may use this turn."""
        self.specs: tuple[ToolSpec, ...] = ()
        self.prompt_block: str | None = None
        self.looks_for_undone = False
        """Whether a handoff may have been undone since the last answer of a model."""
        self.outbox: list[Event | ModelDelta] = []
        self.progress = None
        self.progress_at = 0
        self.unshown: list[ModelDelta] = []
        """Pieces of the last answer that nobody is shown before guardrails let it through."""
        self.outcome: Outcome | None = None
        self.exception: BaseException | None = None
        self.is_free = False
        self.variables = Variables(row.variables)
        self.context: RunContextWrapper[Any] = RunContextWrapper(
            around.context,
            cursor.budget.usage,
            session_id=claim.session_id,
            variables=Tracked(self),
            link=self,
        )
        self.is_reachable = around.is_reachable
        """Whether anybody outside could want something of this run."""
        self.wanted: Interruption | None = None
        """What somebody outside wants of this run, as soon as it can be."""
        self.trigger_notes: dict[int, str] = {}
        """What conditions of the active agent's triggers last came out as."""
        if hold is not None:
            hold.on_request = lambda at_once: self.want(at_once=at_once)
        self._scope: asyncio.Timeout | None = None
        self._beside = NOTHING
        self.staged: list[Compensation] | None = None
        """How to undo what the callbacks of a handoff did that is about to be made."""
        self._new_handoffs: list[PendingHandoff] = []
        self._known: dict[str, Agent[Any]] = {agent.name: agent}
        if not row.agent:
            self._known[""] = agent  # A session that no agent has yet.
        self.brought: tuple[Item, ...] = ()
        """What a handoff that is about to be made adds to the conversation of the run."""
        self.day: Ledger | None = None
        """What is left of the budget of the day, read before the step."""
        self._charged: list[object] | None = None
        self._day_charges = 0
        self._day_counted = (0.0, 0.0, 0.0) if self.config.daily is None else self._counted()
        self._committing = asyncio.Lock()
        """Commits of one session go to the store one after the other."""
        self._pending: list[Event] = []
        self._pending_items = len(visible)
        self._steps: dict[str, Any] = {}
        self._seq = row.seq
        self._stored_agent = row.agent
        self._stored_cursor: Mapping[str, Any] = cursor.to_json()
        self.work = WorkClock(self.config.clock)
        self._woken: asyncio.Event | None = None
        self._seen: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def session_key(self) -> str:
        """What others know the session by: who makes one chooses its id, but not when it is made,
        so that no other session, of another store or made after this one is deleted, is taken for
        it."""
        return f"{self.claim.session_id}:{self.created_at_us:x}"

    @property
    def rollback_wait_s(self) -> float:
        """See `RunConfig`."""
        return self.config.rollback_wait_s

    @property
    def epoch(self) -> int:
        """See `RunContextWrapper.epoch`."""
        return self.claim.epoch

    @property
    def task_id(self) -> str:
        """The task that the session is about: itself, unless whoever made it named one."""
        return str(self.meta.get("task_id") or self.claim.session_id)

    async def learn_shared(self) -> None:
        """Read the variables of the session's user and of the app, if it has these."""
        app = self.config.app
        if self.user_id or app:
            await load_shared(
                self.store, self.variables.shared, (("user", self.user_id), ("app", app))
            )

    def begin_step(self, scope: asyncio.Timeout) -> None:
        """A step begins that `scope` can end."""
        self.work.deadline = scope
        self._scope = scope
        if self.wanted is not None and self.wanted.at_once:
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
        self.work.deadline = self._scope = None

    def want(self, *, at_once: bool) -> None:
        """Somebody asked for a handoff of this session: look at the end of the step, or now."""
        if self.wanted is None:
            self.wanted = Interruption()
        self.wanted.look = True
        if at_once:
            self.wanted.at_once = True
            if self.is_undoing:
                return  # A rollback that was begun is finished first.
            if self._scope is not None and not self._scope.expired():
                self._scope.reschedule(asyncio.get_running_loop().time())

    def on_rollback(
        self, function: Callable[..., Any], *, key: str, arguments: Any
    ) -> Awaitable[None]:
        """See `RunContextWrapper.on_rollback`."""
        return register(self, function, key=key, arguments=arguments)

    def long_term_memory(self) -> LongTermMemory:
        """See `RunContextWrapper.memory`."""
        return memory_for(self.agent, store=self.store, user_id=self.user_id, config=self.config)

    def publish(self, name: str, data: Any) -> None:
        """See `RunContextWrapper.publish`: stored with the step, and shown at once.

        Code that waited for an answer is run again from its beginning: what it published before is
        not shown again.
        """
        super().publish(name, data)
        show = self.show if self.live else self.around.show
        if show is None:
            return
        told = (self.step_key(name), data)
        shown = self.progress or []
        place, self.progress_at = self.progress_at, self.progress_at + 1
        if shown[place : place + 1] == [told]:
            return
        self.progress = [*shown[:place], told]
        show(ModelDelta(kind="published", text=name, data=data, session_id=self.session_id))

    def show(self, shown: ModelDelta | Event) -> None:
        """Show whoever looks on a piece of an answer, which is not stored, or what happened in a
        session that answers this one. Tools in threads may show something, too."""
        self.outbox.append(shown)
        if self._woken is not None:
            if self._loop is _running_loop():
                self._woken.set()
            elif self._loop is not None:
                self._loop.call_soon_threadsafe(self._woken.set)

    def show_answer(self) -> None:
        """The answer was let through: show whoever looks on the pieces that were held back."""
        for each in self.unshown:
            self.show(each)
        self.unshown = []

    async def stop_children(self, *session_ids: str) -> None:
        """Stop running these sessions beside this one, or all; whoever wants their answer goes on
        with them."""
        chosen = session_ids or tuple(self.children)
        tasks = [self.children.pop(each) for each in chosen if each in self.children]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def take(self) -> list[Event | ModelDelta]:
        """What is new for an onlooker."""
        taken, self.outbox = self.outbox, []
        return taken

    def watch(self) -> asyncio.Event:
        """Set whenever there is something to `take`."""
        if self._woken is None:
            self._woken = asyncio.Event()
            self._loop = asyncio.get_running_loop()
        return self._woken

    async def until_seen(self) -> None:
        """Return when whoever watches the run has seen everything that happened so far."""
        while self._woken is not None and self.outbox:
            self._woken.set()
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


async def load_memo(run: RunState) -> None:
    """Read what is stored of the turn under way into `run.memo`, and what others may have changed
    while it waited."""
    await run.learn_shared()
    prefix = run.step_key("")
    run.memo = {
        **await run.store.steps(run.session_id, prefix=prefix),
        **{
            event.step: _replay(event)
            for event in run.events
            if event.step and event.step.startswith(f"{prefix}c")
        },
    }


def _replay(event: Event) -> tuple[Any, ...]:
    """What a code agent's call gave, and what it was, from the event that recorded it."""
    call, output = event.items
    is_json = bool((event.details or {}).get("json"))
    return output["output"], event.error, is_json, call["name"], call["arguments"]
