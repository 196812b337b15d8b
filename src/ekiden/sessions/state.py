"""A session's state, now and after any of its events.

Every transaction that changes variables records the changes in an event, under ``state`` in the
details::

    {"set": {"order": 42}, "deleted": ["draft"], "user": ["language"], "app": []}

`set` has the new values of the session's own variables, and `deleted` the names of deleted ones.
Variables of a user or an app are recorded only by name, because their values do not belong to the
session. ``base`` has the earlier variables, in the first such event of a session that had variables
before changes were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ekiden.core.conversation.model import text_of
from ekiden.core.conversation.quotes import is_request
from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value, to_json
from ekiden.core.events import Event
from ekiden.sessions.conversation import is_rewind, is_transfer, rewound
from ekiden.storage.base import SessionRow
from ekiden.storage.values import copy_json

STATE = "state"
"""The key in an event's details with the changes of variables."""

TaskStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
"""`pending`: not started; `in_progress`: a process works on it, or it waits for an answer."""

_BY_OUTCOME: dict[str, TaskStatus] = {
    "done": "completed",
    "waiting": "in_progress",
    "refused": "failed",
    "failed": "failed",
    "out_of_budget": "failed",
    "cancelled": "pending",
}
_MAX_TASK = 200
_OWN = frozenset({STATE, "hash", "undoes", "keeps", "moves"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Value):
    """The last action in the session."""

    type: str
    timestamp: float
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState(Value):
    """A copy of a session's state, now or after one of its events.

    For example::

        state = await session.state(at=7)
        print(state.task_status, state.variables)
    """

    session_id: str
    seq: int
    """The number of the event after which the session was in this state."""
    version: int
    """The number of the last event that changed `variables`; 0 if there was none."""
    current_task: str | None
    """The last request to the session, shortened to one line."""
    task_status: TaskStatus
    current_agent: str | None
    variables: Mapping[str, Any]
    """The variables of the session; variables of the run have the prefix ``run:``."""
    last_action: Action | None

    def to_json(self) -> dict[str, Any]:
        """The state as JSON."""
        record: dict[str, Any] = to_json(self)
        return record


def state_of(row: SessionRow, events: Sequence[Event]) -> SessionState:
    """The current state of a session with all of its events."""
    at = state_at(events, row.seq, now=row.variables)
    return SessionState(
        session_id=row.id,
        seq=row.seq,
        version=at.version,
        current_task=at.current_task or row.meta.get("title"),
        task_status=_status_now(row),
        current_agent=row.agent,
        variables=copy_json(dict(row.variables)),
        last_action=at.last_action,
    )


def state_at(
    events: Sequence[Event], seq: int, *, now: Mapping[str, Any] | None = None
) -> SessionState:
    """The state of a session after event number `seq`, computed from its events.

    Events that a rollback or rewind made invalid are ignored, except for `version` and
    `last_action`. `now` has the current variables of the session; the result has them if no event
    has changed a variable. For example::

        print(state_at(await session.events(), 7).task_status)
    """
    session_id, task, agent = "", None, None
    status: TaskStatus = "pending"
    version, last = 0, None
    known = [event for event in events if event.seq <= seq]
    undone = rewound(known)
    for event in known:
        session_id, last = event.session_id, event
        if _changes_own(event):
            version = event.seq
        if any(first <= event.seq <= end for first, end in undone):
            continue
        agent = _agent_after(event, agent)
        said = _asked(event)
        if said is not None:
            task, status = said, "pending"
        else:
            status = _status_after(event, status)
    return SessionState(
        session_id=session_id,
        seq=0 if last is None else last.seq,
        version=version,
        current_task=task,
        task_status=status,
        current_agent=agent,
        variables=variables_at(events, seq, now=now),
        last_action=None if last is None else _action(last),
    )


def variables_at(
    events: Iterable[Event], seq: int, *, now: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A copy of the session's variables after event number `seq`; `now` is the same as for
    `state_at`."""
    values: dict[str, Any] | None = None
    for event in events:
        changes = recorded_changes(event)
        if changes is None:
            continue
        if values is None and "base" in changes:
            values = dict(changes["base"])
        if event.seq > seq:
            break
        values = {**(values or {}), **changes.get("set", {})}
        for name in changes.get("deleted", ()):
            values.pop(name, None)
    else:
        values = dict(now or {}) if values is None else values
    copied: dict[str, Any] = copy_json(values or {})
    return copied


def recorded_changes(event: Event) -> Mapping[str, Any] | None:
    """The changes of variables that the event records; `None` if there are none."""
    changes = event.details.get(STATE) if event.details else None
    return changes if isinstance(changes, Mapping) else None


def changes_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The changes to be recorded when variables become `after`; empty if nothing changes.

    ``1``, ``1.0`` and ``True`` are different here, though they are equal in Python.
    """
    changes: dict[str, Any] = {}
    changed = {
        name: value
        for name, value in after.items()
        if name not in before or not _is_same(before[name], value)
    }
    deleted = [name for name in before if name not in after]
    if changed:
        changes["set"] = changed
    if deleted:
        changes["deleted"] = deleted
    return changes


def state_version(events: Iterable[Event]) -> int:
    """The number of the last event that changed the session's own variables, or 0."""
    return max((event.seq for event in events if _changes_own(event)), default=0)


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and one == other)


def _changes_own(event: Event) -> bool:
    changes = recorded_changes(event)
    return changes is not None and bool(changes.get("set") or changes.get("deleted"))


def _asked(event: Event) -> str | None:
    """The request to the session in this event, if there is one."""
    if event.type != "message" or event.step is not None:
        return None
    for item in reversed(event.items):
        if is_request(item):
            text = " ".join(text_of(item).split())
            return text if len(text) <= _MAX_TASK else f"{text[: _MAX_TASK - 1]}…"
    return None


def _agent_after(event: Event, agent: str | None) -> str | None:
    details = event.details or {}
    if event.type == "handoff":
        if is_transfer(event):
            return details.get("to", agent)
        if "undoes" in details:
            return details.get("from", agent)
    return event.agent or agent


def _status_after(event: Event, status: TaskStatus) -> TaskStatus:
    if is_rewind(event):
        return "pending" if status == "in_progress" else status
    if event.type in ("agent_complete", "agent_error"):
        outcome = (event.details or {}).get("outcome", "done")
        return _BY_OUTCOME.get(str(outcome), status)
    if event.type in ("agent_start", "llm_call", "tool_call"):
        return "in_progress"
    return status


def _status_now(row: SessionRow) -> TaskStatus:
    if row.status == "waiting":
        return "in_progress"
    if row.outcome:
        return _BY_OUTCOME.get(row.outcome, "pending")
    return "in_progress" if row.owner is not None else "pending"


def _action(event: Event) -> Action:
    shown = {name: value for name, value in (event.details or {}).items() if name not in _OWN}
    return Action(type=event.type, timestamp=event.at_us / 1e6, details=copy_json(shown))
