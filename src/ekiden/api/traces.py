"""Traces and live events: the work of sessions as spans, its costs, and events as they happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeAlias

from ekiden.api.methods.called import AsyncStream, Called, calls, lists, streams
from ekiden.api.methods.endpoint import Param, SessionId, endpoint, identifier
from ekiden.api.methods.values import Moment, Pages
from ekiden.core.documents import Value, left_out
from ekiden.core.events import Event, EventType
from ekiden.sessions.costs import CostKey
from ekiden.tracing.spans import SpanKind, SpanStatus

Children: TypeAlias = Annotated[
    bool,
    Param("Include sessions in which other agents answered queries of this session, at any depth."),
]
Content: TypeAlias = Annotated[
    bool,
    Param(
        "Include message content. Keys and tokens are always masked. Runs with "
        "`trace_include_sensitive_data=False` show no content."
    ),
]

Errors: TypeAlias = Annotated[bool, Param("Include the texts of errors, but no other content.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan(Value):
    """A unit of work in a trace. Empty fields are left out."""

    trace_id: str
    span_id: str
    parent_id: str | None
    kind: SpanKind
    name: str
    session_id: str
    correlation_id: str
    started_at: float
    """The start in seconds since 1970."""
    ended_at: float | None
    """The end in seconds since 1970. `null` while the span is in progress or waits."""
    status: SpanStatus
    agent_name: str | None = left_out()
    duration_ms: float | None = left_out()
    error: str | None = left_out()
    details: Mapping[str, Any] | None = left_out()
    """Facts without message content, such as ids, names and counts."""
    content: Mapping[str, Any] | None = left_out()
    """The content of the span: messages, arguments and results. It is left out by default."""
    tokens: Mapping[str, int] | None = left_out()
    cost: float | None = left_out()
    links: Sequence[str] | None = left_out()
    """Ids of related spans."""
    depth: int | None = left_out()
    """The depth of the span in the tree. The root has 0."""
    total_tokens: Mapping[str, int] | None = left_out()
    """The tokens of this span and all spans below it."""
    total_cost: float | None = left_out()
    unpriced_requests: int | None = left_out()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTrace(Value):
    """The spans of a session and of the sessions that answered its queries, in the order of the
    tree."""

    trace_id: str
    session_id: str
    status: SpanStatus
    tokens: Mapping[str, int]
    cost: float | None
    unpriced_requests: int
    errors: Sequence[str]
    """Ids of the failed spans."""
    waits: Sequence[str]
    """Ids of the waiting spans."""
    spans: Sequence[TraceSpan]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAITrace(Value):
    """A trace in the format of the OpenAI Agents SDK: first the trace, then its spans."""

    data: Sequence[Mapping[str, Any]]


class TracesApi(Protocol):
    """The work of sessions, as trees of spans."""

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
        """Get the trace of a session, by default without message content."""
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
        """Export a trace as JSON lines, one span per line."""
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
        """Export the events of a trace as JSON lines, one event per line."""
        ...

    @endpoint("GET", "/traces/{session_id}", scope="read", flag="format=openai")
    async def openai(
        self, session_id: SessionId, *, children: Children = True, content: Content = False
    ) -> OpenAITrace:
        """Export the trace in the format of the OpenAI Agents SDK."""
        ...

    @endpoint(
        "GET", "/traces/{session_id}/spans", scope="read", problems=(404,), cursor=r"^[0-9a-f]{16}$"
    )
    def spans(
        self,
        session_id: SessionId,
        *,
        kinds: Annotated[
            Sequence[SpanKind],
            Param("Only spans with this id. You can repeat this parameter.", max_length=20),
        ] = (),
        errors: Annotated[bool, Param("Only failed spans.")] = False,
        children: Children = True,
        content: Content = False,
    ) -> Pages[TraceSpan]:
        """List the spans of a trace, in the order of the tree."""
        ...


class CalledTraces(Called):
    """`TracesApi` for synchronous code."""

    get = calls(TracesApi.get)
    export = streams(TracesApi.export)
    events = streams(TracesApi.events)
    openai = calls(TracesApi.openai)
    spans = lists(TracesApi.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEntry(Value):
    """The usage of a group of model calls. `agent`, `model`, `session` and `day` are set if all
    calls of the group have the same value."""

    agent: str | None = left_out()
    model: str | None = left_out()
    session: str | None = left_out()
    day: str | None = left_out()
    """The day in UTC."""
    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    tokens: int
    cost: float | None
    """The cost in US dollars; `null` if the price is unknown."""
    unpriced_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSummary(Value):
    """The tokens and cost of model calls."""

    by: Sequence[CostKey]
    lines: Sequence[CostEntry]
    """The groups of calls, most expensive first."""
    total: CostEntry
    unpriced_models: Sequence[str]
    """Models whose price is unknown. Their calls are not included in the cost."""


class CostsApi(Protocol):
    """The tokens and cost of model calls."""

    @endpoint("GET", "/costs", scope="read", problems=(404,))
    async def get(
        self,
        *,
        session: Annotated[
            str | None,
            identifier(
                "Only this session and the sessions that answered its queries. Default: all "
                "sessions."
            ),
        ] = None,
        since: Annotated[Moment | None, Param("Only calls since this time.")] = None,
        by: Annotated[
            Sequence[CostKey],
            Param(
                "Group the calls by these values. Default: agent and model.",
                max_length=4,
                is_unique=True,
            ),
        ] = (),
    ) -> CostSummary:
        """Get the tokens and cost of model calls. Prices come from the settings, or from
        the price list of the extra `prices`."""
        ...


class CalledCosts(Called):
    """`CostsApi` for synchronous code."""

    get = calls(CostsApi.get)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A position in the sequence of events.

    A subscription first yields the position at which it starts, then the events after it. A
    subscription without `follow` also yields the position at which it ends.
    """

    after: str
    """The id to pass as `after`, to subscribe to all later events. It is empty if there is no event
    before this position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEvent:
    """An event, or a change of an inbox item, in the form that subscribers receive."""

    id: str
    """The position of the event. A subscription with this id as `after` gets exactly the later
    events."""
    type: str
    """``event``, or the type of an inbox event, such as ``inbox.new_item`` or
    ``inbox.answered``."""
    event: Event
    data: Mapping[str, Any]
    """The event as JSON, or the inbox item for an inbox event."""


Live: TypeAlias = Position | LiveEvent


class EventsApi(Protocol):
    """The events of all sessions, in one order for all subscribers."""

    @endpoint("GET", "/events", scope="read")
    def subscribe(
        self,
        *,
        sessions: Annotated[
            Sequence[str] | None, Param("Only events of these sessions.", max_length=1000)
        ] = None,
        agents: Annotated[
            Sequence[str] | None,
            Param("Only events of these agents, and between them.", max_length=1000),
        ] = None,
        types: Annotated[Sequence[EventType] | None, Param("Only events of these types.")] = None,
        inbox: Annotated[bool, Param("Only inbox items, and their changes.")] = False,
        after: Annotated[str | None, Param("Start after the event with this id.")] = None,
        follow: Annotated[bool, Param("Wait for new events.")] = True,
    ) -> AsyncStream[Live]:
        """Subscribe to events. The stream has a `Position` first, and then each event exactly once,
        even if the client reconnects.

        A missing filter matches all events. `after` is the id of the last event that the client
        received. If `after` is empty, all stored events are sent. Without `after`, only new events
        are sent. Without `follow`, the stream ends after the stored events.
        """
        ...


class CalledEvents(Called):
    """`EventsApi` for synchronous code."""

    subscribe = streams(EventsApi.subscribe)
