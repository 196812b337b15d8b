"""The ids of traces and spans: digests of what is stored, so that every reader finds the same."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

TRACEPARENT = "traceparent"
"""In a session's meta: the W3C trace context that the session was made in."""

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """Where the spans of a session belong."""

    trace_id: str
    parent_id: str | None = None
    """What the session's span is below; `None`: nothing."""
    is_remote: bool = False
    """Whether the parent is a span of another program."""
    is_sampled: bool = True
    """What that program decided about recording."""


def trace_id_of(root: str, created_at_us: int) -> str:
    """The trace of a session that nobody asked for, and of all that answered it.

    Whoever makes a session chooses its id, but not when the store makes it: so no session of
    another store, and none that has the id after this one is deleted, has the same trace.
    """
    return _digest(f"ekiden/trace/{created_at_us}/{root}")[:32]


def span_id_of(session_id: str, key: str) -> str:
    """The span of a session that is known by `key`; no other of the same trace has it."""
    return _digest(f"ekiden/span/{session_id}/{key}")[:16]


def session_span_id(session_id: str) -> str:
    """The span that a session itself is."""
    return span_id_of(session_id, "session")


def ask_span_id(session_id: str, message_id: str) -> str:
    """The span of a question, or of something told: by its message, which the session that it
    leads to knows, too."""
    return span_id_of(session_id, f"ask/{message_id}")


def parse_traceparent(value: Any) -> TraceContext | None:
    """The trace context in a `traceparent` header; `None` if it is invalid."""
    if not isinstance(value, str) or len(value) > 512:
        return None
    found = _TRACEPARENT.fullmatch(value.strip())
    if found is None:
        return None
    version, trace_id, parent_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more is not None):
        return None
    if not int(trace_id, 16) or not int(parent_id, 16):
        return None
    return TraceContext(
        trace_id=trace_id,
        parent_id=parent_id,
        is_remote=True,
        is_sampled=bool(int(flags, 16) & _SAMPLED),
    )


def _digest(text: str) -> str:
    # A digest of zeros is no valid id; nobody will ever see one.
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
