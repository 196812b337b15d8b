"""The search for sessions by their titles and messages.

Searches fill the index from the stored events; after the first search, workers also fill it. So the
index does not slow down runs. The index has the texts of a user's sessions twice: in a space of
that user, and in a space for callers who may search all sessions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, Literal

from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value
from ekiden.core.errors import SessionBusy, StaleDocument, UserError
from ekiden.core.events import Event
from ekiden.sessions.conversation import find_row, is_draft, said
from ekiden.sessions.request_parts import forget_shared
from ekiden.storage.base import DocumentWrite, SearchEntry, SearchHit, SessionRow, Store

_log = logging.getLogger("ekiden.sessions")

_ALL = "sessions"
_OF_USER = "sessions/"
_COLLECTION = "sessions.search"
_FEED = "feed"
_DELETING = "sessions.search.going"
"""The collection of sessions that are being deleted, whose texts must be removed afterwards."""
_DELETING_US = 3600 * 1_000_000
"""After this time a deletion counts as abandoned."""
_PAGE = 200
_MAX_TEXT = 20_000
"""The number of characters of a message that are indexed."""
_CONTEXT = 60
"""The number of characters of an excerpt before the match."""
_MORE = 4
"""The store is asked for this many times as many hits, because some are of undone content."""
_MAX_HITS = 10_000
"""The maximum number of hits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHit(Value):
    """A place in a session that matches a search."""

    session_id: str
    title: str | None
    user_id: str | None
    where: Literal["title", "message"]
    seq: int
    """The number of the event that contains the text; 0 for the title."""
    agent: str | None
    """The agent that wrote the text. `None` if a person wrote the text, or if it is the session's
    title."""
    excerpt: str
    """The text around the match, on one line."""
    score: float
    """The score of the match, from 0 to 1. Higher is better."""


async def search_sessions(
    store: Store, text: str, *, user_id: str | None = None, limit: int = 20
) -> list[SessionHit]:
    """Find places in sessions that contain words of `text`, best match first. An empty text finds
    nothing.

    With `user_id` only the sessions of that user are searched. Omit `user_id` only for callers who
    may see all sessions. Deleted content, and content that a rollback or rewind removed, is not
    found. Raises `UserError` for an invalid text, an empty `user_id` and a limit below 1. For
    example::

        for hit in await search_sessions(store, "refund", user_id="u42"):
            print(hit.session_id, hit.excerpt)
    """
    if not isinstance(text, str):
        raise UserError(f"the search text must be text, not {type(text).__name__}")
    if type(limit) is not int or limit < 1:
        raise UserError(f"limit must be 1 or more, not {limit!r}")
    limit = min(limit, _MAX_HITS)
    space = space_of(user_id)
    await store.open()
    await index_sessions(store)
    found: list[SessionHit] = []
    known: dict[str, _Known | None] = {}
    seen: set[str] = set()
    wanted = limit * _MORE
    while True:
        hits = await store.search_text(space, text, limit=wanted)
        for hit in hits:
            if hit.entry.key not in seen and len(found) < limit:
                seen.add(hit.entry.key)
                result = await _session_hit(store, hit, text, known)
                if result is not None and (user_id is None or result.user_id == user_id):
                    found.append(result)
        if len(found) >= limit or len(hits) < wanted:
            return found
        wanted *= _MORE


async def index_sessions(store: Store) -> int:
    """Index the new events, and return the number of new texts.

    Several processes may do this at once. After a crash, the next call continues.
    """
    texts = 0
    await _finish_deletions(store)
    while True:
        document = await store.get_document(_COLLECTION, _FEED)
        after = None if document is None else document.body["after"]
        page = await store.feed(after=after, limit=_PAGE)
        if not page.events:
            return texts
        texts += await _index(store, page.events)
        write = DocumentWrite(
            collection=_COLLECTION,
            key=_FEED,
            body={"after": page.next_cursor},
            expected_version=0 if document is None else document.version,
        )
        with suppress(StaleDocument):  # Another process was faster.
            await store.write_documents([write])


async def is_indexed(store: Store) -> bool:
    """Whether the index exists. The first search creates it."""
    return await store.get_document(_COLLECTION, _FEED) is not None


async def forget_session(
    store: Store, session_id: str, *, user_id: str | None, created_at_us: int | None = None
) -> None:
    """Remove the texts of a session from the index. With `created_at_us`, the texts of a later
    session with the same id stay."""
    prefix = f"{session_id}/"
    for space in _spaces(user_id):
        after = prefix
        while entries := await store.find_entries(space, after=after, limit=_PAGE):
            after = entries[-1].key
            keys = [
                each.key
                for each in entries
                if each.key.startswith(prefix)
                and created_at_us in (None, (each.body or {}).get("created"))
            ]
            if keys:
                await store.delete_entries(space, keys=keys)
            if not after.startswith(prefix):
                break


async def delete_with_texts(store: Store, row: SessionRow) -> None:
    """Delete the session with the parts of its model requests that no other session uses, and then
    its texts in the index. Raises `SessionNotFound` or `SessionBusy`.

    A process that indexes meanwhile checks, after writing the texts, that the session still exists.
    The next search removes the texts that a crash leaves behind.
    """
    body = {"user": row.user_id, "created": row.created_at_us}
    begin = DocumentWrite(collection=_DELETING, key=row.id, body=body)
    end = DocumentWrite(collection=_DELETING, key=row.id, body=None)
    has_index = await is_indexed(store)
    if has_index:
        await store.write_documents([begin])
    # Before the session: if the process dies in between, the session can be deleted again.
    undo = await forget_shared(store, row.id, await store.events(row.id))
    try:
        await store.delete(row.id)
    except SessionBusy:
        await store.write_documents(undo)
        raise
    await forget_session(store, row.id, user_id=row.user_id, created_at_us=row.created_at_us)
    if has_index:
        await store.write_documents([end])


async def _finish_deletions(store: Store) -> None:
    """Finish deletions that were interrupted by a crash."""
    for document in await store.list_documents(_DELETING, limit=_PAGE):
        user_id, created = document.body["user"], document.body["created"]
        row = await find_row(store, document.key)
        if row is None or row.created_at_us != created:
            await forget_session(store, document.key, user_id=user_id, created_at_us=created)
        elif await store.now_us() - document.updated_at_us < _DELETING_US:
            continue
        write = DocumentWrite(
            collection=_DELETING, key=document.key, body=None, expected_version=document.version
        )
        with suppress(StaleDocument):
            await store.write_documents([write])


def space_of(user_id: str | None) -> str:
    """Return the space with the texts of a user's sessions, or of all sessions. Raises `UserError`
    for an invalid name.

    The space contains a hash of the user's name, so that no name leads to the space of another
    user.
    """
    if user_id is None:
        return _ALL
    if not isinstance(user_id, str) or not user_id:
        raise UserError("user_id must be the name of a user; leave it out to search all sessions")
    return _OF_USER + sha256(user_id.encode("utf-8", "surrogatepass")).hexdigest()


def _spaces(user_id: str | None) -> list[str]:
    return [space_of(user_id), _ALL] if user_id else [_ALL]


async def _index(store: Store, events: Iterable[Event]) -> int:
    """Index the texts of the events; returns their number."""
    rows: dict[str, SessionRow | None] = {}
    entries: list[SearchEntry] = []
    for event in events:
        if event.session_id not in rows:
            rows[event.session_id] = await find_row(store, event.session_id)
        row = rows[event.session_id]
        if row is not None:
            entries += _entries(row, event)
    if not entries:
        return 0
    await _put(store, entries)
    for row in filter(None, rows.values()):
        now = await find_row(store, row.id)
        if now is None or now.created_at_us != row.created_at_us:  # Deleted meanwhile.
            created = row.created_at_us
            await forget_session(store, row.id, user_id=row.user_id, created_at_us=created)
    return len(entries)


async def _put(store: Store, entries: Sequence[SearchEntry]) -> None:
    """Store the entries, except those that cannot be stored."""
    try:
        await store.put_entries(entries)
    except _UNFIT as exc:
        if len(entries) == 1:
            _log.warning("%s is not found by searches: %s", entries[0].key, ascii(str(exc)))
            return
        for each in entries:
            await _put(store, [each])


def _entries(row: SessionRow, event: Event) -> list[SearchEntry]:
    """The entries of an event; none for an event with an invalid form."""
    try:
        entries: list[SearchEntry] = []
        if event.seq == 1 and row.meta.get("title"):
            entries += _entry(row, 0, str(row.meta["title"]), None)
        if is_draft(event):
            return entries
        messages = [item for item in event.items if is_message(item) and text_of(item)]
        text = "\n".join(text_of(item) for item in messages)
        if text:
            is_by_agent = messages[-1].get("role") == "assistant"
            entries += _entry(row, event.seq, text, event.agent if is_by_agent else None)
        return entries
    except _UNFIT as exc:
        _log.warning("%s is not found by searches: %s", event.event_id, ascii(str(exc)))
        return []


def _entry(row: SessionRow, seq: int, text: str, agent: str | None) -> list[SearchEntry]:
    body = {"session": row.id, "seq": seq, "agent": agent, "created": row.created_at_us}
    return [
        SearchEntry(space=space, key=f"{row.id}/{seq}", text=text[:_MAX_TEXT], body=body)
        for space in _spaces(row.user_id)
    ]


_UNFIT = (UserError, TypeError, ValueError, AttributeError, KeyError)
"""Exceptions for events with an invalid form, such as imported ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    row: SessionRow
    visible: frozenset[int]


async def _session_hit(
    store: Store, hit: SearchHit, text: str, known: dict[str, _Known | None]
) -> SessionHit | None:
    """The result for a hit; `None` for undone or deleted content."""
    body: Mapping[str, Any] = hit.entry.body
    session_id, seq = body["session"], body["seq"]
    if session_id not in known:
        known[session_id] = await _known(store, session_id)
    session = known[session_id]
    if session is None or session.row.created_at_us != body["created"]:
        await store.delete_entries(hit.entry.space, keys=[hit.entry.key])
        return None
    if seq and seq not in session.visible:
        return None
    title = session.row.meta.get("title")
    return SessionHit(
        session_id=session_id,
        title=None if title is None else str(title),
        user_id=session.row.user_id,
        where="message" if seq else "title",
        seq=seq,
        agent=body["agent"],
        excerpt=excerpt(hit.entry.text, text),
        score=hit.score,
    )


async def _known(store: Store, session_id: str) -> _Known | None:
    row = await find_row(store, session_id)
    if row is None:
        return None
    events = await store.events(session_id, with_items=True)
    return _Known(row=row, visible=frozenset(event.seq for event in said(events)))


def excerpt(text: str, query: str) -> str:
    """The part of `text` around the first matching word of `query`, on one line."""
    line = " ".join(text.split())
    folded = line.casefold()
    place = -1
    for word in query.casefold().split():
        pieces = [word, *(word[at : at + 2] for at in range(len(word) - 1))]
        place = next((at for piece in pieces if (at := folded.find(piece)) >= 0), -1)
        if place >= 0:
            break
    start = max(min(place, len(line)) - _CONTEXT, 0)
    end = max(place, 0) + 2 * _CONTEXT
    before, behind = "…" if start else "", "…" if end < len(line) else ""
    return f"{before}{line[start:end].strip()}{behind}"
