"""What a step records before it is stored."""

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
from ekiden.sessions.scopes import checked_value
from ekiden.sessions.state import STATE
from ekiden.storage.base import (
    Claim,
    DocumentWrite,
    Store,
)

REDACTED = "Error details are redacted."

_MAX_EVENT_NAME = 200
_WORDS = frozenset(
    {
        "answer", "arguments", "body", "case", "context", "guardrails", "info", "message",
        "not_compensated", "problem", "reason", "subject", "summary", "text", "violations",
    }
)  # fmt: skip
"""Details of audited events that are words of people and models, for people to read."""


class Recording:
    """The part of a run that steps write to: events, results, and what goes along with them."""

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
        "agent",
        "brought",
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
    brought: tuple[Item, ...]
    """What a handoff that is about to be made adds to the conversation of the run."""
    root: Agent[Any] | Team
    visible: list[Item]
    """What the active agent sees; only ever appended to, or replaced as a whole."""
    events: list[Event]
    """All events of this run that are stored."""
    history_length: int
    """How much of `visible` was there before this run produced anything."""
    questions: dict[str, Callable[[], None]] | None
    """By step key: how to record the questions of the code of the current step."""
    kept: list[Callable[[], None]] | None
    """How to record notices again that are sent and not stored."""
    shared_budgets: SharedBudgets
    trigger_notes: dict[int, str]
    """What conditions of the active agent's triggers last came out as."""
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
    """`None` until they are needed, if the session has none."""

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
        """All agents that may get the conversation."""
        if not isinstance(self.root, Team):
            self.root = Team(self.root)
        return self.root

    @property
    def next_seq(self) -> int:
        """The number that the next recorded event gets."""
        return self._seq + 1

    @property
    def stored_seq(self) -> int:
        """The number of the last event that is stored."""
        return self._seq - len(self._pending)

    def step_key(self, suffix: str) -> str:
        """The key of an effect of the current turn; the same after a restart."""
        progress = self.cursor.progress  # `step_key` of that, without a further call.
        return f"{progress.run}.{progress.turn + 1}.{suffix}"

    def spent_s(self) -> float:
        """Seconds worked on the run so far."""
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

        `kinds` are the names of a tool's error, and `agent` is the acting agent, by default the
        active one. Secrets are masked in `error` and in texts of audited events; `items` are the
        conversation, and stay unchanged.
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
        if details is not None and type in AUDITED and not _WORDS.isdisjoint(details):
            details = _covered(details)
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
        """What the next `commit` stores under these keys."""
        return {key: self._steps[key] for key in keys if key in self._steps}

    def remembered_under(self, prefix: str) -> dict[str, Any]:
        """What the next `commit` stores under keys that begin so."""
        return {key: value for key, value in self._steps.items() if key.startswith(prefix)}

    @property
    def next_handoff_id(self) -> str:
        """The id of the handoff that is about to be made: its number is counted already."""
        return f"{self.session_id}.h{self.cursor.handoffs.count}"

    @property
    def is_undoing(self) -> bool:
        """Whether the rollback of a handoff was begun and is not finished."""
        return self.cursor.handoffs.is_rolling_back

    def open_handoff(self, pending: PendingHandoff) -> None:
        """From the next commit on, `pending` is to be confirmed or undone."""
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
        """What the next `commit` writes besides this session."""
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
        """Send something with the next commit, whether the step ends or waits: `put` records it."""
        put()
        self.kept = [*(self.kept or ()), put]

    def put_question(self, key: str, put: Callable[[], None]) -> None:
        """Ask with the commit that suspends the step: `put` records it then, once for each key."""
        self.questions = {**(self.questions or {}), key: put}

    def replace_view(self, visible: list[Item]) -> None:
        """From now on the active agent sees `visible`."""
        self.visible = visible
        self._pending_items = len(visible)

    @contextmanager
    def bringing(self, items: tuple[Item, ...], *, as_history: bool) -> Iterator[None]:
        """During the body the active agent sees `items`, too, of which nothing is recorded.

        With `as_history` they came before the run.
        """
        length, history_length = len(self.visible), self.history_length
        self.visible.extend(items)
        if as_history:
            self.history_length = len(self.visible)
        else:
            self.brought = items
        try:
            yield
        finally:
            del self.visible[length : length + len(items)]
            if self._pending_items > length:  # Something was stored meanwhile.
                self._pending_items -= len(items)
            self.history_length, self.brought = history_length, ()

    def said_since(self, seq: int) -> list[Event]:
        """This run's events after `seq` that have items and were not undone, stored or not."""
        return [event for event in said([*self.events, *self._pending]) if event.seq > seq]

    def noted(self) -> list[Event]:
        """This run's events, stored or not."""
        return [*self.events, *self._pending]

    def know(self, agent: Agent[Any]) -> None:
        """Remember an agent that came along, so that it is found by name."""
        self._known[agent.name] = agent

    def find_agent(self, name: str) -> Agent[Any]:
        """A member of the team by name; `UnknownAgent`."""
        agent = self._known.get(name)
        if agent is None:
            agent = self._known[name] = self.team[name]
        return agent


def _covered(details: dict[str, Any]) -> dict[str, Any]:
    """The details, with keys covered in their words."""
    changed = {
        name: now
        for name in _WORDS.intersection(details)
        if (now := masked_keys(details[name])) is not details[name]
    }
    return {**details, **changed} if changed else details
