"""Spans of a trace, complete or under construction, and the split of event details.

Facts are details whose names are listed in this module. All other details count as content, so an
export without content cannot leak details that are added to events in the future.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from ekiden.core.conversation.model import Usage
from ekiden.core.events import PRIVATE, Event

SpanKind: TypeAlias = Literal[
    "session", "run", "agent", "llm_call", "tool_call", "handoff", "guardrail", "route",
    "tool_confirmation", "message", "task", "inbox",
]  # fmt: skip
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
    id of a span is a digest of the session's id and of the number of the span's first event. So the
    id is the same in every process::

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


CostOf: TypeAlias = Callable[[str, Usage, int], float | None]
"""A function that returns the cost of a model call, or `None` if the cost is unknown. The arguments
are the model, the usage and the time in microseconds since 1970."""


class SpanDraft:
    """A span under construction."""

    __slots__ = (
        "agent", "content", "cost", "details", "end", "error", "first", "id", "is_private",
        "is_started", "kind", "last", "links", "name", "open_parts", "parent", "parent_id", "run",
        "start", "status", "tokens",
    )  # fmt: skip

    def __init__(
        self,
        span_id: str,
        kind: SpanKind,
        name: str,
        *,
        seq: int,
        at_us: int,
        parent: SpanDraft | None,
        agent: str | None = None,
        details: dict[str, Any] | None = None,
        content: dict[str, Any] | None = None,
        error: str | None = None,
    ) -> None:
        self.id = span_id
        self.kind: SpanKind = kind
        self.name = name
        self.first = self.last = seq
        self.parent = parent
        self.parent_id = None if parent is None else parent.id
        self.start: int = at_us if parent is None or at_us > parent.start else parent.start
        self.end: int | None = None
        self.agent = agent
        self.details = {} if details is None else details
        self.content = {} if content is None else content
        self.error = error
        self.status: SpanStatus = "ok" if error is None else "error"
        self.tokens: Tokens = NO_TOKENS
        self.cost: float | None = None
        self.links: tuple[str, ...] = ()
        self.open_parts: dict[str, SpanDraft] | None = None
        """The open child spans that end with this span at the latest."""
        self.run: SpanDraft | None = (
            self if kind == "run" else None if parent is None else parent.run
        )
        self.is_private = False
        """Whether content is hidden; for a run: in all of its spans."""
        self.is_started = False
        """For a stay: whether there was an `agent_start`."""

    def hold(self, other: SpanDraft) -> None:
        """End `other` together with this span, unless `other` ends earlier."""
        if self.open_parts is None:
            self.open_parts = {}
        self.open_parts[other.id] = other

    def update(self, seq: int, details: dict[str, Any], content: dict[str, Any]) -> None:
        """Add the details and content of a further event."""
        self.last = seq
        self.details.update(details)
        self.content.update(content)

    def fail(self, error: str | None) -> None:
        """Set the status `error`, and the error if given."""
        self.status = "error"
        if error is not None:
            self.error = error

    def span(self, trace_id: str, session_id: str, correlation_id: str, undone: int = 0) -> Span:
        """Return the span in its present state. `undone` is the number of the event that undid the
        span."""
        is_private = self.is_private or (self.run is not None and self.run.is_private)
        return Span(
            trace_id=trace_id,
            span_id=self.id,
            parent_id=self.parent_id,
            kind=self.kind,
            name=self.name,
            session_id=session_id,
            agent_name=self.agent,
            correlation_id=correlation_id,
            started_at_us=self.start,
            ended_at_us=self.end,
            status=self.status,
            error=self.error,
            details={**self.details, "undone": undone} if undone else self.details,
            content=NOTHING if is_private else self.content,
            tokens=self.tokens,
            cost=self.cost,
            links=self.links,
            first_seq=self.first,
            last_seq=self.last,
        )


_FACTS: Final = frozenset(
    {
        "agent", "allowed", "always", "approved", "arguments_hash", "at", "attempt", "begins_run",
        "behavior", "budget", "by", "call_id", "cause", "change", "closes", "code", "compensation",
        "confidence", "correlation", "edited", "elapsed_ms", "filter", "fired", "for", "from",
        "guardrail", "handoff", "id", "item", "json", "keeps", "kind", "limit", "made_by", "method",
        "model", "moves", "not_compensated", "not_restored", "not_run", "outcome", "phase",
        "place", "policy", "priority", "published", "rejected", "request", "requested",
        "response_id", "result", "rewound", "role", "rollback_failed", "status", "strategy",
        "success", "task", "task_id", "to", "tool", "tools", "type", "undoes", "used", "warning",
    }
)  # fmt: skip

_PARTS: Final[Mapping[str, frozenset[str]]] = {
    "asks": frozenset({"id", "to", "session"}),
    "tells": frozenset({"id", "to", "session"}),
    "answer": frozenset({"id", "from", "state", "by", "via", "at_us", "always"}),
    "message": frozenset({"id", "type", "from_agent", "to_agent", "correlation_id", "priority"}),
    "trigger": frozenset({"type", "also"}),
    "tasks": frozenset({"task_id", "agent", "depends_on"}),
    "guardrails": frozenset({"type", "guardrail", "result", "behavior"}),
    "candidates": frozenset({"agent", "score", "confidence", "method"}),
}
"""Details that are objects, or lists of objects, and the names of facts in them."""

_LEFT_OUT: Final = frozenset({"hash", "sent", "usage", "view", PRIVATE})
"""Details that spans have in another form, or not at all."""
_LONGEST_NAME: Final = 200


def split_details(details: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts and the content of an event's details."""
    facts: dict[str, Any] = {}
    words: dict[str, Any] = {}
    for name, value in details.items():
        if name in _FACTS:
            facts[name] = value
        elif name in _LEFT_OUT:
            continue
        elif name in _PARTS:
            _split_part(name, value, facts, words)
        else:
            words[name] = value
    return facts, words


def _split_part(name: str, value: Any, facts: dict[str, Any], words: dict[str, Any]) -> None:
    known = _PARTS[name]
    if isinstance(value, Mapping):
        facts[name] = {key: each for key, each in value.items() if key in known}
        rest = {key: each for key, each in value.items() if key not in known and each is not None}
        if rest:
            words[name] = rest
    elif isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
        facts[name] = [{key: each[key] for key in each if key in known} for each in value]
        if any(key not in known for each in value for key in each):
            words[name] = value
    else:
        words[name] = value


def usage_of(details: Mapping[str, Any]) -> Usage | None:
    """The usage of a model call in the details of its event; `None` if there is none."""
    usage = details.get("usage")
    if not isinstance(usage, Mapping):
        return None
    counts = {name: _count(usage.get(name)) for name in Usage.__slots__ if name != "cost"}
    cost = usage.get("cost")
    is_known = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e15
    counts["requests"] = counts["requests"] or 1
    return Usage(**counts, cost=float(cost or 0.0) if is_known else 0.0)


def tokens_of(usage: Usage | None) -> Tokens:
    """The usage as token counts of a span."""
    if usage is None:
        return NO_TOKENS
    return Tokens(
        usage.requests,
        usage.input_tokens,
        usage.output_tokens,
        usage.tokens,
        usage.cached_tokens,
        usage.reasoning_tokens,
    )


def is_transfer(event: Event, details: Mapping[str, Any]) -> bool:
    """Whether the event gave the conversation to another agent."""
    if event.type != "handoff" or not details:
        return False
    moves = details.get("moves")
    if not isinstance(moves, list):  # An event of an earlier version.
        return details.get("status") == "completed"
    return "transferring" in moves and "rolled_back" not in moves


def is_rewind(event: Event, details: Mapping[str, Any]) -> bool:
    """Whether the event rewound the session."""
    return (
        event.type == "message" and event.step is None and not event.items and "rewound" in details
    )


def text(value: Any, default: str = "") -> str:
    """The value as a short text on one line. Returns `default` for other types and for an empty
    text."""
    if not isinstance(value, str) or not value:
        return default
    if len(value) <= _LONGEST_NAME and value.isprintable():
        return value.strip() or default
    if len(value) > _LONGEST_NAME:
        value = value[: _LONGEST_NAME - 1] + "…"
    return " ".join(value.split()) or default


def part(value: Any) -> Mapping[str, Any]:
    """The value if the value is a JSON object; otherwise an empty object."""
    return value if isinstance(value, Mapping) else {}


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return 0
    return int(value)
