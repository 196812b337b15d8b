"""The parts of model requests that sessions share: texts under their digests.

A text is a document. Every session that uses it has a note, a document whose key begins with the
same digest; with the last note, the text is deleted, because it may have been made for one person.
A text that a process uses for many people belongs to a program: it stays, and later sessions store
nothing.

A store in memory has its texts in a table of this process instead, because writing documents would
cost a short session more than everything else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from time import monotonic
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from ekiden.core.events import Event, VersionReader
from ekiden.core.versions import DIGEST_BYTES
from ekiden.storage.base import DocumentStore, DocumentWrite, Store

SHARED_PARTS: Final = "versions"
"""The collection of the texts and notes."""
SHORT: Final = DIGEST_BYTES
"""The length of digests in events and keys: half of their digits."""
_MANY: Final = 3
"""A text for more people belongs to a program. A session without a user counts as a person."""
_FOR_ALL: Final = "*"
"""The id, in a note, that stands for all sessions. It is no valid id of a session."""
_MOST_KNOWN: Final = 10_000
"""The maximum number of texts of a store whose notes a process remembers."""
_CLAIM_S: Final = 10.0
"""After this time, another session stores the note that stands for all sessions, unless it is known
to be stored."""
_NOTED: WeakKeyDictionary[Store, dict[str, _Noted]] = WeakKeyDictionary()
"""What this process noted about each text."""
_IN_MEMORY: WeakKeyDictionary[DocumentStore, dict[str, _Held]] = WeakKeyDictionary()
"""The texts of stores in memory."""


class _Held:
    """A text of a store in memory, and the sessions that use it."""

    __slots__ = ("sessions", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.sessions: set[str] = set()


class _Noted:
    """For whom a process uses a text."""

    __slots__ = ("_claimed_s", "_is_for_all", "_people")

    def __init__(self) -> None:
        self._people: set[str] = set()
        self._claimed_s = -_CLAIM_S
        self._is_for_all = False

    def next_id(self, session_id: str, person: str) -> str | None:
        """The id for the note of a session that begins to use the text. `None`: it needs none."""
        if self._is_for_all:
            return None
        if person in self._people or len(self._people) < _MANY:
            self._people.add(person)
            return session_id
        now = monotonic()
        if now < self._claimed_s + _CLAIM_S:
            return None
        self._claimed_s = now
        return _FOR_ALL

    async def is_stored(self, id: str) -> None:
        """Called when the note with this id is stored."""
        self._is_for_all = self._is_for_all or id == _FOR_ALL


class _SideWrites(Protocol):
    """The part of the side writes of a commit that this module needs."""

    documents: list[DocumentWrite]
    afterwards: list[Callable[[], Awaitable[None]]]


class _Run(Protocol):
    """The part of a run that this module needs."""

    store: Store
    user_id: str | None

    @property
    def session_id(self) -> str: ...
    @property
    def side_writes(self) -> _SideWrites: ...


def key_of(text: str) -> str:
    """The key of the text."""
    data = text.encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()[:SHORT]


def keys_of(events: Iterable[Event]) -> list[str]:
    """The keys of the texts that the model calls among these events use. Pass all events of a
    session, in order."""
    reader = VersionReader()
    found = {(reader.made_by(each) or "").partition("/")[2] for each in events}
    return sorted(found - {""})


def begin_use(run: _Run, key: str, text: str) -> None:
    """Let the next commit of the run store the text and the session's note, unless it is known to
    stay."""
    store = run.store
    if not store.shared:
        held = _IN_MEMORY.get(store)
        if held is None:
            held = _IN_MEMORY[store] = {}
        if key not in held:
            held[key] = _Held(text)
        held[key].sessions.add(run.session_id)
        return
    known = _NOTED.get(store)
    if known is None or len(known) > _MOST_KNOWN:
        known = _NOTED[store] = defaultdict(_Noted)
    noted = known[key]
    id = noted.next_id(run.session_id, run.user_id or run.session_id)
    if id is not None:
        run.side_writes.documents.extend(stored_for(id, {key: text}))
        run.side_writes.afterwards.append(partial(noted.is_stored, id))


def stored_for(session_id: str, texts: Mapping[str, str]) -> Sequence[DocumentWrite]:
    """The writes of texts, and of the notes that the session uses them. Texts are written again
    even if they are stored, because another process may be deleting them."""
    found = []
    for key, text in texts.items():
        found.append(DocumentWrite(collection=SHARED_PARTS, key=key, body=text))
        found.append(DocumentWrite(collection=SHARED_PARTS, key=f"{key}/{session_id}", body=True))
    return found


async def read_shared(store: DocumentStore, events: Iterable[Event]) -> dict[str, str]:
    """The texts that the model calls among these events use, by key; without missing ones."""
    held, found = _IN_MEMORY.get(store, {}), dict[str, str]()
    for key in keys_of(events):
        if key in held:
            found[key] = held[key].text
        elif (document := await store.get_document(SHARED_PARTS, key)) is not None:
            found[key] = document.body
    return found


async def forget_shared(
    store: Store, session_id: str, events: Sequence[Event]
) -> Sequence[DocumentWrite]:
    """Delete the session's notes, and the texts that no other session uses. `events` are all events
    of the session. Returns the writes that undo this."""
    texts = await read_shared(store, events)
    held = _IN_MEMORY.get(store, {})
    for key, text in texts.items():
        if key in held:
            held[key].sessions.discard(session_id)
            if not held[key].sessions:
                del held[key]
        await _write(store, f"{key}/{session_id}", None)
        if await _is_noted(store, key):
            continue
        await _write(store, key, None)
        # A session may have begun to use the text in the meantime.
        if await _is_noted(store, key):
            await _write(store, key, text)
    return stored_for(session_id, texts)


async def _write(store: Store, key: str, body: str | None) -> None:
    await store.write_documents([DocumentWrite(collection=SHARED_PARTS, key=key, body=body)])


async def _is_noted(store: Store, key: str) -> bool:
    return bool(await store.list_documents(SHARED_PARTS, prefix=f"{key}/", limit=1))
