"""A claimed session in memory: what the steps of a run read and change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.audit.chain import link
from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import UserError
from ekiden.core.events import AUDITED, Event, EventType
from ekiden.core.items import Item
from ekiden.core.model import ModelDelta, ToolSpec
from ekiden.core.outcomes import Outcome
from ekiden.core.team import Team
from ekiden.runtime.answers import call_ids
from ekiden.runtime.beside import NOTHING, Beside
from ekiden.runtime.calls import to_the_end
from ekiden.runtime.circumstances import Circumstances
from ekiden.runtime.cursor import Compensation, Cursor, PendingHandoff
from ekiden.runtime.drafts import check_variable
from ekiden.runtime.leases import Hold, keeper_of
from ekiden.runtime.registration import register
from ekiden.runtime.snapshot import snapshot_key, snapshot_of
from ekiden.runtime.work_clock import WorkClock
from ekiden.sessions import said
from ekiden.storage.base import (
    Claim,
    Commit,
    DocumentWrite,
    SessionPatch,
    SessionRow,
    SessionStatus,
    Store,
)

_log = logging.getLogger("ekiden.runtime")

REDACTED = "Error details are redacted."

_MAX_EVENT_NAME = 200
_MAX_SLIP = 200
_MAX_SLIPS = 9
_LABELS = {"task_id": "task", "correlation_id": "correlation"}
"""What of a session's meta its handoffs are found by."""


@dataclass(slots=True, kw_only=True, eq=False)
class Interruption:
    """Something that somebody outside wants of a run."""

    look: bool = False
    """Look into the store for requests of handoffs, at the end of the step."""
    at_once: bool = False
    """The step under way is not to be finished."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class _Batch:
    """What one commit stores."""

    events: list[Event]
    steps: dict[str, Any]
    agent: str
    cursor: dict[str, Any]
    variables: dict[str, Any] | None
    items_before: int
    beside: Beside
    stored: bool = False


class RunState:
    """One run of one session, owned by this process through `claim`.

    Steps `record` events and then `commit` them: nothing is shown to anybody (`take`) before it is
    stored. What was recorded and not committed can be thrown away with `discard`.
    """

    __slots__ = (
        "_beside",
        "_committing",
        "_dirty_variables",
        "_known",
        "_labels",
        "_new_handoffs",
        "_pending",
        "_pending_items",
        "_scope",
        "_seq",
        "_steps",
        "_stored_agent",
        "_stored_cursor",
        "_stored_variables",
        "_variables",
        "_wakes",
        "_woken",
        "agent",
        "around",
        "before",
        "call_ids",
        "claim",
        "config",
        "context",
        "cursor",
        "events",
        "exception",
        "history_length",
        "hold",
        "hooks",
        "is_reachable",
        "live",
        "memo",
        "meta",
        "offered",
        "outbox",
        "outcome",
        "prompt_block",
        "questions",
        "root",
        "specs",
        "staged",
        "status",
        "store",
        "told",
        "trigger_notes",
        "user_id",
        "visible",
        "wanted",
        "work",
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
        self.hooks = around.hooks
        self.live = around.live
        """Whether somebody looks on: then deltas are asked for and shown."""
        self.store = store
        self.claim = claim
        self.meta = row.meta
        self.user_id = row.user_id
        self._wakes = row.wakes
        self.questions: list[Callable[[], None]] | None = None
        """How to record what the code of the step that is under way asked others."""
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
        self.outbox: list[Event | ModelDelta] = []
        self.outcome: Outcome | None = None
        self.exception: BaseException | None = None
        self._variables = dict(row.variables)
        self.context: RunContextWrapper[Any] = RunContextWrapper(
            around.context,
            cursor.usage,
            session_id=claim.session_id,
            variables=_Tracked(self, self._variables),
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
        self._committing = asyncio.Lock()
        """Commits of one session go to the store one after the other."""
        self._pending: list[Event] = []
        self._pending_items = len(visible)
        self._steps: dict[str, Any] = {}
        self._seq = row.seq
        self._dirty_variables = False
        self._stored_agent = row.agent
        self._stored_cursor: Mapping[str, Any] = cursor.to_json()
        self._stored_variables: Mapping[str, Any] = row.variables
        self.work = WorkClock(self.config.clock)
        self._woken: asyncio.Event | None = None

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.claim.session_id

    @property
    def task_id(self) -> str:
        """The task that the session is about: itself, unless whoever made it named one."""
        return str(self.meta.get("task_id") or self.claim.session_id)

    @property
    def correlation_id(self) -> str:
        """What the session belongs to: itself, unless whoever made it named something."""
        return str(self.meta.get("correlation_id") or self.claim.session_id)

    @property
    def team(self) -> Team:
        """Everybody who may get the conversation."""
        if not isinstance(self.root, Team):
            self.root = Team(self.root)
        return self.root

    @property
    def next_seq(self) -> int:
        """The number that the next recorded event gets."""
        return self._seq + 1

    def step_key(self, suffix: str) -> str:
        """The key of an effect of the turn under way: the same after a restart."""
        return f"{self.cursor.run}.{self.cursor.turn + 1}.{suffix}"

    def spent_s(self) -> float:
        """Seconds worked on the run so far."""
        return self.cursor.spent_s + self.work.elapsed()

    def record(
        self,
        type: EventType,
        *,
        items: tuple[Item, ...] = (),
        step: str | None = None,
        details: dict[str, Any] | None = None,
        duration_us: int | None = None,
        error: str | None = None,
        kinds: Sequence[str] = (),
    ) -> int:
        """Note that something happened; it becomes true with the next `commit`.

        `kinds` are the names that an error of a tool is known by.
        """
        if not items and not self.config.events and error is None and type != "handoff":
            return self._seq
        cursor = self.cursor
        if error is not None:
            cursor.errors += 1
            is_shown = self.config.trace_include_sensitive_data
            if type == "tool_call":
                names = "|".join(kinds) or error.partition(":")[0]
                slip = f"{names}: {error}"[:_MAX_SLIP] if is_shown else names[:_MAX_SLIP]
                cursor.slips = [*cursor.slips[-_MAX_SLIPS:], slip]
            if not is_shown:
                error = REDACTED
        elif type == "tool_call":
            cursor.work += 1
        self._seq += 1
        event = Event(
            session_id=self.claim.session_id,
            seq=self._seq,
            type=type,
            at_us=self.config.clock.now_us(),
            agent=self.agent.name,
            step=step,
            duration_us=duration_us,
            details=details,
            items=items,
            error=error,
        )
        if self._labels and type == "handoff" and details is not None:
            details.update(self._labels)
        if type in AUDITED and (self.config.events or cursor.head):
            if details is None:
                details = event.details = {}
            details["hash"] = cursor.head = link(cursor.head, event)
            cursor.audited += 1
        self._pending.append(event)
        if items:
            self.visible.extend(items)
        return self._seq

    def remember(self, key: str, result: Any) -> None:
        """Store `result` under `key` with the next `commit`."""
        self._steps[key] = result

    def begin_step(self, scope: asyncio.Timeout) -> None:
        """A step begins that `scope` can end."""
        self.work.deadline = scope
        self._scope = scope
        if self.wanted is not None and self.wanted.at_once:
            self.want(at_once=True)

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

    @property
    def next_handoff_id(self) -> str:
        """The id of the handoff that is about to be made: its number is counted already."""
        return f"{self.session_id}.h{self.cursor.handoffs}"

    @property
    def is_undoing(self) -> bool:
        """Whether the rollback of a handoff was begun and is not finished."""
        return bool(self.cursor.open) and self.cursor.open[-1].failure is not None

    def open_handoff(self, pending: PendingHandoff) -> None:
        """From the next commit on, `pending` is to be confirmed or undone."""
        self.cursor.open.append(pending)
        self._new_handoffs.append(pending)

    def on_rollback(
        self, function: Callable[..., Any], *, key: str, arguments: Any
    ) -> Awaitable[None]:
        """See `RunContextWrapper.on_rollback`."""
        return register(self, function, key=key, arguments=arguments)

    def publish(self, name: str, data: Any) -> None:
        """See `RunContextWrapper.publish`."""
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_EVENT_NAME:
            raise UserError(f"an event needs a name of 1 to {_MAX_EVENT_NAME} characters")
        check_variable(f"data of the event {name}", data)
        details: dict[str, Any] = {"published": name}
        if data is not None:
            details["data"] = data
        self.record("message", details=details)
        if name not in self.cursor.published:
            self.cursor.published = [*self.cursor.published, name]

    def forget_signs(self) -> None:
        """What triggers of the agent before looked at is nothing to the next one."""
        cursor = self.cursor
        if cursor.fired:
            cursor.fired = []
        if cursor.published:
            cursor.published = []
        if cursor.slips:
            cursor.slips = []
        if self.trigger_notes:
            self.trigger_notes = {}

    @property
    def beside(self) -> Beside:
        """What the next `commit` writes beside this session."""
        if self._beside is NOTHING:
            self._beside = Beside()
        return self._beside

    def write(self, document: DocumentWrite) -> None:
        """Write a document with the next `commit`."""
        self.beside.documents.append(document)

    def writes(self) -> list[DocumentWrite]:
        """The documents that the next `commit` writes."""
        return list(self._beside.documents)

    async def see_wakes(self) -> None:
        """Whoever parks the session from here on has seen what woke it so far."""
        self._wakes = (await self.store.get(self.session_id)).wakes

    def put_question(self, put: Callable[[], None]) -> None:
        """Ask with the commit that parks the step: `put` records it then."""
        self.questions = [*(self.questions or ()), put]

    def ask_questions(self) -> None:
        """The code of the step waits and will be run again: all that is kept of it is what it
        asked."""
        questions, self.questions = self.questions or [], None
        was_started = self.cursor.started
        self.discard()
        if was_started and not self.cursor.started:
            self.cursor.started = True
            self.record("agent_start")
        for put in questions:
            put()

    def discard(self) -> None:
        """Go back to what is stored; only tokens and time that were spent stay spent."""
        self._new_handoffs.clear()
        self._beside = NOTHING
        self.questions = None
        self._seq -= len(self._pending)
        self._pending.clear()
        self._steps.clear()
        del self.visible[self._pending_items :]
        registered = {each.id: each.compensations for each in self.cursor.open}
        self.cursor.go_back_to(self._stored_cursor)
        for each in self.cursor.open:
            # What was done in the step that failed has to be undone, too.
            each.compensations = registered.get(each.id, each.compensations)
        self.agent = self.find_agent(self._stored_agent)
        if self._dirty_variables:
            variables = self.context.variables
            variables.clear()
            variables.update(self._stored_variables)
            self._dirty_variables = False

    def begin(self) -> None:
        """The run begins with the next commit, if it was not begun yet."""
        if self.before is not None:
            if self.before.seq:
                self.remember(snapshot_key(self.cursor.run), snapshot_of(self.before))
            self.before = None
            self.cursor.first = self.next_seq

    def _where_it_stands(self) -> Cursor:
        """The cursor to be stored: of a run that is not begun, only what was counted for it."""
        if self.before is None:
            return self.cursor
        standing = Cursor.from_json(self.before.cursor)
        for name in ("handoffs", "head", "audited", "always"):
            setattr(standing, name, getattr(self.cursor, name))
        return standing

    def restore_variables(self, values: Mapping[str, Any]) -> None:
        """The session's variables are to be `values` again."""
        variables = self.context.variables
        variables.clear()
        variables.update(values)
        self._dirty_variables = True

    def replace_view(self, visible: list[Item]) -> None:
        """From now on the active agent sees `visible`."""
        self.visible = visible
        self._pending_items = len(visible)

    async def commit(
        self,
        *,
        status: SessionStatus | None = None,
        outcome: str | None = None,
        release: bool = False,
    ) -> None:
        """Store what was recorded, with the cursor and the active agent, as one transaction.

        If that fails, everything is still only recorded.
        """
        self.cursor.spent_s += self.work.lap()
        if release and self.hold is not None:
            keeper_of(self.store).let_go(self.claim)
        async with self._committing:
            batch = self._take_batch()
            try:
                await self._store_batch(batch, status, outcome, release)
            except BaseException:
                if not batch.stored:
                    self._put_back(batch)
                raise
        if self._woken is not None:
            self._woken.set()

    def keep_variables(self, pending: PendingHandoff, before: Mapping[str, Any]) -> None:
        """If callbacks of a handoff changed variables, they are undone with it."""
        if self._dirty_variables and self.variables_now() != before:
            self._store_variables(pending, before)

    def variables_now(self) -> dict[str, Any]:
        """The session's variables, stored or not, as a copy."""
        return self._variables.copy()

    def _store_variables(self, pending: PendingHandoff, values: Mapping[str, Any]) -> None:
        number = pending.id.rpartition(".")[2]
        pending.variables = f"{self.cursor.run}.{number}.variables"
        self._steps[pending.variables] = dict(values)

    def _keep_variables(self) -> None:
        """Before variables change under a handoff that may be undone, store how they were."""
        for pending in self.cursor.open:
            if pending.variables is None and pending not in self._new_handoffs:
                self._store_variables(pending, self._stored_variables)

    async def commit_cursor(self) -> None:
        """Store the open handoffs now, and nothing else of a step that is under way."""
        async with self._committing:
            cursor = dict(self._stored_cursor)
            stored = [each for each in self.cursor.open if each not in self._new_handoffs]
            cursor["ho"] = [each.to_json() for each in stored]
            # A commit that failed may have left behind the variables that they go back to.
            needed = {each.variables for each in stored}
            steps = {key: value for key, value in self._steps.items() if key in needed}
            await self.store.commit(
                self.claim, Commit(patch=SessionPatch(cursor=cursor), events=(), steps=steps)
            )
            for key in steps:
                del self._steps[key]
            self._stored_cursor = cursor

    def _take_batch(self) -> _Batch:
        if self.cursor.open:
            if self._dirty_variables:
                self._keep_variables()
            self._new_handoffs.clear()
        batch = _Batch(
            events=self._pending,
            steps=self._steps,
            agent=self.agent.name,
            cursor=self._where_it_stands().to_json(),
            variables=dict(self.context.variables) if self._dirty_variables else None,
            items_before=self._pending_items,
            beside=self._beside,
        )
        self._beside = NOTHING
        self._pending, self._steps, self._dirty_variables = [], {}, False
        self._pending_items = len(self.visible)
        return batch

    def _put_back(self, batch: _Batch) -> None:
        self._pending = [*batch.events, *self._pending]
        self._steps = {**batch.steps, **self._steps}
        self._dirty_variables = self._dirty_variables or batch.variables is not None
        self._pending_items = batch.items_before
        self._beside = batch.beside.extended(self._beside)

    async def _store_batch(
        self, batch: _Batch, status: SessionStatus | None, outcome: str | None, release: bool
    ) -> None:
        patch = SessionPatch(
            agent=None if batch.agent == self._stored_agent else batch.agent,
            status=status,
            outcome=outcome,
            cursor=batch.cursor,
            variables=batch.variables,
        )
        beside = batch.beside
        storing = self.store.commit(
            self.claim,
            Commit(
                patch=patch,
                events=batch.events,
                steps=batch.steps,
                documents=beside.documents,
                messages=beside.messages,
                settles=beside.settles,
                openings=beside.openings,
                seen_wakes=self._wakes if status == "waiting" else None,
                release=release,
            ),
        )
        cancelled: asyncio.CancelledError | None = None
        if self.store.shared:
            # Whoever is cancelled in the middle of a commit must know what became of it.
            _, cancelled = await to_the_end(storing)
        else:
            await storing
        batch.stored = True
        self.status = status or self.status
        self._stored_agent = batch.agent
        self._stored_cursor = batch.cursor
        if batch.variables is not None:
            self._stored_variables = batch.variables
        self.events.extend(batch.events)
        self.outbox.extend(batch.events)
        self._show_sinks(batch.events)
        if cancelled is not None:
            raise cancelled

    def _show_sinks(self, events: list[Event]) -> None:
        for sink in self.config.sinks:
            for event in events:
                try:
                    sink.emit(event)
                except Exception:
                    _log.exception("a sink could not take event %s", event.event_id)

    def show(self, delta: ModelDelta) -> None:
        """Show a piece of an answer to whoever looks on; it is not stored."""
        self.outbox.append(delta)
        if self._woken is not None:
            self._woken.set()

    def take(self) -> list[Event | ModelDelta]:
        """What is new for an onlooker."""
        taken, self.outbox = self.outbox, []
        return taken

    def watch(self) -> asyncio.Event:
        """Set whenever there is something to `take`."""
        if self._woken is None:
            self._woken = asyncio.Event()
        return self._woken

    def mark_variables(self) -> None:
        """The session's variables changed: store them with the next commit."""
        self._dirty_variables = True

    def said_since(self, seq: int) -> list[Event]:
        """This run's events after number `seq` that carry items and stand, stored or not."""
        return [event for event in said([*self.events, *self._pending]) if event.seq > seq]

    def know(self, agent: Agent[Any]) -> None:
        """Remember an agent that came along, so that it is found by name."""
        self._known[agent.name] = agent

    def find_agent(self, name: str) -> Agent[Any]:
        """A member of the team by name; `UnknownAgent`."""
        agent = self._known.get(name)
        if agent is None:
            agent = self._known[name] = self.team[name]
        return agent


class _Tracked(MutableMapping[str, Any]):
    """The session's variables; tells the run when they change."""

    __slots__ = ("_run", "_values")

    def __init__(self, run: RunState, values: dict[str, Any]) -> None:
        self._run = run
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __setitem__(self, name: str, value: Any) -> None:
        check_variable(name, value)
        if name not in self._values or self._values[name] != value:
            self._run.cursor.work += 1
        self._values[name] = value
        self._run.mark_variables()

    def __delitem__(self, name: str) -> None:
        del self._values[name]
        self._run.mark_variables()
