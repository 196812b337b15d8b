"""Variables that sessions share: those of a user, and those of an app.

Each is a document of its own, in a collection that only its owner's name leads to. One that was
deleted leaves a document that says so, for versions go on counting: whoever saw version 3 can never
take what somebody made later for what it saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ekiden.core.errors import UserError
from ekiden.sessions.scopes import SharedScope, collection_of
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
