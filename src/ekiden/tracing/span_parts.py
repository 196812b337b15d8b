"""Spans under construction, and the split of event details into facts and content.

Facts are details whose names are listed in this module. All other details count as content, so an
export without content cannot leak details that are added to events in the future.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ekiden.core.conversation.model import Usage
from ekiden.core.events import PRIVATE, Event
from ekiden.tracing.spans import NO_TOKENS, NOTHING, Span, SpanKind, SpanStatus, Tokens

CostOf: TypeAlias = Callable[[str, Usage, int], float | None]
"""A function that returns the cost of a model call, or `None` if the cost is unknown. The arguments
are the model, the usage and the time in microseconds since 1970."""


class SpanDraft:
    """A span under construction."""

    __slots__ = (
        "agent",
        "content",
        "cost",
        "details",
        "end",
        "error",
        "first",
        "id",
        "is_private",
        "is_started",
        "kind",
        "last",
        "links",
        "name",
        "open_parts",
        "parent",
        "parent_id",
        "run",
        "start",
        "status",
        "tokens",
    )

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
        "guardrail", "handoff", "id", "item", "json", "keeps", "kind", "limit", "method", "model",
        "moves", "not_compensated", "not_restored", "not_run", "outcome", "phase", "place",
        "policy", "priority", "published", "rejected", "request", "requested", "response_id",
        "result", "rewound", "role", "rollback_failed", "status", "strategy", "success", "task",
        "task_id", "to", "tool", "tools", "type", "undoes", "used", "warning",
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

_LEFT_OUT: Final = frozenset({"hash", "usage", PRIVATE})
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
