"""The events, results and writes of a step until its commit. Also defines step keys and
snapshots."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import Item
from ekiden.core.errors import LeaseLost, UserError
from ekiden.core.events import (
    AUDITED,
    PRIVATE,
    QUESTIONS,
    VERSIONED,
    Event,
    EventType,
    new_event,
)
from ekiden.core.privacy.masking import cover, masked_keys
from ekiden.core.text.wording import lazy_pattern
from ekiden.runtime.config import RunConfig
from ekiden.runtime.state.cursor import ALWAYS, Cursor
from ekiden.runtime.state.cursor_handoffs import PendingHandoff
from ekiden.runtime.state.parts import NO_SIDE_WRITES, SideWrites, WorkClock
from ekiden.runtime.state.variables import Variables
from ekiden.runtime.state.versions import Versions
from ekiden.sessions import said
from ekiden.sessions.state import STATE, checked_value
from ekiden.storage.base import (
    Claim,
    DocumentWrite,
    SessionRow,
    Store,
)

KEPT = "0.0.kept."
"""The prefix of the step keys of values that code keeps. In the key, a name and the number of an
event follow. The event was stored in the same commit as the value, and the value with the highest
number counts. So the values at any event are known, and a rollback or a rewind can store them
again."""

_CHECKPOINT = lazy_pattern(r"[0-9]+\.[0-9]+\.(?:k[0-9]+|fq[0-9]+\.[0-9]+)", re.ASCII)

_VALUE = lazy_pattern(r"[.]v[0-9]+(?:r[0-9]+)?\Z", re.ASCII)

REWOUND = "rewound"
"""The key, in a snapshot before a rewind, with the state of the session after the rewind."""


def snapshot_key(run: int) -> str:
    """The key of the step with the snapshot before run number `run`.

    The key contains the turn 0, which is free, because a run's own steps begin with turn 1.
    """
    return f"{run}.0.before"


def snapshot_of(row: SessionRow) -> dict[str, Any]:
    """The fields of the row that a run may change, except for the number of its events."""
    return {
        "agent": row.agent,
        "outcome": row.outcome or "",
        "cursor": row.cursor,
        "variables": row.variables,
    }


def is_snapshot_key(step_key: str) -> bool:
    """Whether the step is a snapshot."""
    return step_key.endswith(".0.before")


def snapshot_without_grants(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The snapshot without "always" approvals."""
    copied: dict[str, Any] = {}
    for name, value in snapshot.items():
        if name == "cursor":
            copied[name] = {key: part for key, part in value.items() if key != ALWAYS}
        else:
            copied[name] = snapshot_without_grants(value) if name == REWOUND else value
    return copied


def turn_of(step_key: str) -> int:
    """The number of the step's turn; 0 for a step of the whole run."""
    number = step_key.split(".")[1] if "." in step_key else ""
    return int(number) if number.isdecimal() and number.isascii() else 0


def run_of(step_key: str) -> int:
    """The number of the step's run; 0 for a key that the runtime did not make."""
    number = step_key.partition(".")[0]
    return int(number) if number.isdecimal() and number.isascii() else 0


def stays_here(step_key: str) -> bool:
    """Whether the step is neither exported nor imported. This applies to values that code keeps,
    and to checkpoints of other frameworks, because documents must not contain the formats of
    frameworks."""
    return step_key.startswith(KEPT) or _CHECKPOINT.fullmatch(step_key) is not None


_SHARED_STEP = lazy_pattern(r"[0-9]+\.h[0-9]+\.shared\.[0-9]+", re.ASCII)


def is_shared_step(step_key: str) -> bool:
    """Whether the step has earlier values of shared variables, for the rollback of a handoff. These
    values belong to a user or an app, so they are not exported with a session."""
    return _SHARED_STEP.fullmatch(step_key) is not None


def kept_key(name: str, seq: int) -> str:
    """The key of a value that code keeps under the name, stored with event `seq`."""
    return f"{KEPT}{name}/{seq}"


def kept_until(steps: Mapping[str, Any], seq: int) -> dict[str, Any]:
    """The steps among `steps` with values that code had kept when event `seq` was stored."""
    return {key: value for key, value in steps.items() if 0 < _kept_number(key) <= seq}


def kept_values(steps: Mapping[str, Any]) -> dict[str, Any]:
    """The latest kept values in these steps, by name."""
    kept = sorted((key for key in steps if _kept_number(key)), key=_kept_number)
    return {_kept_name(key): steps[key] for key in kept}


def kept_again(steps: Mapping[str, Any], seq: int, *, at_seq: int) -> dict[str, Any]:
    """The steps to store with event `at_seq`, so that code gets back the values that it had at
    event `seq`. Names that code did not use then get the value `None`."""
    values = kept_values(kept_until(steps, seq))
    later = {_kept_name(key) for key in steps if _kept_number(key) > seq}
    return {kept_key(name, at_seq): values.get(name) for name in sorted(later)}


def _kept_name(key: str) -> str:
    return key.removeprefix(KEPT).rpartition("/")[0]


def _kept_number(key: str) -> int:
    """The number of the event; 0 for other keys."""
    return int(key.rpartition("/")[2]) if key.startswith(KEPT) else 0


async def read_step(store: Store, session_id: str, key: str) -> Any:
    """The stored result of the step with this key. Raises `KeyError` if there is none."""
    return (await store.steps(session_id, prefix=key))[key]


async def events_until(
    store: Store, session_id: str, seq: int, *, after: int = 0, with_items: bool = False
) -> Sequence[Event]:
    """The events of a session that the caller owns. `seq` is the number of the session's last
    event.

    Raises `LeaseLost` if another process wrote or deleted events since. A process that was paused
    between the claim and this read would otherwise continue with a conversation that does not match
    its cursor.
    """
    events = await store.events(session_id, after=after, with_items=with_items)
    last = events[-1].seq if events else min(after, seq)
    if last > seq or (last < seq and not with_items):
        raise LeaseLost(session_id)
    return events


def up_to(row: SessionRow, events: Sequence[Event]) -> Sequence[Event]:
    """The events that existed when the row was read."""
    return [event for event in events if event.seq <= row.seq]


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
        "charged",
        "claim",
        "config",
        "cursor",
        "events",
        "history_length",
        "kept",
        "outer_budgets",
        "questions",
        "reserved_call",
        "root",
        "store",
        "trigger_notes",
        "versions",
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
    """The items that the active agent sees. Code may append to the list or replace it, but not
    change its items, because a handoff shares the list."""
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
    outer_budgets: tuple[str, ...]
    """The keys of the budgets that the run shares with the sessions that asked it. See
    `runtime.state.budget`."""
    reserved_call: str | None
    """The id of the model call that has reserved a part of the shared budgets."""
    charged: list[object] | None
    """The amounts of the last charge of the shared budgets."""
    trigger_notes: dict[int, str]
    """The last results of the conditions of the active agent's triggers, by the trigger's index."""
    versions: Versions
    user_id: str | None
    work: WorkClock
    _side_writes: SideWrites
    _known: dict[str, Agent[Any]]
    _labels: Mapping[str, str]
    _new_handoffs: Sequence[PendingHandoff]
    """The open handoffs that the next commit stores for the first time."""
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
        """The session's variables, and the variables that it shares with other sessions."""
        if self._variables is None:
            self._variables = Variables({})
        return self._variables

    def own_variable(self, name: str) -> Any:
        """A variable of the session; `None` if it does not exist."""
        return None if self._variables is None else self._variables.own.get(name)

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
        """The key of an effect of the current turn. After a restart the key is the same."""
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

        Returns the event's number. `kinds` are the class names of a tool's error. `agent` is the
        acting agent, by default the active agent. Secrets are masked in `error` and in texts of
        audited events. `items` become part of the conversation, and are stored unchanged.
        """
        config = self.config
        if not config.events:
            is_bare = not items and error is None and type != "handoff"
            if is_bare and STATE not in (details or ()):
                return self._seq
        cursor = self.cursor
        if error is not None:
            error = cover(error)
            cursor.progress.errors += 1
            is_shown = config.trace_include_sensitive_data
            if type == "tool_call":
                names = "|".join(kinds) or error.partition(":")[0]
                cursor.triggers = cursor.triggers.with_tool_error(
                    f"{names}: {error}" if is_shown else names
                )
            if not is_shown:
                error = REDACTED
        elif type == "tool_call":
            cursor.handoffs.work += 1
        # The second check is that of `note`, without a call for most events.
        if (
            type in VERSIONED
            and (type == "llm_call" or self.agent.name not in self.versions.made_by)
            and agent is None
        ):
            details = self.versions.note(self, type, details)
        if not config.trace_include_sensitive_data:
            details = {**(details or {}), PRIVATE: True}
        if details is not None and type in AUDITED and not _TEXTS.isdisjoint(details):
            details = _masked(details)
        self._seq += 1
        event = new_event(
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

    def recorded_values(self) -> dict[str, Any]:
        """The values that code got from the journal (see `runtime.state.journal`) and that are not
        stored yet. They are stored with the next question, and before the next effect."""
        return {key: value for key, value in self._steps.items() if _VALUE.search(key)}

    def remembered_under(self, prefix: str) -> dict[str, Any]:
        """The results under keys with this prefix that the next `commit` stores."""
        return {key: value for key, value in self._steps.items() if key.startswith(prefix)}

    @property
    def next_handoff_id(self) -> str:
        """The id of the handoff in preparation. Its number is already counted."""
        return f"{self.session_id}.h{self.cursor.handoffs.count}"

    @property
    def is_undoing(self) -> bool:
        """Whether the rollback of a handoff has begun and is not finished."""
        return self.cursor.handoffs.is_rolling_back

    def open_handoff(self, pending: PendingHandoff) -> None:
        """Add an open handoff. From the next commit on, it must be confirmed or rolled back."""
        self.cursor.handoffs.open.append(pending)
        self._new_handoffs = [*self._new_handoffs, pending]

    def publish(self, name: str, data: Any) -> None:
        """See `RunContextWrapper.publish`."""
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_EVENT_NAME:
            raise UserError(f"an event needs a name of 1 to {_MAX_EVENT_NAME} characters")
        data = checked_value(f"data of the event {name}", data)
        details: dict[str, Any] = {"published": name}
        if data is not None:
            details["data"] = data
        self.record("message", details=details)
        self.cursor.triggers = self.cursor.triggers.with_published(name)

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
        """Call `put`, which records a message for the next commit. If the step waits instead of
        ending, `put` is called again after `discard`."""
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
        """During the ``with`` block, the active agent also sees `items`, which are not recorded.

        With `as_history`, these items count as older than the run.
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
        """This run's events with items, stored or not, after event `seq`. Rolled-back events are
        left out."""
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
