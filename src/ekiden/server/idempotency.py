"""Support for `Idempotency-Key`, with which a repeated request is not executed again.

A key belongs to one caller and one path. The response is stored for a day in the tenant's store. So
a repeated request gets the same response, from any process. While the first request is in progress,
a repeated request must be retried later. If the process of the first request died, the repeated
request is executed after the lease has expired.

The guarantee for the start of a run is stronger. The document of the request is stored in the same
transaction as the message. So the message is stored only once, even if a process is killed. A
repeated request gets the run's current state.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from starlette.requests import HTTPConnection

from ekiden.core.errors import SessionBusy, SessionNotFound, StaleDocument
from ekiden.core.errors.server import IdempotencyConflict, RequestInvalid, RunNotFound
from ekiden.core.runs import parse_run_id, run_id_of
from ekiden.project.run_tasks import RunOrder, StartedRun
from ekiden.project.service import TenantService
from ekiden.project.stored_runs import run_range
from ekiden.storage.base import Document, DocumentWrite, Store

T = TypeVar("T")

COLLECTION: Final = "idempotency"
KEPT_S: Final = 86_400
LEASE_S: Final = 30.0
"""The number of seconds for which a started request counts as in progress without a heartbeat."""
MAX_KEY: Final = 200
_PAGE: Final = 200
_MOST_SESSIONS: Final = 20
"""The maximum number of sessions that one key can create, over all days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A request that is to be executed once."""

    key: str
    """The key of the document: a digest of caller, path and `Idempotency-Key`."""
    digest: str
    """A digest of query, media type and body."""

    def check(self, body: Mapping[str, Any]) -> None:
        """Raise `IdempotencyConflict` if the document belongs to another request."""
        if body["digest"] != self.digest:
            raise IdempotencyConflict(
                "this Idempotency-Key was already sent with another request; use a new one"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """A stored response."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes | None
    """The body of the response; `None` if it is too long to be stored."""


def ticket_for(
    key: str, *, caller: str, path: str, query: bytes, media_type: str, body: bytes
) -> Ticket:
    """The ticket of a request. Raises `RequestInvalid` for an invalid key."""
    if not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise RequestInvalid(
            f"Idempotency-Key is 1 to {MAX_KEY} characters of printable ASCII, such as a UUID"
        )
    return Ticket(
        key=_digest(caller.encode(), path.encode(errors="replace"), key.encode()),
        digest=_digest(query, media_type.encode(errors="replace"), body),
    )


class Reservation:
    """A request that this process executes. Only one task at a time may use the object."""

    def __init__(self, store: Store, ticket: Ticket, version: int) -> None:
        self._store = store
        self._ticket = ticket
        self._version = version

    async def renew(self) -> None:
        """Renew the lease. Raises `StaleDocument` if another process has taken over the request."""
        now_us = await self._store.now_us()
        await self._write(_begun(self._ticket, now_us))
        self._version += 1

    async def finish(self, answer: StoredAnswer, session_id: str | None = None) -> None:
        """Store the response. Raises `StaleDocument` if another process executed the request in the
        meantime. A response about a session is deleted together with the session.
        """
        now_us = await self._store.now_us()
        body = _answered(self._ticket, now_us, answer)
        if session_id is not None:
            # The creation time tells the session from a later one of the same id.
            with suppress(SessionNotFound):
                row = await self._store.get(session_id)
                body["session"] = [session_id, row.created_at_us]
        await self._write(body)

    async def give_up(self) -> None:
        """Remove the reservation, because the request was not executed and may be sent again."""
        await self._write(None)

    async def _write(self, body: Mapping[str, Any] | None) -> None:
        write = DocumentWrite(
            collection=COLLECTION, key=self._ticket.key, body=body, expected_version=self._version
        )
        await self._store.write_documents([write])


async def reserve(store: Store, ticket: Ticket) -> Reservation | StoredAnswer:
    """Start a request, or return its stored response. Raises `IdempotencyConflict` if the key
    belongs to another request, or if the first request is in progress.
    """
    while True:
        now_us = await store.now_us()
        document = await store.get_document(COLLECTION, ticket.key)
        version = 0 if document is None else document.version
        if document is not None and document.body["kept_until_us"] > now_us:
            ticket.check(document.body)
            if "status" in document.body:
                # A response about a deleted session would contain data that was deleted.
                if await _is_left(store, document.body):
                    return _answer(document.body)
                await _forget_answer(store, document)
                continue
            if "gone" in document.body:
                raise _removed()
            left_us = document.body["lease_until_us"] - now_us
            if left_us > 0:
                raise _under_way(left_us / 1e6)
        write = DocumentWrite(
            collection=COLLECTION,
            key=ticket.key,
            body=_begun(ticket, now_us),
            expected_version=version,
        )
        try:
            await store.write_documents([write])
        except StaleDocument:
            continue
        return Reservation(store, ticket, version + 1)


async def start_once(
    connection: HTTPConnection,
    desk: TenantService,
    order: RunOrder,
    begin: Callable[[RunOrder], Awaitable[T]],
) -> T | StartedRun:
    """Begin the run. If the same request with this `Idempotency-Key` already started a run, return
    that run instead, as a `StartedRun`.

    `begin` is `Runs.start` or a similar function. The message is stored once, even after a crash.
    Raises the errors of `begin`, and `IdempotencyConflict`::

        started = await start_once(request, desk, order, desk.runs.start)
    """
    ticket: Ticket | None = getattr(connection.state, "ticket", None)
    if ticket is None:
        return await begin(order)
    store = desk.store
    now_us = await store.now_us()
    document = await store.get_document(COLLECTION, ticket.key)
    if document is not None and document.body["kept_until_us"] > now_us:
        return await _earlier(store, ticket, document)
    version = 0 if document is None else document.version
    is_new = order.session_id is None
    # The document is stored in the transaction of the run's message, so the run exists if and only
    # if the key is taken.
    session_id = order.session_id or await _new_session_id(store, ticket)
    along = _along(ticket, session_id, now_us, version)
    try:
        return await begin(replace(order, session_id=session_id, along=along))
    except (StaleDocument, SessionBusy) as exc:
        document = await store.get_document(COLLECTION, ticket.key)
        # Another copy of this request was faster: its run is the answer.
        if document is not None and document.version > version:
            return await _earlier(store, ticket, document)
        if is_new and isinstance(exc, SessionBusy):
            raise _under_way(exc.free_in_s) from exc
        raise


async def _is_left(store: Store, body: Mapping[str, Any]) -> bool:
    """Whether the session of the response still exists; true for a response without a session."""
    if "session" not in body:
        return True
    session_id, created_at_us = body["session"]
    try:
        row = await store.get(session_id)
    except SessionNotFound:
        return False
    return bool(row.created_at_us == created_at_us)


async def _forget_answer(store: Store, document: Document) -> None:
    """Delete the response, and keep the fact that the request was executed."""
    body = {name: document.body[name] for name in ("digest", "kept_until_us")}
    write = DocumentWrite(
        collection=COLLECTION,
        key=document.key,
        body={**body, "gone": True},
        expected_version=document.version,
    )
    with suppress(StaleDocument):
        await store.write_documents([write])


async def prune(store: Store) -> int:
    """Remove responses that are older than a day, and responses about deleted sessions. Returns
    their number."""
    now_us = await store.now_us()
    removed = 0
    after = ""
    while page := await store.list_documents(COLLECTION, after=after, limit=_PAGE):
        after = page[-1].key
        for document in page:
            if document.body["kept_until_us"] <= now_us:
                gone = DocumentWrite(
                    collection=COLLECTION,
                    key=document.key,
                    body=None,
                    expected_version=document.version,
                )
                try:
                    await store.write_documents([gone])
                except StaleDocument:
                    continue
                removed += 1
            elif not await _is_left(store, document.body):
                await _forget_answer(store, document)
                removed += 1
    return removed


async def _earlier(store: Store, ticket: Ticket, document: Document) -> StartedRun:
    ticket.check(document.body)
    run_id: str = document.body["run_id"]
    session_id, number = parse_run_id(run_id)
    try:
        first, _ = await run_range(store, run_id)
    except (RunNotFound, SessionNotFound) as exc:
        raise _removed() from exc
    return StartedRun(session_id=session_id, number=number, after=first - 1)


async def _new_session_id(store: Store, ticket: Ticket) -> str:
    """The id of the session that the request creates. Repeats use the same id, so a process that
    was killed before it stored the message leaves no session behind."""
    for number in range(_MOST_SESSIONS):
        session_id = f"ses_{_digest(ticket.key.encode(), str(number).encode())[:24]}"
        try:
            row = await store.get(session_id)
        except SessionNotFound:
            return session_id
        # A claim whose process died before the message was stored; it can be used.
        if row.seq == 0:
            return session_id
    raise IdempotencyConflict("this Idempotency-Key was used too often; use a new one")


def _along(
    ticket: Ticket, session_id: str, now_us: int, version: int
) -> Callable[[int], DocumentWrite]:
    def document(number: int) -> DocumentWrite:
        body = {
            "digest": ticket.digest,
            "run_id": run_id_of(session_id, number),
            "kept_until_us": now_us + KEPT_S * 1_000_000,
        }
        return DocumentWrite(
            collection=COLLECTION, key=ticket.key, body=body, expected_version=version
        )

    return document


def _begun(ticket: Ticket, now_us: int) -> dict[str, Any]:
    return {
        "digest": ticket.digest,
        "lease_until_us": now_us + int(LEASE_S * 1e6),
        "kept_until_us": now_us + KEPT_S * 1_000_000,
    }


def _answered(ticket: Ticket, now_us: int, answer: StoredAnswer) -> dict[str, Any]:
    return {
        "digest": ticket.digest,
        "kept_until_us": now_us + KEPT_S * 1_000_000,
        "status": answer.status,
        "headers": [list(each) for each in answer.headers],
        "body": None if answer.body is None else base64.b64encode(answer.body).decode(),
    }


def _answer(body: Mapping[str, Any]) -> StoredAnswer:
    if body["body"] is None:
        raise IdempotencyConflict(
            "this request was executed before, and its response was too long to be stored; "
            "read its result"
        )
    return StoredAnswer(
        status=body["status"],
        headers=[(name, value) for name, value in body["headers"]],
        body=base64.b64decode(body["body"]),
    )


def _removed() -> IdempotencyConflict:
    return IdempotencyConflict(
        "this request was executed before, and its session was deleted since; use a new "
        "Idempotency-Key to do it again"
    )


def _under_way(free_in_s: float) -> IdempotencyConflict:
    return IdempotencyConflict(
        "the first request with this Idempotency-Key is in progress",
        retry_after_s=max(1.0, min(free_in_s, 5.0)),
    )


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        # The length separates the parts: other splits of the same bytes get other digests.
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
