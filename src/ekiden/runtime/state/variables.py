"""The variables of a run: as stored, as about to be stored, and as agents' code sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import field
from typing import Any

from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.values import MAX_DEPTH, dumps, is_too_deep
from ekiden.runtime.state.cursor import Cursor
from ekiden.sessions.scopes import (
    SharedScope,
    check_name,
    check_room,
    checked_value,
    collection_of,
    is_run_name,
    is_shared_name,
    split_name,
    stored_name,
)
from ekiden.sessions.state import changes_between
from ekiden.storage.base import Document, DocumentWrite, Store, each_document
from ekiden.storage.values import copy_json

GONE = object()
"""Instead of a value: there is none."""

_PAGE = 500
_WAY_OUT = {
    "user": "the session has no user: give it one with Session(…, user_id=…)",
    "app": "the app has no name: give it one with RunConfig(app=…)",
}


class Shared:
    """The variables of one user or app, as one run sees and changes them."""

    __slots__ = ("collection", "scope", "stored", "touched", "values")

    def __init__(self, scope: SharedScope, collection: str, stored: Mapping[str, Any]) -> None:
        self.scope = scope
        self.collection = collection
        self.stored = dict(stored)
        """As the run knows them to be stored."""
        self.values = dict(stored)
        self.touched: set[str] = set()
        """What was set or deleted and is not stored: it is written even if it is as it was, for
        another run may have written meanwhile, and the last one counts."""

    def put(self, name: str, value: Any) -> None:
        """Set a variable, or delete it (`GONE`)."""
        if value is GONE:
            self.values.pop(name, None)
        else:
            self.values[name] = value
        self.touched.add(name)

    def discard(self) -> None:
        """Forget what is not stored."""
        self.values = dict(self.stored)
        self.touched.clear()

    def learn(self, stored: Mapping[str, Any]) -> None:
        """The variables are stored so now; what this run changed meanwhile stays changed."""
        changed = {name: self.values.get(name, GONE) for name in self.touched}
        self.stored = dict(stored)
        self.values = dict(stored)
        for name, value in changed.items():
            self.put(name, value)


def body_of(value: Any, *, session: str = "", by: str = "") -> dict[str, Any]:
    """The document of a variable: a run's by its session, others by the author `by`."""
    body: dict[str, Any] = {"gone": True} if value is GONE else {"value": value}
    if session:
        body["session"] = session
    if by:
        body["by"] = by
    return body


def value_of(document: Document | None) -> Any:
    """The value in a variable's document; `GONE` if it has none."""
    if document is None or not isinstance(document.body, Mapping):
        return GONE
    return document.body.get("value", GONE)


def write_of(
    collection: str, name: str, body: dict[str, Any], *, version: int | None = None
) -> DocumentWrite:
    """How a variable is written; with `version`, only if it is that one now."""
    return DocumentWrite(collection=collection, key=name, body=body, expected_version=version)


def no_owner(scope: SharedScope, name: str) -> UserError:
    """The error for a variable without an owner."""
    return UserError(f"the variable {name!r} cannot be set: {_WAY_OUT[scope]}")


async def stored_variables(store: Store, collection: str) -> dict[str, Document]:
    """The documents of the variables that a user or an app has, by name."""
    documents = each_document(store, collection, page=_PAGE)
    return {each.key: each async for each in documents if value_of(each) is not GONE}


async def load_shared(
    store: Store, known: dict[SharedScope, Shared], owners: Iterable[tuple[SharedScope, str | None]]
) -> None:
    """Read the owners' variables into `known`; without an owner nothing is read."""
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
    """How they are at one moment, stored or not."""

    own: Mapping[str, Any]
    shared: Mapping[SharedScope, tuple[Mapping[str, Any], frozenset[str]]] = field(
        default_factory=dict
    )
    """The values, and which of them are not stored."""


@dataclass(slots=True, kw_only=True, eq=False)
class StateChange:
    """What one commit does to variables."""

    own: dict[str, Any] | None
    """The session's, all of them, if one changed."""
    told: dict[str, Any]
    """What an event is to say of it: see `ekiden.sessions.state`; empty: nothing."""
    shared: dict[SharedScope, dict[str, Any]]
    """The values that are written, or `GONE`."""

    def undoing(self, variables: Variables) -> list[list[Any]]:
        """What it takes to undo it: scope, name, the value in a list (no list: there was none), and
        where it is stored."""
        return [
            [
                scope,
                name,
                _kept(variables.shared[scope].stored, name),
                variables.shared[scope].collection,
            ]
            for scope, names in self.shared.items()
            for name in names
        ]


class Variables:
    """The session's variables, and those of its user and its app that it shares with others.

    Values are never changed in place, so copies of the mappings are enough.
    """

    __slots__ = ("_base", "_dropped", "changed", "own", "shared", "stored")

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self.own = dict(stored)
        self.stored = stored
        """The session's own, as they are stored."""
        self.shared: dict[SharedScope, Shared] = {}
        self.changed = False
        """Whether anything may have to be stored."""
        self._dropped: list[str] = []
        self._base: Mapping[str, Any] | None = None

    def is_unrecorded(self) -> None:
        """No event tells how the variables came to be what they are: the next one has to."""
        self._base = dict(self.stored)

    def forget_run(self) -> None:
        """A new run begins: what belonged to the one before is gone."""
        self._dropped = [name for name in self.own if is_run_name(name)]
        if self._dropped:
            for name in self._dropped:
                del self.own[name]
            self.stored = dict(self.own)
            self.changed = True

    def now(self) -> VariablesNow:
        """How they are, stored or not."""
        shared = {
            scope: (each.values.copy(), frozenset(each.touched))
            for scope, each in self.shared.items()
        }
        return VariablesNow(own=self.own.copy(), shared=shared)

    def go_back(self, before: VariablesNow) -> None:
        """They are as they were `before`, since when nothing was stored."""
        self.restore(before.own)
        for scope, (values, touched) in before.shared.items():
            self.shared[scope].values = dict(values)
            self.shared[scope].touched = set(touched)

    def restore(self, own: Mapping[str, Any]) -> None:
        """The session's own are to be `own` again."""
        self.own.clear()
        self.own.update(own)
        self.changed = True

    def discard(self) -> None:
        """They are as they are stored."""
        if self.changed:
            self.restore(self.stored)
            for each in self.shared.values():
                each.discard()
            self.changed = False

    def take(self) -> StateChange | None:
        """What is to be stored now; `None` if nothing changed."""
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
        """What was taken could not be stored."""
        self.changed = True
        for scope, values in change.shared.items():
            self.shared[scope].touched.update(values)

    def settle(self, change: StateChange) -> None:
        """What was taken is stored."""
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
        """The documents of the change."""
        return [
            write_of(self.shared[scope].collection, name, body_of(value, session=session_id))
            for scope, values in change.shared.items()
            for name, value in values.items()
        ]

    def changed_since(self, before: VariablesNow) -> list[list[Any]]:
        """As `StateChange.undoing`, of what users' and apps' variables were set since `before`."""
        found: list[list[Any]] = []
        for scope, each in self.shared.items():
            values, touched = before.shared[scope]
            found += [
                [scope, name, _kept(values, name), each.collection]
                for name in sorted(each.touched)
                if name not in touched or _kept(values, name) != _kept(each.values, name)
            ]
        return found

    def _own_changes(self) -> dict[str, Any]:
        told = changes_between(self.stored, self.own)
        dropped = [name for name in self._dropped if name not in self.own]
        if dropped:
            told["deleted"] = [*told.get("deleted", ()), *dropped]
        return told


def _kept(values: Mapping[str, Any], name: str) -> list[Any] | None:
    return [values[name]] if name in values else None


class Tracked(MutableMapping[str, Any]):
    """All variables of a run by name, those of its user and its app with their prefix.

    Reads and writes copy: nothing changes but by being set. A change counts as work since the last
    handoff.
    """

    __slots__ = ("_cursor", "_variables")

    def __init__(self, variables: Variables, cursor: Cursor) -> None:
        self._variables, self._cursor = variables, cursor

    def __getitem__(self, name: str) -> Any:
        values, bare = self._place(name)
        return copy_json(values[bare])

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        values, bare = self._place(name)
        return bare in values

    def __iter__(self) -> Iterator[str]:
        variables = self._variables
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
            self._cursor.handoffs.work += 1
        self._put(name, value)

    def __delitem__(self, name: str) -> None:
        values, bare = self._place(name)
        if bare not in values:
            raise KeyError(name)
        self._put(name, GONE)

    def check(self, name: str) -> None:
        """`UserError` unless a variable can be called so in this run."""
        check_name(name)
        scope, _ = split_name(name)
        if scope in ("user", "app") and scope not in self._variables.shared:
            raise no_owner(scope, name)

    def _place(self, name: str) -> tuple[Mapping[str, Any], str]:
        """Where the variable is, and what it is called there."""
        variables = self._variables
        if type(name) is str and ":" in name:
            scope, bare = split_name(name)
            if scope == "user" or scope == "app":
                shared = variables.shared.get(scope)
                return ({} if shared is None else shared.values), bare
            return variables.own, stored_name(name)
        return variables.own, name

    def _put(self, name: str, value: Any) -> None:
        variables = self._variables
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
    """A run's variables as one tool sees and changes them, until `settle`.

    The result of a tool is stored as soon as it is there, and the variables with it. What another
    tool, still running, had set by then would be stored without its result, and set again when that
    tool is repeated.
    """

    __slots__ = ("_base", "_changes")

    def __init__(self, base: Tracked) -> None:
        self._base = base
        self._changes: dict[str, Any] = {}

    def settle(self) -> None:
        """Make the changes part of the run's variables."""
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
    """`UserError` unless `value` can be stored."""
    try:
        dumps(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UserError(f"variable {name!r} cannot be stored, it is not JSON: {exc}") from exc
    if is_too_deep(value):
        raise UserError(
            f"variable {name!r} cannot be stored: it has more than {MAX_DEPTH} nested lists and "
            "objects; make it flatter, or keep it as text"
        )
