"""Digests over events as they are stored: one for each commit.

A digest covers every column of every event of its commit, byte for byte. It stands with the last
of them, as ``3:5f0c…``: how many events it covers, and SHA-256. The events of a session are
numbered without gaps, so that none can be taken away unseen. Those of no session are not: there
each digest covers the one before, too, and the last one stands in a document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, cast

from ekiden.core.events import Event
from ekiden.core.values import dumps, loads, quick_ascii

HEAD = ("ekiden.store", "chain")
"""Collection and key of the document with the last digest of the events of no session."""

ITEM_DIGEST = "item_digest"
"""The detail of the event that closes an inbox item: the digest of the item as it is stored."""


UNCOVERED = "-"
"""In the place of a digest: the code that wrote the event knew none."""


class EventDigest(NamedTuple):
    """What is stored of an event, as a digest."""

    seq: int
    own: bytes
    commit: str | None
    """The digest of the commit that ends with the event, or `UNCOVERED`."""


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

    The number of an event of no session is the database's, and is not covered.
    """
    number = seq if session_id else 0
    of_details = None if details is None else len(details)
    of_items = None if items is None else len(items)
    fields: tuple[object, ...] = (
        session_id, number, type, at_us, duration_us, agent, step, error, of_details, of_items
    )  # fmt: skip
    text = repr(fields)
    if "\\ud" in text:  # Perhaps half a character.
        read = map(_read_again, (agent, step, error))
        text = repr((*fields[:5], *read, *fields[8:]))
    return sha256(_to_bytes(f"{text}{details or ''}{items or ''}")).digest()


def _read_again(text: str | None) -> str | None:
    """The text as a store gives it back: JSON joins two halves of a character."""
    if text is None or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return cast("str", loads(dumps(text)))
    return text


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def content_of(own: Iterable[bytes]) -> str:
    """The digest of the events of one commit."""
    return sha256(b"".join(own)).hexdigest()


def commit_digest(
    session_id: str,
    events: Sequence[Event],
    details: Sequence[str | None],
    items: Sequence[str | None],
) -> str:
    """What is stored with the last of the events, whose JSON is given as it is stored."""
    own = [
        own_digest(
            session_id, each.seq, each.type, each.at_us, each.agent, each.step, each.duration_us,
            details[at], items[at], each.error,
        )
        for at, each in enumerate(events)
    ]  # fmt: skip
    return f"{len(own)}:{content_of(own)}"


def head_text(digest: str) -> str:
    """The body of the document with the last digest, as it is stored."""
    return f'"{digest}"'


def linked(before: str, content: str) -> str:
    """The digest of a commit of no session: `before` is the body of the document, or empty."""
    return sha256(_to_bytes(before + content)).hexdigest()


def json_digest(value: Any) -> str:
    """The digest of JSON, the same before it is stored and after it is read."""
    return sha256(quick_ascii(value).encode()).hexdigest()
