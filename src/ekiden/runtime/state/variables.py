"""The variables of a run: what is stored of them, and what is about to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ekiden.core.errors import UserError
from ekiden.sessions.scopes import SharedScope, collection_of, is_run_name
from ekiden.sessions.state import changes_between
from ekiden.storage.base import Document, DocumentWrite, Store

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
    """The document of a variable: of a run by its session, of others by whoever `by` names."""
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
    """Nobody whose the variable could be."""
    return UserError(f"the variable {name!r} cannot be set: {_WAY_OUT[scope]}")


async def stored_variables(store: Store, collection: str) -> dict[str, Document]:
    """The documents of the variables that a user or an app has, by name."""
    found: dict[str, Document] = {}
    after = ""
    while page := await store.list_documents(collection, after=after, limit=_PAGE):
        found |= {each.key: each for each in page if value_of(each) is not GONE}
        if len(page) < _PAGE:
            break
        after = page[-1].key
    return found


async def load_shared(
    store: Store, known: dict[SharedScope, Shared], owners: Iterable[tuple[SharedScope, str | None]]
) -> None:
    """Read what the owners' variables are now into `known`; nothing is read for nobody."""
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
