"""The scopes of variables, and the state of a session after any of its events.

Every transaction that changes variables records the changes in an event, under ``state`` in the
details::

    {"set": {"order": 42}, "deleted": ["draft"], "user": ["language"], "app": []}

`set` has the new values of the session's own variables, and `deleted` has the names of deleted
variables. Variables of a user or an app are recorded only by name, because their values do not
belong to the session. If a session got variables before changes were recorded, the first event with
changes also has these earlier variables, as ``base``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from ekiden.core.conversation.model import text_of
from ekiden.core.conversation.quotes import is_request
from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value, to_json
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.values import MAX_DEPTH, dumps, is_too_deep
from ekiden.sessions.conversation import is_rewind, is_transfer, rewound
from ekiden.storage.base import SessionRow
from ekiden.storage.values import copy_json

Scope: TypeAlias = Literal["session", "run", "user", "app"]
"""`session`: this session; `run`: this session until its next run; `user`: all sessions of the
user; `app`: all sessions with the same `RunConfig.app`."""

SharedScope: TypeAlias = Literal["user", "app"]

MAX_NAME = 200
MAX_VALUE = 1_000_000
"""The maximum length of a value as JSON, in characters."""
MAX_VARIABLES = 1_000
"""The maximum number of variables in a scope."""

_PREFIXES: dict[str, Scope] = {"run": "run", "temp": "run", "user": "user", "app": "app"}


def split_name(name: str) -> tuple[Scope, str]:
    """The scope of a variable, and its name without the prefix.

    The prefixes are ``run:``, ``temp:``, ``user:`` and ``app:``. All other names belong to the
    scope of the session, even if they contain a colon.
    """
    prefix, colon, rest = name.partition(":")
    scope = _PREFIXES.get(prefix) if colon else None
    return ("session", name) if scope is None else (scope, rest)


def stored_name(name: str) -> str:
    """The stored name of a variable: ``temp:x`` is stored as ``run:x``."""
    return f"run:{name[5:]}" if name.startswith("temp:") else name


def is_run_name(name: str) -> bool:
    """Whether the variable is deleted when the next run begins."""
    return name.startswith("run:")


def is_shared_name(name: str) -> bool:
    """Whether the variable belongs to a user or an app, and not to one session."""
    return name.startswith(("user:", "app:"))


def collection_of(scope: SharedScope, owner: str) -> str:
    """The collection with the variables of a user or an app.

    The name of the collection contains a hash of the owner's name, so that no name leads to the
    collection of another owner.
    """
    digest = sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()
    return f"state.{scope}.{digest}"


def check_name(name: Any) -> None:
    """Raise `UserError` for an invalid name of a variable."""
    if not isinstance(name, str):
        raise UserError(f"a variable's name must be text, not {type(name).__name__}")
    scope, bare = split_name(name)
    if not bare and scope != "session":
        raise UserError(f"the variable {name!r} has no name after its prefix")
    if len(name) > MAX_NAME:
        raise UserError(
            f"the name of the variable {name[:40]!r}… has {len(name):,} characters; at most "
            f"{MAX_NAME} are stored"
        )
    if scope in ("user", "app") and not _is_plain(bare):
        raise UserError(f"the variable {name!r} has characters in its name that cannot be stored")


def checked_value(name: str, value: Any) -> Any:
    """Return a deep copy of the value. Raises `UserError` if the value cannot be stored.

    As JSON, the value may have at most `MAX_VALUE` characters and `MAX_DEPTH` levels of nesting.
    """
    try:
        text = dumps(value)
        copied = copy_json(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UserError(f"variable {name!r} cannot be stored, it is not JSON: {exc}") from exc
    if is_too_deep(copied):
        raise UserError(
            f"variable {name!r} cannot be stored: it has more than {MAX_DEPTH} nested lists and "
            "objects; make it flatter, or keep it as text"
        )
    if len(text) > MAX_VALUE:
        raise UserError(
            f"variable {name!r} has {len(text):,} characters as JSON; the maximum is "
            f"{MAX_VALUE:,}: store large data somewhere else, and its address here"
        )
    return copied


def check_own(name: str) -> None:
    """Raise `UserError` for a variable of a user or an app."""
    if is_shared_name(name):
        raise UserError(
            f"{name!r} is not the session's: change it with update_shared_state, or with "
            "`ekiden state set --user` and `--app`"
        )


def own_variables(given: Any) -> dict[str, Any]:
    """Return copies of a session's variables, by their stored names. Raises `UserError` if a
    variable cannot be stored, or belongs to a user or an app.

    `update_shared_state` sets the variables of users and apps.
    """
    if not isinstance(given, Mapping):
        raise UserError(f"variables must be a mapping, not {type(given).__name__}")
    found: dict[str, Any] = {}
    for name, value in given.items():
        check_name(name)
        check_own(name)
        key = stored_name(name)
        if key in found:
            raise UserError(f"the variable {key!r} is given twice")
        check_room(name, len(found))
        found[key] = checked_value(name, value)
    return found


def check_room(name: str, count: int) -> None:
    """Raise `UserError` if a scope already has `count` variables and cannot have the new variable
    `name`."""
    if count >= MAX_VARIABLES:
        scope, _ = split_name(name)
        raise UserError(
            f"variable {name!r} cannot be stored: its {scope} has {count:,} variables already, "
            f"and at most {MAX_VARIABLES:,} fit; delete some, or put several into one"
        )


def _is_plain(name: str) -> bool:
    if "\x00" in name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


STATE = "state"
"""The key in an event's details with the changes of variables."""

TaskStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
"""`pending`: the task has not started. `in_progress`: a process works on the task, or the task
waits for an answer."""

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
    """A copy of the state of a session, at present or after an earlier event.

    For example::

        state = await session.state(at=7)
        print(state.task_status, state.variables)
    """

    session_id: str
    seq: int
    """The number of the event after which the session was in this state."""
    version: int
    """The number of the last event that changed `variables`; 0 if no event changed them."""
    current_task: str | None
    """The last request to the session, shortened to one line."""
    task_status: TaskStatus
    current_agent: str | None
    variables: Mapping[str, Any]
    """The variables of the session. Variables of the run have the prefix ``run:``."""
    last_action: Action | None

    def to_json(self) -> dict[str, Any]:
        """The state as JSON."""
        record: dict[str, Any] = to_json(self)
        return record


def state_of(row: SessionRow, events: Sequence[Event]) -> SessionState:
    """Compute the current state of a session from all of its events."""
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
    """Compute the state of a session after event number `seq` from its events.

    Events that a rollback or rewind undid are ignored, except for `version` and `last_action`.
    `now` has the current variables of the session. If the events record no variables, the result
    has these current variables. For example::

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
    """A copy of the session's variables after event number `seq`. `now` has the same meaning as for
    `state_at`."""
    values: dict[str, Any] | None = None
    for event in events:
        changes = recorded_changes(event)
        if changes is None:
            continue
        # `base` has the variables from before the first recorded change, so it also holds for
        # earlier events.
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
    """The changes of variables that the event records; `None` if the event records no changes."""
    changes = event.details.get(STATE) if event.details else None
    return changes if isinstance(changes, Mapping) else None


def changes_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The changes to record when the variables `before` become `after`. The result is empty if
    nothing changes.

    ``1``, ``1.0`` and ``True`` count as different values, although they are equal in Python.
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
    """The number of the last event that changed the session's own variables; 0 if no event changed
    them."""
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
