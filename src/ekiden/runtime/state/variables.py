"""The variables of a run: stored values, changes for the next commit, and the view of user code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import field
from typing import Any, Protocol

from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.values import MAX_DEPTH, dumps, is_too_deep
from ekiden.runtime.state.cursor import Cursor
from ekiden.sessions.state import (
    SharedScope,
    changes_between,
    check_name,
    check_room,
    checked_value,
    collection_of,
    is_run_name,
    is_shared_name,
    split_name,
    stored_name,
)
from ekiden.storage.base import Document, DocumentWrite, Store, each_document
from ekiden.storage.values import copy_json

GONE = object()
"""Stands for the value of a variable that does not exist."""

_PAGE = 500
_WAY_OUT = {
    "user": "the session has no user: give it one with Session(…, user_id=…)",
    "app": "the app has no name: give it one with RunConfig(app=…)",
}


class Shared:
    """The variables of one user or one app, in one run."""

    __slots__ = ("collection", "scope", "stored", "touched", "values")

    def __init__(self, scope: SharedScope, collection: str, stored: Mapping[str, Any]) -> None:
        self.scope = scope
        self.collection = collection
        self.stored = dict(stored)
        """The stored values, as last read or written by this run."""
        self.values = dict(stored)
        self.touched: set[str] = set()
        """The names that were set or deleted and are not stored. They are written even if the value
        is unchanged: another run may have written meanwhile, and the last write counts."""

    def put(self, name: str, value: Any) -> None:
        """Set a variable. `GONE` deletes it."""
        if value is GONE:
            self.values.pop(name, None)
        else:
            self.values[name] = value
        self.touched.add(name)

    def discard(self) -> None:
        """Drop changes that are not stored."""
        self.values = dict(self.stored)
        self.touched.clear()

    def learn(self, stored: Mapping[str, Any]) -> None:
        """Take over newly read values. Changes of this run that are not stored are kept."""
        changed = {name: self.values.get(name, GONE) for name in self.touched}
        self.stored = dict(stored)
        self.values = dict(stored)
        for name, value in changed.items():
            self.put(name, value)


def body_of(value: Any, *, session: str = "", by: str = "") -> dict[str, Any]:
    """The document of a variable. If a run wrote the variable, `session` names its session.
    Otherwise `by` names the author."""
    body: dict[str, Any] = {"gone": True} if value is GONE else {"value": value}
    if session:
        body["session"] = session
    if by:
        body["by"] = by
    return body


def value_of(document: Document | None) -> Any:
    """The value in a variable's document; `GONE` if the document has no value."""
    if document is None or not isinstance(document.body, Mapping):
        return GONE
    return document.body.get("value", GONE)


def write_of(
    collection: str, name: str, body: dict[str, Any], *, version: int | None = None
) -> DocumentWrite:
    """The write of a variable. With `version`, the write fails if the document has another
    version."""
    return DocumentWrite(collection=collection, key=name, body=body, expected_version=version)


def no_owner(scope: SharedScope, name: str) -> UserError:
    """The error for a shared variable in a session that has no such user or app."""
    return UserError(f"the variable {name!r} cannot be set: {_WAY_OUT[scope]}")


async def stored_variables(store: Store, collection: str) -> dict[str, Document]:
    """The documents of all variables of a user or an app, by name."""
    documents = each_document(store, collection, page=_PAGE)
    return {each.key: each async for each in documents if value_of(each) is not GONE}


async def load_shared(
    store: Store, known: dict[SharedScope, Shared], owners: Iterable[tuple[SharedScope, str | None]]
) -> None:
    """Read the variables of each owner into `known`. A scope without an owner is skipped."""
    for scope, owner in owners:
        if not owner:
            continue
        collection = collection_of(scope, owner)
        documents = await stored_variables(store, collection)
        values = {name: value_of(each) for name, each in documents.items()}
        if scope in known:
            known[scope].learn(values)
        else:
            known[scope] = Shared(scope, collection, values)


@dataclass(slots=True, kw_only=True)
class VariablesNow:
    """A snapshot of all variables, stored or not."""

    own: Mapping[str, Any]
    shared: Mapping[SharedScope, tuple[Mapping[str, Any], frozenset[str]]] = field(
        default_factory=dict
    )
    """The values, and the names whose changes are not stored."""


@dataclass(slots=True, kw_only=True, eq=False)
class StateChange:
    """The changes of variables in one commit."""

    own: dict[str, Any] | None
    """All variables of the session; `None` if none of them changed."""
    told: dict[str, Any]
    """The changes for the event. See `ekiden.sessions.state`."""
    shared: dict[SharedScope, dict[str, Any]]
    """The new values by scope and name, or `GONE`."""

    def undoing(self, variables: Variables) -> list[list[Any]]:
        """The data to undo the changes of shared variables: for each variable its scope, name and
        collection, and the earlier value in a list (`None` if there was no value)."""
        undoing: list[list[Any]] = []
        for scope, names in self.shared.items():
            shared = variables.shared[scope]
            undoing += [
                [scope, name, _boxed(shared.stored, name), shared.collection] for name in names
            ]
        return undoing


class Variables:
    """The variables of the session, and of its user and its app, which other sessions share.

    Values are never changed in place, so shallow copies of the mappings are enough.
    """

    __slots__ = ("_base", "_dropped", "changed", "own", "shared", "stored")

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self.own = dict(stored)
        self.stored = stored
        """The stored variables of the session."""
        self.shared: dict[SharedScope, Shared] = {}
        self.changed = False
        """Whether there may be changes that are not stored."""
        self._dropped: list[str] = []
        self._base: Mapping[str, Any] | None = None

    def is_unrecorded(self) -> None:
        """Take note that no event has the current variables, so the next event must contain all of
        them."""
        self._base = dict(self.stored)

    def forget_run(self) -> None:
        """Delete the variables that belong to the earlier run, because a new run begins."""
        self._dropped = [name for name in self.own if is_run_name(name)]
        if self._dropped:
            for name in self._dropped:
                del self.own[name]
            # Also removed here, so that `discard` does not bring them back.
            self.stored = dict(self.own)
            self.changed = True

    def now(self) -> VariablesNow:
        """A snapshot of the current values, stored or not."""
        shared = {
            scope: (each.values.copy(), frozenset(each.touched))
            for scope, each in self.shared.items()
        }
        return VariablesNow(own=self.own.copy(), shared=shared)

    def go_back(self, before: VariablesNow) -> None:
        """Restore the snapshot `before`. No change may have been stored since the snapshot."""
        self.restore(before.own)
        for scope, (values, touched) in before.shared.items():
            self.shared[scope].values = dict(values)
            self.shared[scope].touched = set(touched)

    def restore(self, own: Mapping[str, Any]) -> None:
        """Restore the variables of the session."""
        self.own.clear()
        self.own.update(own)
        self.changed = True

    def discard(self) -> None:
        """Restore the stored values."""
        if self.changed:
            self.restore(self.stored)
            for each in self.shared.values():
                each.discard()
            self.changed = False

    def take(self) -> StateChange | None:
        """The changes for the next commit; `None` if nothing changed."""
        if not self.changed:
            return None
        self.changed = False
        told = self._own_changes()
        has_own = bool(told)
        if has_own and self._base is not None:
            told["base"] = dict(self._base)
        shared: dict[SharedScope, dict[str, Any]] = {}
        for scope, each in self.shared.items():
            if each.touched:
                names = sorted(each.touched)
                shared[scope] = {name: each.values.get(name, GONE) for name in names}
                told[scope] = names
                each.touched.clear()
        if not told:
            return None
        return StateChange(own=self.own.copy() if has_own else None, told=told, shared=shared)

    def put_back(self, change: StateChange) -> None:
        """Keep the changes for the next commit, because they could not be stored."""
        self.changed = True
        for scope, values in change.shared.items():
            self.shared[scope].touched.update(values)

    def settle(self, change: StateChange) -> None:
        """Take note that the changes are stored."""
        if change.own is not None:
            self.stored = change.own
            self._dropped = []
            self._base = None
        for scope, values in change.shared.items():
            stored = self.shared[scope].stored
            for name, value in values.items():
                if value is GONE:
                    stored.pop(name, None)
                else:
                    stored[name] = value

    def writes(self, change: StateChange, session_id: str) -> list[DocumentWrite]:
        """The writes of the shared variables in the change."""
        return [
            write_of(self.shared[scope].collection, name, body_of(value, session=session_id))
            for scope, values in change.shared.items()
            for name, value in values.items()
        ]

    def changed_since(self, before: VariablesNow) -> list[list[Any]]:
        """Like `StateChange.undoing`, for shared variables that were set since `before`."""
        found: list[list[Any]] = []
        for scope, each in self.shared.items():
            values, touched = before.shared[scope]
            found += [
                [scope, name, _boxed(values, name), each.collection]
                for name in sorted(each.touched)
                if name not in touched or _boxed(values, name) != _boxed(each.values, name)
            ]
        return found

    def _own_changes(self) -> dict[str, Any]:
        told = changes_between(self.stored, self.own)
        dropped = [name for name in self._dropped if name not in self.own]
        if dropped:
            told["deleted"] = [*told.get("deleted", ()), *dropped]
        return told


def _boxed(values: Mapping[str, Any], name: str) -> list[Any] | None:
    """The value in a list, because `None` is also a value; `None` if there is none."""
    return [values[name]] if name in values else None


class VariablesOwner(Protocol):
    """A run, which creates its variables at their first use."""

    cursor: Cursor

    @property
    def variables(self) -> Variables: ...


class Tracked(MutableMapping[str, Any]):
    """All variables of a run by name. Variables of the user and the app have a prefix.

    Reads and writes copy the value, so a variable changes only when it is set. A change counts as
    work since the last handoff.
    """

    __slots__ = ("_run",)

    def __init__(self, run: VariablesOwner) -> None:
        self._run = run

    def __getitem__(self, name: str) -> Any:
        values, bare = self._place(name)
        return copy_json(values[bare])

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        values, bare = self._place(name)
        return bare in values

    def __iter__(self) -> Iterator[str]:
        variables = self._run.variables
        names = [name for name in variables.own if not is_shared_name(name)]
        for scope, shared in variables.shared.items():
            names += [f"{scope}:{name}" for name in shared.values]
        return iter(names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, name: str, value: Any) -> None:
        self.check(name)
        value = checked_value(name, value)
        values, bare = self._place(name)
        is_new = bare not in values
        if is_new:
            check_room(name, len(values))
        if is_new or values[bare] != value:
            self._run.cursor.handoffs.work += 1
        self._put(name, value)

    def __delitem__(self, name: str) -> None:
        values, bare = self._place(name)
        if bare not in values:
            raise KeyError(name)
        self._put(name, GONE)

    def check(self, name: str) -> None:
        """Raise `UserError` if a variable of this run cannot have this name."""
        check_name(name)
        scope, _ = split_name(name)
        if scope in ("user", "app") and scope not in self._run.variables.shared:
            raise no_owner(scope, name)

    def _place(self, name: str) -> tuple[Mapping[str, Any], str]:
        """The mapping that contains the variable, and its name there."""
        variables = self._run.variables
        if type(name) is str and ":" in name:
            scope, bare = split_name(name)
            if scope == "user" or scope == "app":
                shared = variables.shared.get(scope)
                return ({} if shared is None else shared.values), bare
            return variables.own, stored_name(name)
        return variables.own, name

    def _put(self, name: str, value: Any) -> None:
        variables = self._run.variables
        variables.changed = True
        scope, bare = split_name(name)
        if scope == "user" or scope == "app":
            variables.shared[scope].put(bare, value)
        elif value is GONE:
            del variables.own[stored_name(name)]
        else:
            variables.own[stored_name(name)] = value


_DELETED = object()


class Draft(MutableMapping[str, Any]):
    """The variables as one tool sees and changes them, until `settle`.

    Tools run concurrently, and each result is stored at once, together with the variables. Without
    a draft, the changes of a tool that still runs would be stored without its result, and made
    again when the tool is repeated after a crash.
    """

    __slots__ = ("_base", "_changes")

    def __init__(self, base: Tracked) -> None:
        self._base = base
        self._changes: dict[str, Any] = {}

    def settle(self) -> None:
        """Apply the changes to the run's variables."""
        for name, value in self._changes.items():
            if value is _DELETED:
                self._base.pop(name, None)
            else:
                self._base[name] = value
        self._changes.clear()

    def __getitem__(self, name: str) -> Any:
        name = _plain(name)
        if name not in self._changes:
            return self._base[name]
        value = self._changes[name]
        if value is _DELETED:
            raise KeyError(name)
        return copy_json(value)

    def __setitem__(self, name: str, value: Any) -> None:
        self._base.check(name)
        self._changes[_plain(name)] = checked_value(name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._changes[_plain(name)] = _DELETED

    def __iter__(self) -> Iterator[str]:
        names = {**dict.fromkeys(self._base), **dict.fromkeys(self._changes)}
        return (name for name in names if self._changes.get(name) is not _DELETED)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _plain(name: str) -> str:
    return stored_name(name) if isinstance(name, str) else name


def check_variable(name: str, value: Any) -> None:
    """Raise `UserError` if `value` cannot be stored."""
    try:
        dumps(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UserError(f"variable {name!r} cannot be stored, it is not JSON: {exc}") from exc
    if is_too_deep(value):
        raise UserError(
            f"variable {name!r} cannot be stored: it has more than {MAX_DEPTH} nested lists and "
            "objects; make it flatter, or keep it as text"
        )
