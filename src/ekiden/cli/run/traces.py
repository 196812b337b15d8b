"""Live spans of a session, and of the sessions that answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ekiden.cli.exits import Exit
from ekiden.cli.terminal.output import complain, emit, note
from ekiden.cli.views.traces import (
    Glyphs,
    TraceLine,
    clock,
    duration_text,
    gist,
    label,
    print_line,
    style_of,
    tokens_text,
)
from ekiden.core.errors import SessionNotFound, StoreUnavailable
from ekiden.core.values import dumps
from ekiden.tracing import SpanBuilder, TraceContext
from ekiden.tracing.building.parts import part
from ekiden.tracing.lookup import builder_for, own_events, trace_context
from ekiden.tracing.redaction import exported
from ekiden.tracing.spans import ask_span_id

if TYPE_CHECKING:
    from ekiden.core.events import Event
    from ekiden.hub import EventStream
    from ekiden.storage.base import Store
    from ekiden.tracing import CostOf, Span

_LASTING = frozenset({"session", "run", "agent", "task", "inbox"})
"""Kinds that are shown when they start; all except sessions are shown when they end."""


class SpanFollower:
    """Shows the spans of a session, and of those that answer it, until its run ends."""

    def __init__(
        self, store: Store, *, look: Glyphs, as_json: bool, children: bool, cost: CostOf | None
    ) -> None:
        self._store = store
        self._look = look
        self._as_json = as_json
        self._children = children
        self._cost = cost
        self._builders: dict[str, SpanBuilder] = {}
        self._depths: dict[str, int] = {}

    async def follow(self, session_id: str, stream: EventStream) -> int:
        """Show existing spans, then new ones; `stream` has started already."""
        row = await self._store.get(session_id)
        await self._open(session_id, await trace_context(self._store, row))
        root = self._builders[session_id]
        was_open = root.run is not None
        if self._as_json:
            note(dumps({"following": {"session_id": session_id, "running": was_open}}))
        elif not was_open:
            note("no run is active; waiting for the next one, Ctrl-C ends it")
        try:
            while not was_open or root.run is not None:
                found = await anext(stream)
                await self._take(found.event)
                was_open = was_open or root.run is not None
        except asyncio.CancelledError:
            return Exit.INTERRUPTED
        except StopAsyncIteration:
            pass
        return Exit.OK

    def outage(self, exc: StoreUnavailable | None) -> None:
        """Report that the store is unreachable, or reachable again."""
        if exc is not None:
            complain(exc.code, f"{exc}; trying again", as_json=self._as_json)
        else:
            note(
                dumps({"note": "the store is reachable again"})
                if self._as_json
                else ("the store is reachable again")
            )

    async def _open(self, session_id: str, context: TraceContext) -> None:
        """Show a session from its start."""
        try:
            row = await self._store.get(session_id)
        except SessionNotFound:
            return
        builder = builder_for(row, context, cost=self._cost, is_live=True)
        self._builders[session_id] = builder
        above = self._depths.get(context.parent_id or "", -1)
        self._depths[builder.session.id] = above + 1
        await self._show(builder, own_events(row, await self._store.events(session_id)))

    async def _take(self, event: Event) -> None:
        builder = self._builders.get(event.session_id)
        if builder is None or event.seq <= builder.last_seq:
            return
        events: Sequence[Event] = [event]
        if event.seq > builder.last_seq + 1:
            events = await self._store.events(event.session_id, after=builder.last_seq)
        await self._show(builder, events)

    async def _show(self, builder: SpanBuilder, events: Sequence[Event]) -> None:
        for event in events:
            builder.add(event)
            for has_begun, each in builder.take():
                self._depths[each.id] = self._depths.get(each.parent_id or "", 0) + 1
                is_lasting = each.kind in _LASTING and each.end is None
                if not has_begun or is_lasting:
                    self._print(exported(builder.span(each), include_content=True), has_begun)
            if self._children and event.details:
                for name in ("asks", "tells"):
                    await self._open_asked(builder, part(event.details.get(name)))

    async def _open_asked(self, builder: SpanBuilder, told: Mapping[str, Any]) -> None:
        session, message = told.get("session"), told.get("id")
        if not (isinstance(session, str) and isinstance(message, str)):
            return
        if session not in self._builders:
            above = ask_span_id(builder.session_id, message)
            context = TraceContext(trace_id=builder.context.trace_id, parent_id=above)
            await self._open(session, context)

    def _print(self, span: Span, has_begun: bool) -> None:
        if self._as_json:
            emit({"change": "start" if has_begun else "end", **span.to_json()})
            return
        at_us = span.started_at_us if has_begun or span.ended_at_us is None else span.ended_at_us
        indent = "  " * self._depths.get(span.span_id, 0)
        parts = [f"{clock(at_us)}  {indent}{label(span, self._look)}"]
        if not has_begun and span.duration_us:
            parts.append(duration_text(span.duration_us))
        parts += [tokens_text(span.tokens), gist(span, self._look)]
        mark = " done" if not has_begun and span.kind in _LASTING else ""
        parts[0] += mark
        print_line(TraceLine("  ".join(each for each in parts if each), style_of(span)))
