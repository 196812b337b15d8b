"""The hash chain of audited events, and the digests of commits that it is made of.

Each session has its own chain; with one chain for all sessions, every writer would wait for every
other. The head of the chain is in the session's row, written in the same transaction.

A digest covers every column of every event of its commit, byte for byte. It is stored with the
last event, as ``3:5f0c…``: the number of events and their SHA-256. Events of a session are numbered
without gaps, so a missing one is noticed. Events outside sessions are not numbered: there each
digest also covers the previous digest, and the last one is stored in a document.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, cast

from ekiden.core.dataclass import dataclass
from ekiden.core.events import AUDITED, Event
from ekiden.core.values import dumps, loads, quick_ascii
from ekiden.storage.records import SessionRow

GENESIS = ""
"""The previous hash of the first audited event of a session."""

HASH = "hash"
"""The key in an event's details under which its hash is stored."""

_DEFERRED = ""
"""The placeholder for a hash that is computed later."""

_HEAD, _COUNT = "hd", "hn"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainHead:
    """The last hash and the length of a session's chain, as stored in its row."""

    hash: str
    count: int
    """The number of events in the chain."""


@dataclass(slots=True)
class AuditChain:
    """The audit chain of a session, used while events are written. It is a part of the session's
    cursor."""

    head: str = GENESIS
    """The hash of the session's last audited event; deferred hashes do not count."""
    count: int = 0
    """The number of audited events of the session."""
    is_deferred: bool = False
    """Whether hashes were deferred."""

    def to_json(self, data: dict[str, Any]) -> None:
        """Store it in a cursor's `data`."""
        data[_HEAD] = _DEFERRED if self.is_deferred else self.head
        data[_COUNT] = self.count

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AuditChain:
        """The inverse of `to_json`."""
        return cls(data.get(_HEAD, GENESIS), data.get(_COUNT, 0))

    def copy(self) -> AuditChain:
        """A chain that continues from here."""
        return AuditChain(self.head, self.count, self.is_deferred)

    def discard(self, stored: AuditChain) -> None:
        """Return to the stored state. Without a stored head, hashes continue from the current
        head."""
        self.count, self.is_deferred = stored.count, stored.count > 0 and not stored.head
        if not self.is_deferred:
            self.head = stored.head

    def add(self, event: Event) -> None:
        """Link the event to the chain, and put the hash into the event's details."""
        if event.details is None:
            event.details = {}
        event.details[HASH] = self.head = link(self.head, event)
        self.count += 1

    def defer(self, event: Event) -> None:
        """The same as `add`, but the hash is computed later: by `seal`, or by a store in memory
        before the event is read."""
        if event.details is None:
            event.details = {}
        event.details[HASH] = _DEFERRED
        self.is_deferred = True
        self.count += 1

    def seal(self, events: Iterable[Event]) -> None:
        """Compute the deferred hashes; `events` must include all events with a deferred hash."""
        self.head = seal(events, self.head)
        self.is_deferred = False

    @staticmethod
    def shape() -> dict[str, Any]:
        """The types of the fields in an imported document, by key."""
        from ekiden.core.conversation.shapes import Count

        return {_HEAD: str, _COUNT: Count}


def link(previous: str, event: Event) -> str:
    """The hash of `event` after an event whose hash is `previous`.

    It is SHA-256 over all fields of the event except the hash in its details, as 43 characters of
    URL-safe base64 without padding. Raises `TypeError`, `ValueError` or `RecursionError` for an
    event that is not JSON.
    """
    details: dict[str, Any] = event.details or {}
    if HASH in details:
        details = {key: value for key, value in details.items() if key != HASH}
    fields = [
        previous, event.session_id, event.seq, event.type, event.at_us, event.agent, event.step,
        event.duration_us, details, event.items, event.error,
    ]  # fmt: skip
    # ASCII: two halves of a surrogate pair, which every JSON reader joins, then hash as one.
    digest = sha256(quick_ascii(fields).encode()).digest()
    return b2a_base64(digest, newline=False)[:43].translate(_FOR_URLS).decode()


def seal(events: Iterable[Event], head: str) -> str:
    """Compute the deferred hashes, after an event whose hash is `head`, and return the last
    hash."""
    for event in events:
        if event.type in AUDITED and event.details is not None and HASH in event.details:
            if event.details[HASH] == _DEFERRED:
                event.details[HASH] = link(head, event)
            head = event.details[HASH]
    return head


def set_head(cursor: dict[str, Any], head: str) -> None:
    """Put the head of the chain into a stored cursor whose head was deferred."""
    if cursor.get(_HEAD) == _DEFERRED and _COUNT in cursor:
        cursor[_HEAD] = head


_FOR_URLS = bytes.maketrans(b"+/", b"-_")


def head_of(row: SessionRow) -> ChainHead | None:
    """The head of the session's chain; `None` if the session has no valid chain.

    The chain is the only part of the runtime's cursor that the audit reads.
    """
    cursor: object = row.cursor
    if not isinstance(cursor, dict):
        return None
    head, count = cursor.get(_HEAD), cursor.get(_COUNT)
    if isinstance(head, str) and isinstance(count, int) and head and count > 0:
        return ChainHead(hash=head, count=count)
    return None


def chained(
    events: Iterable[Event], after: AuditChain | None = None
) -> tuple[list[Event], AuditChain]:
    """Copies of the events, with new hashes for audited events, and the extended chain.

    Use it to copy events to another session.
    """
    linked, chain = [], AuditChain() if after is None else after.copy()
    for event in events:
        if event.type in AUDITED:
            chain.head = link(chain.head, event)
            chain.count += 1
            event = _with_hash(event, chain.head)
        linked.append(event)
    return linked, chain


def _with_hash(event: Event, value: str) -> Event:
    return Event(
        session_id=event.session_id,
        seq=event.seq,
        type=event.type,
        at_us=event.at_us,
        agent=event.agent,
        step=event.step,
        duration_us=event.duration_us,
        details={**(event.details or {}), HASH: value},
        items=event.items,
        error=event.error,
    )


HEAD = ("ekiden.store", "chain")
"""Collection and key of the document with the last digest of events outside sessions."""

ITEM_DIGEST = "item_digest"
"""A detail of the event that closes an inbox item: the digest of the stored item."""


UNCOVERED = "-"
"""The default of the column `digest`: the code that wrote the event computed no digests."""


class EventDigest(NamedTuple):
    """The hashes from which a change of a stored event can be detected."""

    seq: int
    own: bytes
    """The hash of the event's own columns."""
    commit: str | None
    """The hash of all events of the commit, if the event is the last one of its commit; otherwise
    `None`. `UNCOVERED` means that no hash was computed for this commit."""


def own_digest(
    session_id: str,
    seq: int,
    type: str,
    at_us: int,
    agent: str | None,
    step: str | None,
    duration_us: int | None,
    details: str | None,
    items: str | None,
    error: str | None,
) -> bytes:
    """The digest of one event; `details` and `items` are JSON as it is stored.

    The database numbers events outside sessions, so their number is not part of the digest.
    """
    number = seq if session_id else 0
    of_details = None if details is None else len(details)
    of_items = None if items is None else len(items)
    fields: tuple[object, ...] = (
        session_id, number, type, at_us, duration_us, agent, step, error, of_details, of_items
    )  # fmt: skip
    text = repr(fields)
    if "\\ud" in text:  # Perhaps half of a surrogate pair.
        read = map(_as_read_back, (agent, step, error))
        text = repr((*fields[:5], *read, *fields[8:]))
    return sha256(_to_bytes(f"{text}{details or ''}{items or ''}")).digest()


def _as_read_back(text: str | None) -> str | None:
    """The text as a store returns it: JSON joins the halves of a surrogate pair."""
    if text is None or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return cast("str", loads(dumps(text)))
    return text


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def events_digest(own: Iterable[bytes]) -> str:
    """The digest of the events of one commit."""
    return sha256(b"".join(own)).hexdigest()


def commit_digest(
    session_id: str,
    events: Sequence[Event],
    details: Sequence[str | None],
    items: Sequence[str | None],
) -> str:
    """The digest that is stored with the last event of a commit; `details` and `items` are JSON as
    it is stored."""
    own = [
        own_digest(
            session_id, each.seq, each.type, each.at_us, each.agent, each.step, each.duration_us,
            details[at], items[at], each.error,
        )
        for at, each in enumerate(events)
    ]  # fmt: skip
    return f"{len(own)}:{events_digest(own)}"


def head_text(digest: str) -> str:
    """The body of the document with the last digest, as it is stored."""
    return f'"{digest}"'


def link_digest(before: str, content: str) -> str:
    """The digest of events outside sessions; `before` is the body of the document `HEAD`, or
    empty."""
    return sha256(_to_bytes(before + content)).hexdigest()


def json_digest(value: Any) -> str:
    """The digest of JSON, the same before it is stored and after it is read."""
    return sha256(quick_ascii(value).encode()).hexdigest()
