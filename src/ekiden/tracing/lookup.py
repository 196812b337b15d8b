"""Reads traces from a store as trees of spans, including the sessions that answered other
sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from ekiden.core.errors import SessionNotFound
from ekiden.core.events import Event
from ekiden.storage.base import SessionRow, Store
from ekiden.storage.records import is_copied
from ekiden.tracing.builder import SpanBuilder
from ekiden.tracing.spans import (
    NO_TOKENS,
    TRACEPARENT,
    CostOf,
    Span,
    Tokens,
    TraceContext,
    ask_span_id,
    parse_traceparent,
    part,
    session_span_id,
    trace_id_of,
)


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """A span with its child spans."""

    span: Span
    depth: int = 0
    children: list[Node] = field(default_factory=list)
    """The child spans, in the order of their start."""
    tokens: Tokens = NO_TOKENS
    """The tokens of the span and of all spans below it."""
    cost: float | None = None
    """The cost of the span and of all spans below it; `None` if no price is known."""
    unpriced: int = 0
    """The number of model calls with an unknown price in the span and below it."""
    errors: int = 0
    """The number of failed spans below this span."""

    def to_json(self) -> dict[str, Any]:
        """The span, its depth, and the usage of its subtree."""
        data = {**self.span.to_json(), "depth": self.depth}
        if self.tokens.requests:
            data["total_tokens"] = self.tokens.to_json()
            data["total_cost"] = None if self.cost is None else round(self.cost, 9)
            if self.unpriced:
                data["unpriced_requests"] = self.unpriced
        return data


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The spans of a session and of the sessions that answered its questions.

    For example::

        trace = await read_trace(store, "customer-42")
        for node in trace.nodes():
            print("  " * node.depth, node.span.kind, node.span.name)
    """

    trace_id: str
    session_id: str
    """The id of the session at the root of the trace. The spans of the sessions that answered its
    questions are below the span of this session."""
    spans: Sequence[Span]
    """All spans. The span of the session comes first."""

    @cached_property
    def root(self) -> Node:
        """The span of the session, with all other spans below it."""
        return _tree(self.spans)

    def nodes(self) -> Iterator[Node]:
        """All spans in the order of the tree."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def errors(self) -> list[Span]:
        """The failed spans, in order. A span that failed only because a child span failed is left
        out."""
        found = [each for each in self.nodes() if each.span.status == "error" and not each.errors]
        return sorted((each.span for each in found), key=lambda span: span.started_at_us)

    def waits(self) -> list[Span]:
        """The spans that wait for people or agents. A span that waits only because a child span
        waits is left out."""
        waiting = {each.span_id: each for each in self.spans if each.status == "waiting"}
        above = {each.parent_id for each in waiting.values()}
        return [each for each in waiting.values() if each.span_id not in above]

    def to_json(self) -> dict[str, Any]:
        """The trace as JSON, with the spans in the order of the tree."""
        root = self.root
        return {
            "trace_id": self.trace_id,
            "session_id": self.session_id,
            "status": root.span.status,
            "tokens": root.tokens.to_json(),
            "cost": None if root.cost is None else round(root.cost, 9),
            "unpriced_requests": root.unpriced,
            "errors": [span.span_id for span in self.errors()],
            "waits": [span.span_id for span in self.waits()],
            "spans": [node.to_json() for node in self.nodes()],
        }


def _tree(spans: Sequence[Span]) -> Node:
    nodes = {span.span_id: Node(span=span) for span in spans}
    first = nodes[spans[0].span_id]
    for node in nodes.values():
        if node is not first:
            above = nodes.get(node.span.parent_id or "", first)
            (first if above is node else above).children.append(node)
    ordered = _ordered(first)
    for node in reversed(ordered):
        _sum_up(node)
    return first


def _ordered(first: Node) -> list[Node]:
    """The nodes in the order of the tree: parents before children, siblings by start."""
    ordered: list[Node] = []
    seen: set[int] = set()
    waiting = [first]
    while waiting:
        node = waiting.pop()
        seen.add(id(node))
        ordered.append(node)
        node.children = [each for each in node.children if id(each) not in seen]
        node.children.sort(key=lambda each: (each.span.started_at_us, each.span.first_seq))
        for each in node.children:
            each.depth = node.depth + 1
        waiting.extend(reversed(node.children))
    return ordered


def _sum_up(node: Node) -> None:
    span = node.span
    node.tokens, node.cost = span.tokens, span.cost
    if span.tokens.requests and span.cost is None:
        node.unpriced = span.tokens.requests
    for child in node.children:
        if child.tokens is not NO_TOKENS:
            node.tokens = node.tokens + child.tokens
        if child.cost is not None:
            node.cost = (node.cost or 0.0) + child.cost
        node.unpriced += child.unpriced
        node.errors += child.errors + (child.span.status == "error")


_MOST_SESSIONS: Final = 10_000
_DEEPEST: Final = 100
_MANY: Final = 1000
_META: Final = ("asked_by", "asked_in", "forked_at", "forked_from", "task_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedSession:
    """One session of a trace."""

    row: SessionRow
    events: Sequence[Event]
    """The events of the session, except for events that a fork copied."""
    context: TraceContext

    def built(self, cost: CostOf | None = None) -> SpanBuilder:
        """A span builder that has processed all events."""
        builder = builder_for(self.row, self.context, cost=cost)
        for event in self.events:
            builder.add(event)
        return builder


async def read_trace(
    store: Store, session_id: str, *, children: bool = True, cost: CostOf | None = None
) -> Trace:
    """Read the trace of a session. With `children`, the trace includes the child sessions: sessions
    in which other agents answered questions of this session, at any depth.

    `cost` is a function that computes the cost of model calls whose events have no cost. Deleted
    child sessions are left out. Raises `SessionNotFound` if the session does not exist::

        trace = await read_trace(store, "customer-42")
        for node in trace.nodes():
            print(node.span.kind, node.span.name)
    """
    spans: list[Span] = []
    async for session in traced_sessions(store, session_id, children=children):
        if len(session.events) < _MANY:
            spans += session.built(cost).spans()
        else:  # In a thread, so that it does not block the event loop.
            spans += await asyncio.to_thread(_spans, session, cost)
    return Trace(trace_id=spans[0].trace_id, session_id=session_id, spans=spans)


def _spans(session: TracedSession, cost: CostOf | None) -> Sequence[Span]:
    return session.built(cost).spans()


async def traced_sessions(
    store: Store, session_id: str, *, children: bool = True
) -> AsyncIterator[TracedSession]:
    """The session, and with `children` the sessions that answered its questions, at any depth. Each
    session follows the session that asked the question."""
    await store.open()
    row = await store.get(session_id)
    context = await trace_context(store, row)
    waiting: list[tuple[SessionRow, TraceContext]] = [(row, context)]
    seen = {session_id}
    while waiting:
        row, context = waiting.pop()
        events = own_events(row, await store.events(row.id))
        yield TracedSession(row=row, events=events, context=context)
        if not children:
            return
        asked: list[tuple[SessionRow, TraceContext]] = []
        for child, message in _asked(events):
            if child in seen or len(seen) >= _MOST_SESSIONS:
                continue
            seen.add(child)
            with suppress(SessionNotFound):
                below = TraceContext(
                    trace_id=context.trace_id, parent_id=ask_span_id(row.id, message)
                )
                asked.append((await store.get(child), below))
        waiting.extend(reversed(asked))


async def trace_context(store: Store, row: SessionRow) -> TraceContext:
    """Return the trace that a session belongs to, and the parent of the session's spans.

    A session that answers another session belongs to that session's trace. A session with a valid
    W3C `traceparent` in its meta continues that trace. Any other session is the root of a trace.
    """
    return await context_for(store, row.id, row.meta, row.created_at_us)


async def context_for(
    store: Store, session_id: str, meta: Mapping[str, Any], created_at_us: int
) -> TraceContext:
    """Like `trace_context`, for a session with this id, meta and creation time."""
    asker = meta.get("asked_in")
    if not isinstance(asker, str) or not asker:
        found = parse_traceparent(meta.get(TRACEPARENT))
        return found or TraceContext(trace_id=trace_id_of(session_id, created_at_us))
    message = meta.get("answers")
    if not isinstance(message, str):
        first = await store.events(session_id, limit=1)
        message = part((first[0].details or {}).get("message")).get("id") if first else None
    above = ask_span_id(asker, message) if isinstance(message, str) else session_span_id(asker)
    return TraceContext(trace_id=await _root_trace(store, asker), parent_id=above)


async def _root_trace(store: Store, session_id: str) -> str:
    """The trace of the first session in the chain of questions; a deleted session counts as created
    at 0."""
    seen: set[str] = set()
    while session_id not in seen and len(seen) < _DEEPEST:
        seen.add(session_id)
        try:
            row = await store.get(session_id)
        except SessionNotFound:
            break
        asker = row.meta.get("asked_in")
        if not isinstance(asker, str) or not asker:
            found = parse_traceparent(row.meta.get(TRACEPARENT))
            return found.trace_id if found else trace_id_of(session_id, row.created_at_us)
        session_id = asker
    return trace_id_of(session_id, 0)


def builder_for(
    row: SessionRow,
    context: TraceContext,
    *,
    cost: CostOf | None = None,
    is_live: bool = False,
) -> SpanBuilder:
    """Return a span builder for the session. See `SessionSpans` for `is_live`."""
    meta = row.meta
    origin = meta.get("forked_from")
    return SpanBuilder(
        row.id,
        context,
        correlation_id=correlation_of(row.id, meta),
        started_at_us=row.created_at_us,
        cost=cost,
        details={name: meta[name] for name in _META if meta.get(name) is not None},
        links=(session_span_id(origin),) if isinstance(origin, str) else (),
        is_live=is_live,
    )


def correlation_of(session_id: str, meta: Mapping[str, Any]) -> str:
    """The correlation id in `meta`, or the session's id."""
    return str(meta.get("correlation_id") or session_id)


def own_events(row: SessionRow, events: Sequence[Event]) -> Sequence[Event]:
    """The events, except for events that a fork copied from another session."""
    if "forked_from" not in row.meta:
        return events
    return [event for event in events if not is_copied(row, event)]


def _asked(events: Sequence[Event]) -> Iterator[tuple[str, str]]:
    """The sessions that were created for questions and notices, with their message ids."""
    for event in events:
        if event.type != "message" or not event.details:
            continue
        for name in ("asks", "tells"):
            question = part(event.details.get(name))
            session, message = question.get("session"), question.get("id")
            if isinstance(session, str) and isinstance(message, str):
                yield session, message
