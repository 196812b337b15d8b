"""Traces: what happened in a session, as a tree of spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeAlias

from ekiden.api.called import Called, calls, lists, streams
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.pages import Pages
from ekiden.api.state import SessionId
from ekiden.api.streams import AsyncStream
from ekiden.core.values.documents import Value, left_out
from ekiden.tracing.spans import SpanKind, SpanStatus

Children: TypeAlias = Annotated[bool, Told("With the sessions that answered it, however deep.")]
Content: TypeAlias = Annotated[
    bool,
    Told(
        "With what was said. Keys and tokens are covered in any case, and nothing is shown of runs "
        "that were made without sensitive data in their traces."
    ),
]

Errors: TypeAlias = Annotated[
    bool, Told("With the texts of errors, as the session's events have them, without the rest.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan(Value):
    """A piece of work; what is empty is left out."""

    trace_id: str
    span_id: str
    parent_id: str | None
    kind: SpanKind
    name: str
    session_id: str
    correlation_id: str
    started_at: float
    """Seconds since 1970."""
    ended_at: float | None
    """`null`: it still goes on, or waits."""
    status: SpanStatus
    agent_name: str | None = left_out()
    duration_ms: float | None = left_out()
    error: str | None = left_out()
    details: Mapping[str, Any] | None = left_out()
    """Facts that are no content."""
    content: Mapping[str, Any] | None = left_out()
    """What was said."""
    tokens: Mapping[str, int] | None = left_out()
    cost: float | None = left_out()
    links: Sequence[str] | None = left_out()
    """Spans that have to do with it."""
    depth: int | None = left_out()
    """How deep it stands in the tree."""
    total_tokens: Mapping[str, int] | None = left_out()
    """What it and all below it used."""
    total_cost: float | None = left_out()
    unpriced_requests: int | None = left_out()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTrace(Value):
    """A session, and those that answered it, as spans in the order of the tree."""

    trace_id: str
    session_id: str
    status: SpanStatus
    tokens: Mapping[str, int]
    cost: float | None
    unpriced_requests: int
    errors: Sequence[str]
    """Ids of the spans that went wrong."""
    waits: Sequence[str]
    """Ids of the spans that wait."""
    spans: Sequence[TraceSpan]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAITrace(Value):
    """A trace as the OpenAI Agents SDK exports it: first the trace, then its spans."""

    data: Sequence[Mapping[str, Any]]


class Traces(Protocol):
    """What happened in sessions, as trees of spans."""

    @endpoint(
        "GET",
        "/traces/{session_id}",
        scope="read",
        problems=(404,),
        flag="format=json",
        is_large=True,
    )
    async def get(
        self,
        session_id: SessionId,
        *,
        children: Children = True,
        content: Content = False,
        errors: Errors = False,
    ) -> SessionTrace:
        """The trace of a session; without what was said, unless that is asked for."""
        ...

    @endpoint(
        "GET",
        "/traces/{session_id}",
        scope="read",
        flag="format=jsonl",
        file="{session_id}.trace.jsonl",
    )
    def export(
        self, session_id: SessionId, *, children: Children = True, content: Content = False
    ) -> AsyncStream[str]:
        """A span on each line."""
        ...

    @endpoint(
        "GET",
        "/traces/{session_id}",
        scope="read",
        flag="format=events",
        file="{session_id}.events.jsonl",
    )
    def events(
        self, session_id: SessionId, *, children: Children = True, content: Content = False
    ) -> AsyncStream[str]:
        """An event on each line."""
        ...

    @endpoint("GET", "/traces/{session_id}", scope="read", flag="format=openai")
    async def openai(
        self, session_id: SessionId, *, children: Children = True, content: Content = False
    ) -> OpenAITrace:
        """As the OpenAI Agents SDK exports it."""
        ...

    @endpoint(
        "GET",
        "/traces/{session_id}/spans",
        scope="read",
        problems=(404,),
        cursor=r"^[0-9a-f]{16}$",
    )
    def spans(
        self,
        session_id: SessionId,
        *,
        kinds: Annotated[
            Sequence[SpanKind], Told("Only these; may be given more than once.", max_length=20)
        ] = (),
        errors: Annotated[bool, Told("Only what went wrong.")] = False,
        children: Children = True,
        content: Content = False,
    ) -> Pages[TraceSpan]:
        """The spans of a trace, in the order of the tree."""
        ...


class CalledTraces(Called):
    """`Traces`, called."""

    get = calls(Traces.get)
    export = streams(Traces.export)
    events = streams(Traces.events)
    openai = calls(Traces.openai)
    spans = lists(Traces.spans)
