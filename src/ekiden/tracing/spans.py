"""Spans, and the functions that compute the ids of traces and spans from stored data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

SpanKind: TypeAlias = Literal[
    "session",
    "run",
    "agent",
    "llm_call",
    "tool_call",
    "handoff",
    "guardrail",
    "route",
    "tool_confirmation",
    "message",
    "task",
    "inbox",
]
"""The kind of a span. `session`: a whole session. `run`: a run. `agent`: consecutive turns of one
agent. The other kinds are the types of the events that recorded the work."""

SpanStatus: TypeAlias = Literal["ok", "error", "waiting"]
"""`waiting`: the work waits for a person or another agent, or can be resumed."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


def _nothing() -> Mapping[str, Any]:
    return NOTHING


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts of model calls."""

    requests: int = 0
    """The number of model calls."""
    input: int = 0
    output: int = 0
    total: int = 0
    """The total number of tokens. If the provider reports no total, this is the sum of input and
    output tokens."""
    cached: int = 0
    """The input tokens that came from the provider's cache."""
    reasoning: int = 0
    """The output tokens that the model used for reasoning."""

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.requests + other.requests,
            self.input + other.input,
            self.output + other.output,
            self.total + other.total,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
        )

    def to_json(self) -> dict[str, int]:
        """The counts that are not zero."""
        named = {
            "requests": self.requests,
            "input_tokens": self.input,
            "output_tokens": self.output,
            "total_tokens": self.total,
            "cached_tokens": self.cached,
            "reasoning_tokens": self.reasoning,
        }
        return {name: count for name, count in named.items() if count}


NO_TOKENS = Tokens()


@dataclass(slots=True, kw_only=True)
class Span:
    """A unit of work in a trace, built from stored events.

    Do not change a span. The class is not frozen, because frozen objects are slower to create. The
    id of a span is a digest of the session's id and of the number of the span's first event, so it
    is always the same, in every process::

        trace = await read_trace(store, "customer-42")
        slowest = max(trace.spans, key=lambda span: span.duration_us or 0)
    """

    trace_id: str
    """The id of the trace: 32 hexadecimal digits. A session and the sessions that answered it have
    the same trace id."""
    span_id: str
    """The id of the span: 16 hexadecimal digits."""
    parent_id: str | None
    """The id of the parent span; `None` only for the root of the trace. The parent may belong to
    another session, or with a `traceparent` to another program."""
    kind: SpanKind
    name: str
    """The name of the span for people: the name of an agent, a model or a tool. A handoff has a
    name such as ``triage → orders``."""
    session_id: str
    agent_name: str | None
    """The agent that had the conversation during the span."""
    correlation_id: str
    """The session's correlation id. The default is the session's id."""
    started_at_us: int
    """When the span started, in microseconds since 1970."""
    ended_at_us: int | None
    """The end in microseconds since 1970. `None` while the span is in progress or waits."""
    status: SpanStatus = "ok"
    error: str | None = None
    """The error text. It may contain text from tools and models."""
    details: Mapping[str, Any] = field(default_factory=_nothing)
    """Facts without message content: ids, names, counts, codes and states. If a rollback or rewind
    removed the span, `undone` is the number of the event of that rollback or rewind. `code` is the
    code of the error."""
    content: Mapping[str, Any] = field(default_factory=_nothing)
    """Message content: `input`, `output`, `arguments`, `result`, and texts such as `reason`. The
    mapping is empty for runs with `trace_include_sensitive_data=False`."""
    tokens: Tokens = NO_TOKENS
    """The token counts of this span, without the spans below it."""
    cost: float | None = None
    """The cost of this span, without the spans below it. `None` if there is no cost, or if the
    price is unknown."""
    links: tuple[str, ...] = ()
    """Ids of related spans: the span of the target of a handoff, or the session that answers a
    question."""
    first_seq: int = 0
    """The number of the span's first event. The span of the session itself has 0."""
    last_seq: int = 0
    """The number of the span's last event."""

    @property
    def duration_us(self) -> int | None:
        """The duration of the span; `None` while it is in progress."""
        return None if self.ended_at_us is None else self.ended_at_us - self.started_at_us

    @property
    def is_undone(self) -> bool:
        """Whether a rollback or a rewind removed the work of the span."""
        return "undone" in self.details

    def with_content(
        self,
        *,
        name: str,
        error: str | None,
        details: Mapping[str, Any],
        content: Mapping[str, Any],
    ) -> Span:
        """A copy of the span with other content. This is faster than `dataclasses.replace`."""
        return Span(
            trace_id=self.trace_id,
            span_id=self.span_id,
            parent_id=self.parent_id,
            kind=self.kind,
            name=name,
            session_id=self.session_id,
            agent_name=self.agent_name,
            correlation_id=self.correlation_id,
            started_at_us=self.started_at_us,
            ended_at_us=self.ended_at_us,
            status=self.status,
            error=error,
            details=details,
            content=content,
            tokens=self.tokens,
            cost=self.cost,
            links=self.links,
            first_seq=self.first_seq,
            last_seq=self.last_seq,
        )

    def to_json(self) -> dict[str, Any]:
        """The span as JSON. Times are in seconds since 1970, and empty fields are left out."""
        data: dict[str, Any] = {
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "parent_id": self.parent_id,
            "kind": self.kind,
            "name": self.name,
            "session_id": self.session_id,
            "correlation_id": self.correlation_id,
            "started_at": self.started_at_us / 1e6,
            "ended_at": None if self.ended_at_us is None else self.ended_at_us / 1e6,
            "status": self.status,
        }
        if self.agent_name is not None:
            data["agent_name"] = self.agent_name
        if self.duration_us is not None:
            data["duration_ms"] = self.duration_us / 1e3
        if self.error is not None:
            data["error"] = self.error
        if self.details:
            data["details"] = dict(self.details)
        if self.content:
            data["content"] = dict(self.content)
        if self.tokens.requests:
            data["tokens"] = self.tokens.to_json()
        if self.cost is not None:
            data["cost"] = round(self.cost, 9)
        if self.links:
            data["links"] = list(self.links)
        return data


TRACEPARENT = "traceparent"
"""The key in a session's meta with the W3C trace context of the session's creator."""

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """The trace that a session belongs to, and the parent of the session's spans."""

    trace_id: str
    parent_id: str | None = None
    """The parent span of the session; `None` if the session has no parent span."""
    is_remote: bool = False
    """Whether the parent is a span of another program."""
    is_sampled: bool = True
    """Whether the other program records the trace."""


def trace_id_of(root: str, created_at_us: int) -> str:
    """The trace id of a root session and of all sessions that answer it.

    The trace id depends on the session's creation time, because a session id may be used in several
    stores, or again after a deletion. Such sessions have different trace ids.
    """
    return _digest(f"ekiden/trace/{created_at_us}/{root}")[:32]


def span_id_of(session_id: str, key: str) -> str:
    """The id of the session's span with this key, unique within the trace."""
    return _digest(f"ekiden/span/{session_id}/{key}")[:16]


def session_span_id(session_id: str) -> str:
    """The id of the span of the whole session."""
    return span_id_of(session_id, "session")


def ask_span_id(session_id: str, message_id: str) -> str:
    """The id of the span of a question or notice. The span id depends on the message id, which the
    answering session also knows."""
    return span_id_of(session_id, f"ask/{message_id}")


def parse_traceparent(value: Any) -> TraceContext | None:
    """The trace context in a `traceparent` header; `None` if the header is invalid."""
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
    # A digest of zeros would be an invalid id, but it is practically impossible.
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
