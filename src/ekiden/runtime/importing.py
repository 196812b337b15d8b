"""Taking over a session that was exported."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ekiden.audit.chain import HASH, chained
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.session_errors import SessionImportInvalid
from ekiden.runtime.cursor import PendingHandoff
from ekiden.runtime.fork import NOT_OF_A_BRANCH, confirmations, moved, store_anew
from ekiden.runtime.import_checks import Imported, read_document
from ekiden.sessions import Session
from ekiden.storage.base import Commit, SessionPatch, Store

_LONG: Final = 100_000
"""A longer document is read beside the event loop: everybody else would have to wait for it."""


async def import_session(
    store: Store, data: Any, *, new_id: str | None = None, user_id: str | None = None
) -> Session:
    """Store the session of a document that `export_session` or `ekiden session export` made.

    `data` is the document, or its JSON as text or bytes. With `new_id` the session gets another id,
    and its audit is chained anew; under its own id the document's chain must be whole. A run that
    was under way can be resumed. What the document cannot answer for is not taken over: open
    questions, which are asked again; how to undo what was done during a handoff that was not
    confirmed, which counts as confirmed; and whatever people decided and allowed, once or always:
    where it matters still they are asked again.

    The session becomes that of `user_id`, or of the user that the document names: whose variables
    it reads then. Give it wherever the document comes from somebody who may not act for everybody.

    Raises `SessionImportInvalid` with the place, and `SessionExists`; then nothing is stored. For
    example::

        session = await import_session(store, Path("customer-42.json").read_bytes())
    """
    if user_id is not None and (not isinstance(user_id, str) or not user_id):
        raise UserError("user_id is a text that is not empty, or None for the document's own")
    if isinstance(data, str | bytes) and len(data) > _LONG:
        read = await asyncio.to_thread(read_document, data)
    else:
        read = read_document(data)
    await store.open()
    owner = read.user_id if user_id is None else user_id
    session = Session(new_id or read.session_id, store=store, user_id=owner, priority=read.priority)
    session.meta = {name: value for name, value in read.meta.items() if name not in NOT_OF_A_BRANCH}
    await store_anew(
        store,
        session.draft(read.agent),
        Commit(
            patch=SessionPatch(
                agent=read.agent,
                status="idle",
                outcome=read.outcome,
                cursor={},
                variables=read.variables,
            ),
            release=True,
        )
        if not read.events
        else await _content(store, read, session.session_id),
    )
    return session


async def _content(store: Store, read: Imported, session_id: str) -> Commit:
    is_same = session_id == read.session_id
    events = read.events if is_same else [moved(event, session_id) for event in read.events]
    opened = [
        PendingHandoff(
            id=each[0],
            source=each[1],
            target=each[2],
            call_id=None,
            seq=0,
            base=None,
            after=0,
            received=None,
        )
        for each in read.opened
    ]
    more = confirmations(
        opened, session_id, len(events), agent=read.agent, at_us=await store.now_us()
    )
    cursor = read.cursor
    if any(HASH in (event.details or {}) for event in events):
        linked, cursor.head, cursor.audited = chained([*events, *more])
        if is_same:
            _check_chain(events, linked)
        events = linked
    else:
        cursor.head, cursor.audited = "", 0
        events = [*events, *more]
    return Commit(
        patch=SessionPatch(
            agent=read.agent,
            status="idle",
            outcome=read.outcome,
            cursor=cursor.to_json(),
            variables=read.variables,
        ),
        events=events,
        steps=read.steps,
        release=True,
    )


def _check_chain(events: list[Event], linked: list[Event]) -> None:
    """Whoever changed the document did not change all hashes after it, or gives it another id."""
    for place, (event, made) in enumerate(zip(events, linked, strict=False)):
        if (event.details or {}).get(HASH) != (made.details or {}).get(HASH):
            raise SessionImportInvalid(
                f"events[{place}].details.hash",
                "it is not the hash of the event: something was changed since the export; "
                "another id (new_id) chains it anew",
            )
