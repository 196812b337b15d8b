"""Records the events, results and writes of a step, until the next commit stores them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import Item
from ekiden.core.errors import UserError
from ekiden.core.events import AUDITED, PRIVATE, QUESTIONS, Event, EventType
from ekiden.core.privacy.masking import cover, masked_keys
from ekiden.runtime.config import RunConfig
from ekiden.runtime.state.cursor import Cursor, PendingHandoff
from ekiden.runtime.state.parts import NO_SIDE_WRITES, SharedBudgets, SideWrites, WorkClock
from ekiden.runtime.state.variables import Variables
from ekiden.sessions import said
from ekiden.sessions.state import STATE, checked_value
from ekiden.storage.base import (
    Claim,
    DocumentWrite,
    Store,
)

REDACTED = "Error details are redacted."

_MAX_EVENT_NAME = 200
_TEXTS = frozenset(
    {
        "answer", "arguments", "body", "case", "context", "guardrails", "info", "message",
        "not_compensated", "problem", "reason", "subject", "summary", "text", "violations",
    }
)  # fmt: skip
"""The details of audited events with texts of people and models. Secrets in them are masked."""


class Recording:
    """The part of a run that steps write to: events, results and side writes."""

    __slots__ = (
        "_known",
        "_labels",
        "_new_handoffs",
        "_pending",
        "_pending_items",
        "_seq",
        "_side_writes",
        "_steps",
        "_variables",
        "added_items",
        "agent",
        "claim",
        "config",
        "cursor",
        "events",
        "history_length",
        "kept",
        "questions",
        "root",
        "shared_budgets",
        "store",
        "trigger_notes",
        "visible",
        "work",
    )

    config: RunConfig
    claim: Claim
    store: Store
    cursor: Cursor
    agent: Agent[Any]
    added_items: tuple[Item, ...]
    """The items that the handoff in preparation adds to the conversation."""
    root: Agent[Any] | Team
    visible: list[Item]
    """The items that the active agent sees. The list is appended to or replaced, never changed in
    place: a handoff shares it."""
    events: list[Event]
    """The stored events of this run."""
    history_length: int
    """The number of items in `visible` that are older than this run."""
    questions: dict[str, Callable[[], None]] | None
    """Functions that record the questions of the current step, by the key of the question's
    step."""
    kept: list[Callable[[], None]] | None
    """Functions that record the notices and announcements of the current step again, after
    `discard`."""
    shared_budgets: SharedBudgets
    trigger_notes: dict[int, str]
    """The last results of the conditions of the active agent's triggers, by the trigger's index."""
    work: WorkClock
    _side_writes: SideWrites
    _known: dict[str, Agent[Any]]
    _labels: dict[str, str]
    _new_handoffs: list[PendingHandoff]
    _pending: list[Event]
    _pending_items: int
    _seq: int
    _steps: dict[str, Any]
    _variables: Variables | None
    """`None` if the session has no variables and none were needed yet."""

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.claim.session_id

    @property
    def variables(self) -> Variables:
        """The session's variables, and those that it shares."""
        if self._variables is None:
            self._variables = Variables({})
        return self._variables

    @property
    def team(self) -> Team:
        """The team of the run; a single agent becomes a team with all agents it can reach."""
        if not isinstance(self.root, Team):
            self.root = Team(self.root)
        return self.root

    @property
    def next_seq(self) -> int:
        """The number of the next recorded event."""
        return self._seq + 1

    @property
    def stored_seq(self) -> int:
        """The number of the last stored event."""
        return self._seq - len(self._pending)

    def step_key(self, suffix: str) -> str:
        """The key of an effect of the current turn; the same after a restart."""
        progress = self.cursor.progress  # The same as `progress.step_key`, with one call less.
        return f"{progress.run}.{progress.turn + 1}.{suffix}"

    def spent_s(self) -> float:
        """Seconds of work on the run so far."""
        return self.cursor.budget.spent_s + self.work.elapsed()

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
        agent: str | None = None,
    ) -> int:
        """Record an event, stored with the next `commit`.

        Returns the event's number. `kinds` are the class names of a tool's error, and `agent` is
        the acting agent, by default the active one. Secrets are masked in `error` and in texts of
        audited events. `items` are the conversation, and stay unchanged.
        """
        config = self.config
        is_bare = not items and error is None and type != "handoff"
        if is_bare and not config.events and STATE not in (details or ()):
            return self._seq
        cursor = self.cursor
        if error is not None:
            error = cover(error)
            cursor.progress.errors += 1
            is_shown = config.trace_include_sensitive_data
            if type == "tool_call":
                names = "|".join(kinds) or error.partition(":")[0]
                cursor.triggers.note_tool_error(f"{names}: {error}" if is_shown else names)
            if not is_shown:
                error = REDACTED
        elif type == "tool_call":
            cursor.handoffs.work += 1
        if not config.trace_include_sensitive_data:
            details = {**(details or {}), PRIVATE: True}
        if details is not None and type in AUDITED and not _TEXTS.isdisjoint(details):
            details = _masked(details)
        self._seq += 1
        event = Event(
            session_id=self.claim.session_id,
            seq=self._seq,
            type=type,
            at_us=config.clock.now_us(),
            agent=agent or self.agent.name,
            step=step,
            duration_us=duration_us,
            details=details,
            items=items,
            error=error,
        )
        if self._labels and details and (type in AUDITED or not QUESTIONS.isdisjoint(details)):
            details.update(self._labels)
        if type in AUDITED and (config.events or cursor.audit.count):
            cursor.audit.defer(event)
        self._pending.append(event)
        if items:
            self.visible.extend(items)
        return self._seq

    def remember(self, key: str, result: Any) -> None:
        """Store `result` under `key` with the next `commit`."""
        self._steps[key] = result

    def remembered(self, keys: Iterable[str]) -> dict[str, Any]:
        """The results under these keys that the next `commit` stores."""
        return {key: self._steps[key] for key in keys if key in self._steps}

    def remembered_under(self, prefix: str) -> dict[str, Any]:
        """The results under keys with this prefix that the next `commit` stores."""
        return {key: value for key, value in self._steps.items() if key.startswith(prefix)}

    @property
    def next_handoff_id(self) -> str:
        """The id of the handoff in preparation, whose number is already counted."""
        return f"{self.session_id}.h{self.cursor.handoffs.count}"

    @property
    def is_undoing(self) -> bool:
        """Whether the rollback of a handoff has begun and is not finished."""
        return self.cursor.handoffs.is_rolling_back

    def open_handoff(self, pending: PendingHandoff) -> None:
        """Add an open handoff: from the next commit on, it must be confirmed or rolled back."""
        self.cursor.handoffs.open.append(pending)
        self._new_handoffs.append(pending)

    def publish(self, name: str, data: Any) -> None:
        """See `RunContextWrapper.publish`."""
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_EVENT_NAME:
            raise UserError(f"an event needs a name of 1 to {_MAX_EVENT_NAME} characters")
        data = checked_value(f"data of the event {name}", data)
        details: dict[str, Any] = {"published": name}
        if data is not None:
            details["data"] = data
        self.record("message", details=details)
        self.cursor.triggers.note_published(name)

    @property
    def side_writes(self) -> SideWrites:
        """The writes to other records in the next `commit`."""
        if self._side_writes is NO_SIDE_WRITES:
            self._side_writes = SideWrites()
        return self._side_writes

    def write(self, document: DocumentWrite) -> None:
        """Write a document with the next `commit`."""
        self.side_writes.documents.append(document)

    def writes(self) -> list[DocumentWrite]:
        """The documents that the next `commit` writes."""
        return list(self._side_writes.documents)

    def put_message(self, put: Callable[[], None]) -> None:
        """Call `put` to record a message for the next commit. If the step waits instead of ending,
        the message is recorded again after `discard`."""
        put()
        self.kept = [*(self.kept or ()), put]

    def put_question(self, key: str, put: Callable[[], None]) -> None:
        """Let `put` record the question with this key, in the commit that suspends the step."""
        self.questions = {**(self.questions or {}), key: put}

    def replace_view(self, visible: list[Item]) -> None:
        """Let the active agent see `visible` from now on."""
        self.visible = visible
        self._pending_items = len(visible)

    @contextmanager
    def showing(self, items: tuple[Item, ...], *, as_history: bool) -> Iterator[None]:
        """During the body the active agent also sees `items`, which are not recorded.

        With `as_history` they count as older than the run.
        """
        length, history_length = len(self.visible), self.history_length
        self.visible.extend(items)
        if as_history:
            self.history_length = len(self.visible)
        else:
            self.added_items = items
        try:
            yield
        finally:
            del self.visible[length : length + len(items)]
            if self._pending_items > length:  # Something was stored meanwhile.
                self._pending_items -= len(items)
            self.history_length, self.added_items = history_length, ()

    def items_since(self, seq: int) -> list[Event]:
        """This run's events after `seq` with items, without rolled back ones, stored or not."""
        return [event for event in said([*self.events, *self._pending]) if event.seq > seq]

    def all_events(self) -> list[Event]:
        """This run's events, stored or not."""
        return [*self.events, *self._pending]

    def know(self, agent: Agent[Any]) -> None:
        """Remember an agent, so that `find_agent` finds it even if it is not in the team."""
        self._known[agent.name] = agent

    def find_agent(self, name: str) -> Agent[Any]:
        """The agent with this name. Raises `UnknownAgent`."""
        agent = self._known.get(name)
        if agent is None:
            agent = self._known[name] = self.team[name]
        return agent


def _masked(details: dict[str, Any]) -> dict[str, Any]:
    """The details, with secrets masked in their texts."""
    changed = {
        name: masked
        for name in _TEXTS.intersection(details)
        if (masked := masked_keys(details[name])) is not details[name]
    }
    return {**details, **changed} if changed else details
