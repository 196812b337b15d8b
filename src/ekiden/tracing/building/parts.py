"""Spans while they are made: what is known of them by the events so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ekiden.core.conversation.model import Usage
from ekiden.tracing.spans import NO_TOKENS, NOTHING, Span, SpanKind, SpanStatus, Tokens

CostOf: TypeAlias = Callable[[str, Usage, int], float | None]
"""What a call of a model cost that used so much at that microsecond; `None` if nobody knows."""


class Part:
    """One span to be."""

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
        parent: Part | None,
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
        self.open_parts: dict[str, Part] | None = None
        """Those below it that end, at the latest, with it."""
        self.run: Part | None = self if kind == "run" else None if parent is None else parent.run
        self.is_private = False
        """Whether nothing of what was said is shown; of a run: in all of it."""
        self.is_started = False
        """Of a stay: whether an event told that it began."""

    def hold(self, other: Part) -> None:
        """`other` is open, and ends at the latest with this one."""
        if self.open_parts is None:
            self.open_parts = {}
        self.open_parts[other.id] = other

    def tell(self, seq: int, details: dict[str, Any], content: dict[str, Any]) -> None:
        """A further event tells of it."""
        self.last = seq
        self.details.update(details)
        self.content.update(content)

    def fail(self, error: str | None) -> None:
        """It went wrong."""
        self.status = "error"
        if error is not None:
            self.error = error

    def span(self, trace_id: str, session_id: str, correlation_id: str, undone: int = 0) -> Span:
        """As it is, with its own details; `undone` is the number of the event that undid it."""
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
