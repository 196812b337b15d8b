"""A claimed session in memory, which the steps of a run read and change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import Item, ModelDelta, call_ids
from ekiden.core.events import OBSERVERS, Event
from ekiden.core.roles import LongTermMemory
from ekiden.core.runs import Outcome
from ekiden.runtime.config import RunOptions, memory_for
from ekiden.runtime.state.calls import register
from ekiden.runtime.state.commit import Committing
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.cursor_handoffs import Compensation
from ekiden.runtime.state.leases import Hold
from ekiden.runtime.state.ledger import DaySpending
from ekiden.runtime.state.parts import (
    NO_OUTBOX,
    NO_SIDE_WRITES,
    ChildSessions,
    Deadline,
    Interruption,
    Outbox,
    TurnOffer,
    WorkClock,
)
from ekiden.runtime.state.variables import Tracked, Variables, load_shared
from ekiden.runtime.state.versions import Versions
from ekiden.storage.base import (
    Claim,
    SessionRow,
    Store,
)

_LABELS = {"task_id": "task", "correlation_id": "correlation"}
"""Fields of a session's meta that label its audited events: handoffs can be found by them."""
_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_NO_MEMO: Mapping[str, Any] = MappingProxyType({})


class RunState(Committing):
    """One run of one session, which this process owns through `claim`.

    Steps `record` events and then `commit` them, because an event is shown only after it is stored.
    Uncommitted events can be dropped with `discard`.
    """

    __slots__ = (
        "_context",
        "call_ids",
        "children",
        "deadline",
        "deciding",
        "driver",
        "exception",
        "hooks",
        "interruption",
        "is_reachable",
        "live",
        "may_be_rolled_back",
        "memo",
        "offer",
        "options",
        "outcome",
        "priority",
        "staged",
        "task",
        "untried",
        "user_id",
    )

    options: RunOptions
    _context: RunContextWrapper[Any] | None
    call_ids: set[str]
    """The ids of the tool calls that the active agent sees. No id may be used twice."""
    children: ChildSessions
    deadline: Deadline
    """The deadline of the current model call."""
    driver: asyncio.Task[Any] | None
    """The task that reads the events of a streamed run, if it is not `task`."""
    deciding: asyncio.Lock
    """Held while a decision about a call with an unknown effect is carried out."""
    exception: BaseException | None
    interruption: Interruption
    is_reachable: bool
    """Whether other processes can interact with this run."""
    live: bool
    """Whether the run has observers. If so, deltas are requested from the model and shown."""
    may_be_rolled_back: bool
    """Whether a handoff may have been rolled back since the model's last answer."""
    memo: Mapping[str, Any]
    """Results of the current step that a killed process stored."""
    offer: TurnOffer
    outcome: Outcome | None
    staged: list[Compensation] | None
    """The compensations that callbacks of the next handoff have registered."""
    task: asyncio.Task[Any] | None
    """The task of the current step."""
    untried: int
    """The number of the event with calls that this process stored and has not started; 0 without
    such calls."""

    def __init__(
        self,
        options: RunOptions,
        *,
        store: Store,
        claim: Claim,
        hold: Hold | None,
        row: SessionRow,
        agent: Agent[Any],
        cursor: Cursor,
        visible: list[Item],
        is_new: bool = False,
    ) -> None:
        """With `is_new`, the run begins: its cursor is not stored yet."""
        self.options, self.root, self.hooks = options, options.root, options.hooks
        self.live, self.is_reachable = options.live, options.is_reachable
        self.is_watched = (
            store.shared or options.is_watched or bool(options.config.sinks or OBSERVERS)
        )
        self.config = options.config
        if cursor.budget.limits and cursor.budget.limits != options.config.given:
            self.config = options.config.with_limits(cursor.budget.limits)
        self.store, self.claim, self.hold = store, claim, hold
        self._load(row)
        self.agent, self.cursor = agent, cursor
        self._stored_cursor = row.cursor if is_new else cursor.to_json()
        self._known = {agent.name: agent}
        if not row.agent:
            self._known[""] = agent  # A session that no agent has yet.
        self.visible = visible
        self.history_length = self._pending_items = len(visible)
        self.call_ids = call_ids(visible)
        self.work = WorkClock(self.config.clock)
        self.outbox = Outbox() if self.is_watched or self.live else NO_OUTBOX
        self.interruption = Interruption(cursor, self.work)
        if hold is not None:
            hold.on_request = self._requested
        self.children = ChildSessions()
        self.deadline = Deadline()
        self.offer = TurnOffer()
        self._context = None
        self.day = None if self.config.daily is None else DaySpending(self._counted())
        self._committing = asyncio.Lock()
        self.deciding = asyncio.Lock()
        self._begin()

    def _load(self, row: SessionRow) -> None:
        """Read the session's row."""
        self.meta = row.meta
        self.created_at_us = row.created_at_us
        self.user_id = row.user_id
        self.priority = row.priority
        self.status = row.status
        self._variables = Variables(row.variables) if row.variables else None
        self.outer_budgets = tuple(row.meta.get("purses", ()))
        self._labels = _NO_LABELS
        if row.meta:
            self._labels = {
                label: str(row.meta[name]) for name, label in _LABELS.items() if row.meta.get(name)
            }
        self._seq = row.seq
        self._stored_agent = row.agent
        self._wakes = row.wakes

    def _begin(self) -> None:
        """Set the initial values of everything that steps record."""
        self.outcome = self.exception = self.broken = self.before = None
        self.reserved_call = self.charged = None
        self.untried = 0
        self.is_free = self.may_be_rolled_back = False
        self.memo = _NO_MEMO
        self.events = []
        self.kept = self.questions = self.staged = self.task = self.driver = None
        self.added_items = ()
        self.trigger_notes = {}
        self.versions = Versions()
        self._side_writes = NO_SIDE_WRITES
        self._new_handoffs = ()
        self._pending = []
        self._steps = {}

    def _requested(self, at_once: bool) -> None:
        self.interruption.want(at_once=at_once)

    @property
    def context(self) -> RunContextWrapper[Any]:
        """The context for the code of agents, created at its first use."""
        if self._context is None:
            self._context = RunContextWrapper(
                self.options.context,
                self.cursor.budget.usage,
                session_id=self.claim.session_id,
                variables=Tracked(self),
                link=self,
            )
        return self._context

    def let_context_go(self) -> None:
        """Drop the context after the run. A later use creates the context again.

        The context and the run refer to each other. Without this call, only the garbage collector
        would free them.
        """
        # A context whose object was replaced is kept: a new one would have the old object.
        if self._context is not None and self._context.context is self.options.context:
            self._context = None

    @property
    def session_key(self) -> str:
        """A unique key of the session, from its id and creation time. A later session with the same
        id, or a session in another store, has a different key."""
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
        """The id of the session's task: the session's own id, unless its creator set another id."""
        return str(self.meta.get("task_id") or self.claim.session_id)

    async def load_shared_variables(self) -> None:
        """Load the variables of the session's user and of the app."""
        app = self.config.app
        if self.user_id or app:
            await load_shared(
                self.store, self.variables.shared, (("user", self.user_id), ("app", app))
            )

    def on_rollback(
        self, function: Callable[..., Any], *, key: str, arguments: Any
    ) -> Awaitable[None]:
        """See `RunContextWrapper.on_rollback`."""
        return register(self, function, key=key, arguments=arguments)

    def long_term_memory(self) -> LongTermMemory:
        """See `RunContextWrapper.memory`."""
        return memory_for(self.agent, store=self.store, user_id=self.user_id, config=self.config)

    def publish(self, name: str, data: Any) -> None:
        """See `RunContextWrapper.publish`. The event is stored with the step, and shown at once."""
        super().publish(name, data)
        show = self.outbox.show if self.live else self.options.show
        if show is not None:
            published = ModelDelta(
                kind="published", text=name, data=data, session_id=self.session_id
            )
            self.outbox.show_published(self.step_key(name), published, show)


async def load_memo(run: RunState, steps: Mapping[str, Any] | None = None) -> None:
    """Read the stored results of the current turn into `run.memo`, and the shared variables, which
    other sessions may have changed. `steps` has all step results, if the caller knows them."""
    await run.load_shared_variables()
    prefix = run.step_key("")
    if steps is None:
        steps = await run.store.steps(run.session_id, prefix=prefix)
    run.memo = {
        **{key: result for key, result in steps.items() if key.startswith(prefix)},
        **{
            event.step: _replay(event)
            for event in run.events
            if event.step and event.step.startswith(f"{prefix}c")
        },
    }


def _replay(event: Event) -> tuple[Any, ...]:
    """The result and the arguments of a code agent's tool call, from its event."""
    call, output = event.items
    is_json = bool((event.details or {}).get("json"))
    return output["output"], event.error, is_json, call["name"], call["arguments"]
