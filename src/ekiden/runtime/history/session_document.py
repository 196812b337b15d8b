"""Exports a session as one JSON document, and imports such a document."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ekiden import __version__
from ekiden.core.conversation.shapes import Object, check
from ekiden.core.errors import UserError
from ekiden.core.errors.stored_data import SessionImportInvalid
from ekiden.core.events import Event
from ekiden.core.runs import Conclusion
from ekiden.core.values import MAX_DEPTH, check_id, check_line, is_too_deep, loads
from ekiden.runtime.history.fork import NOT_OF_A_BRANCH, confirmations, moved, store_anew
from ekiden.runtime.history.import_parts import (
    Header,
    check_items,
    check_snapshot,
    ended_run,
    read_cursor,
    read_events,
    read_steps,
)
from ekiden.runtime.history.requests import is_shared_part
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.cursor_handoffs import PendingHandoff
from ekiden.runtime.state.step_record import is_shared_step, is_snapshot_key, stays_here
from ekiden.sessions import Session
from ekiden.sessions.conclusion import recorded_conclusion
from ekiden.sessions.conversation import session_record
from ekiden.sessions.request_parts import read_shared, stored_for
from ekiden.storage.base import Commit, SessionPatch, SessionRow, Store
from ekiden.storage.chain import HASH, AuditChain, chained
from ekiden.storage.records import NORMAL
from ekiden.storage.values import copy_json

EXPORT_FORMAT = "ekiden.session"
EXPORT_VERSION = 1
_DEEPEST = MAX_DEPTH + 50
"""The maximum depth of a document: the values of a session are nested inside it."""


async def export_session(store: Store, session_id: str) -> dict[str, Any]:
    """Return the session as a document for `import_session`. The session may be running.

    The document contains all messages, the variables, and the state of an unfinished run, so
    protect the document like the store itself. Variables of the user and of the app are not
    included. Raises `SessionNotFound`. For example::

        document = await export_session(store, "customer-42")
        await import_session(elsewhere, document)
    """
    await store.open()
    row = await store.get(session_id)
    events = await store.events(session_id, limit=row.seq) if row.seq else ()
    document = export_record(row, events, await store.steps(session_id))
    document["versions"] = await read_shared(store, events)
    return document


def export_record(
    row: SessionRow, events: Sequence[Event], steps: Mapping[str, Any]
) -> dict[str, Any]:
    """The document of a session with these events and steps, as a deep copy."""
    document: dict[str, Any] = {
        "format": EXPORT_FORMAT,
        "version": EXPORT_VERSION,
        "ekiden": __version__,
        "session": {**session_record(row), "variables": dict(row.variables)},
        "events": [event.to_json() for event in events],
        "resume": {
            "cursor": dict(row.cursor),
            "steps": {
                key: value
                for key, value in steps.items()
                if not (is_shared_step(key) or stays_here(key))
            },
        },
    }
    copied: dict[str, Any] = copy_json(document)
    return copied


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A document that was read and checked. Every part has the form that the runtime requires."""

    session_id: str
    agent: str
    user_id: str | None
    priority: int
    outcome: str
    conclusion: Conclusion | None
    meta: dict[str, Any]
    variables: dict[str, Any]
    events: list[Event]
    cursor: Cursor
    opened: list[Any]
    """The id, source and target of each unconfirmed handoff."""
    steps: dict[str, Any]
    versions: dict[str, str]
    """Shared parts of requests, by key."""


def read_document(data: Any) -> Imported:
    """Read and check the document. Raises `SessionImportInvalid` with the position of the error."""
    document = _document(data)
    session = check(Header, document.get("session"), "session")
    session_id, outcome = session["session_id"], session.get("outcome")
    try:
        check_id(session_id, what="id")
    except UserError as exc:
        raise SessionImportInvalid("session.session_id", str(exc)) from exc
    events = read_events(document.get("events"), session_id)
    if "resume" in document:
        resume = document["resume"]
    elif "ekiden" in document:
        # Versions that wrote no `resume` did not write their own version either.
        raise SessionImportInvalid("resume", "it is missing, so the run could not be continued")
    else:
        resume = ended_run(events, session["agent"])
    check(Object, resume, "resume")
    steps = read_steps(resume.get("steps"))
    _check_snapshots(events, steps)
    cursor, opened = read_cursor(resume.get("cursor"), len(events), steps)
    if session.get("user_id") is not None:
        try:
            check_line(session["user_id"], what="a user id")
        except UserError as exc:
            raise SessionImportInvalid("session.user_id", str(exc)) from exc
    outcome = "" if outcome in (None, "waiting") else outcome
    first = max(cursor.progress.first, 1)
    return Imported(
        session_id=session_id,
        agent=session["agent"],
        user_id=session.get("user_id"),
        priority=session.get("priority", NORMAL),
        outcome=outcome,
        conclusion=recorded_conclusion(events[first - 1 :]) if outcome else None,
        meta=session["meta"],
        variables=session["variables"],
        events=events,
        cursor=cursor,
        opened=opened,
        steps=steps,
        versions=_read_versions(document.get("versions", {})),
    )


def _read_versions(data: Any) -> dict[str, str]:
    parts: dict[str, str] = check(Object, data, "versions")
    for key, text in parts.items():
        if not is_shared_part(key, text):
            raise SessionImportInvalid(f"versions.{key:.40}", "it is not the digest of its text")
    return parts


def _document(data: Any) -> Any:
    try:
        if isinstance(data, bytes | bytearray):
            data = bytes(data).decode("utf-8")
        # Copied even after `loads`, which accepts numbers that are not JSON, such as NaN.
        document = copy_json(loads(data) if isinstance(data, str) else data)
    except UnicodeDecodeError as exc:
        raise SessionImportInvalid("document", "it is not UTF-8") from exc
    except (ValueError, TypeError, RecursionError) as exc:
        raise SessionImportInvalid("document", f"it is not JSON ({str(exc)[:200]})") from exc
    if is_too_deep(document, _DEEPEST):
        raise SessionImportInvalid(
            "document", f"it has more than {_DEEPEST} nested lists and objects"
        )
    check(Object, document, "document")
    if document.get("format") != EXPORT_FORMAT:
        raise SessionImportInvalid("format", f"it is not {EXPORT_FORMAT!r}")
    version = document.get("version")
    if isinstance(version, int) and not isinstance(version, bool) and version > EXPORT_VERSION:
        raise SessionImportInvalid("version", f"{version} is of a newer Ekiden: upgrade this one")
    if version != EXPORT_VERSION:
        raise SessionImportInvalid("version", f"it is not {EXPORT_VERSION}")
    return document


def _check_snapshots(events: list[Event], steps: dict[str, Any]) -> None:
    """Check the snapshots and views of earlier points, because a rewind restores them."""
    for key, value in steps.items():
        if is_snapshot_key(key):
            check_snapshot(value, f"resume.steps.{key}", len(events), steps)
    for event in events:
        view = (event.details or {}).get("filter")
        if view in steps:
            check_items(steps[view], f"resume.steps.{view}")


_LONG: Final = 100_000
"""A longer document is read in a thread, so that it does not block the event loop."""


async def import_session(
    store: Store, data: Any, *, new_id: str | None = None, user_id: str | None = None
) -> Session:
    """Store the session from a document of `export_session` or `ekiden session export`.

    `data` is the document, or its JSON as text or bytes. With `new_id` the session gets another id,
    and its audit chain is computed again. Without `new_id` the audit chain of the document must be
    intact. An unfinished run can be resumed, except from an export of a development version whose
    store has format 1, 2 or 3: its run counts as ended, and a new message continues the session.
    Some state is not imported. Open questions are asked again. An unconfirmed handoff counts as
    confirmed, and its compensations are dropped. Every approval, including "always" approvals, must
    be given again.

    The session belongs to `user_id`, by default to the user in the document, and uses this user's
    variables. If the document comes from a caller who may not act for all users, pass `user_id`.

    Raises `SessionImportInvalid` with the position of the error, and `SessionExists`. After an
    error nothing is stored. For example::

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
                conclusion=read.conclusion,
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
    confirmed = confirmations(
        opened, session_id, len(events), agent=read.agent, at_us=await store.now_us()
    )
    cursor = read.cursor
    if any(HASH in (event.details or {}) for event in events):
        linked, cursor.audit = chained([*events, *confirmed])
        if is_same:
            _check_chain(events, linked)
        events = linked
    else:
        cursor.audit = AuditChain()
        events = [*events, *confirmed]
    return Commit(
        patch=SessionPatch(
            agent=read.agent,
            status="idle",
            outcome=read.outcome,
            conclusion=read.conclusion,
            cursor=cursor.to_json(),
            variables=read.variables,
        ),
        events=events,
        steps=read.steps,
        documents=stored_for(session_id, read.versions),
        release=True,
    )


def _check_chain(events: list[Event], linked: list[Event]) -> None:
    """Raise `SessionImportInvalid` for an event whose hash differs from the computed one."""
    for place, (event, made) in enumerate(zip(events, linked, strict=False)):
        if (event.details or {}).get(HASH) != (made.details or {}).get(HASH):
            raise SessionImportInvalid(
                f"events[{place}].details.hash",
                "it is not the hash of the event: something was changed since the export; "
                "another id (new_id) chains it again",
            )
