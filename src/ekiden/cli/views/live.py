"""Live views: events or spans as they happen, until the run ends or Ctrl-C."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ekiden.cli.errors import Exit
from ekiden.cli.output import clock_time, complain, emit, note
from ekiden.cli.transcript import route_line, shorten, transcript
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
from ekiden.core.events import Event
from ekiden.core.values import dumps
from ekiden.tracing import SpanBuilder, TraceContext
from ekiden.tracing.exports import exported
from ekiden.tracing.lookup import builder_for, own_events, trace_context
from ekiden.tracing.spans import ask_span_id, part

if TYPE_CHECKING:
    from ekiden.api.methods.called import AsyncStream
    from ekiden.api.traces import Live, LiveEvent
    from ekiden.hub import EventStream
    from ekiden.storage.base import Store
    from ekiden.tracing import CostOf, Span

_LONGEST = 200
_LASTING = frozenset({"session", "run", "agent", "task", "inbox"})
"""Kinds that are shown when they start; all except sessions are shown when they end."""


class _Observer:
    """Base class of the live views."""

    __slots__ = ()

    as_json: bool

    def outage(self, exc: StoreUnavailable | None) -> None:
        """Report that the store is unreachable, or with `None` reachable again."""
        if exc is not None:
            complain(exc.code, f"{exc}; trying again", as_json=self.as_json)
        else:
            back = "the store is reachable again"
            note(dumps({"note": back}) if self.as_json else back)


@dataclass(slots=True, kw_only=True)
class Spectator(_Observer):
    """Shows events live, and prints at the end how to continue without a gap."""

    command: Sequence[str] = ("ekiden", "watch")
    words: Sequence[str] = ()
    """The options to repeat in the command that continues."""
    as_json: bool
    intro: str = "watching {url}; Ctrl-C ends it"
    code: Exit = Exit.OK
    """The exit code, once `read` has ended."""

    async def read(
        self, stream: AsyncStream[Live], url: str, *, tells: bool
    ) -> AsyncIterator[LiveEvent]:
        """The events of the stream; with `tells` the beginning is reported, from which on no event
        is missed."""
        from ekiden.api.traces import Position

        after = ""
        try:
            async for found in stream:
                if isinstance(found, Position):
                    after = found.after
                    if tells:
                        self._begin(url, after)
                        tells = False
                else:
                    after = found.id
                    yield found
        except asyncio.CancelledError:
            self.code = Exit.INTERRUPTED
        if self.as_json:
            note(dumps({"after": after}))
        else:
            note(f"continue with: {shlex.join([*self.command, '--after', after, *self.words])}")

    def _begin(self, url: str, after: str) -> None:
        if self.as_json:
            note(dumps({"watching": {"store": url, "after": after}}))
        else:
            note(self.intro.format(url=url))


def event_line(event: Event) -> str:
    """Time, session, agent and event: ``2025-03-01 12:00:00 s1 triage handoff triage → orders``."""
    what = " ".join(event_text(event).split())
    words = (
        clock_time(event.at_us / 1e6),
        event.session_id or "-",
        event.agent or "-",
        event.type,
        shorten(what, _LONGEST),
    )
    return "  ".join(words).rstrip()


def event_text(event: Event) -> str:
    """The description of an event; empty if its type says everything."""
    details = event.details or {}
    match event.type:
        case "handoff":
            status = details.get("status")
            reason = event.error or str(details.get("reason") or "")
            return _joined(_way(details), f"({status})" if status else "", reason)
        case "route":
            return route_line(details)
        case "inbox":
            return _inbox(details)
        case _:
            return _said(event, details)


def _said(event: Event, details: Mapping[str, Any]) -> str:
    lines = [f"{who}: {what}" for who, what in transcript([event])]
    if lines:
        return "; ".join(lines)
    names = ("tool", "outcome", "subject", "published", "change", "status")
    about = next((str(details[name]) for name in names if details.get(name)), "")
    return _joined(_way(details), about or _changed(details.get("state")), event.error or "")


def _changed(state: object) -> str:
    """The names of the changed variables."""
    if not isinstance(state, Mapping):
        return ""
    names = [*state.get("set", ()), *state.get("deleted", ())]
    names += [f"{scope}:{name}" for scope in ("user", "app") for name in state.get(scope, ())]
    return f"changes {', '.join(names)}" if names else ""


def _inbox(details: Mapping[str, Any]) -> str:
    change = details.get("change")
    choice = details.get("choice") or details.get("text")
    return _joined(
        " ".join(str(each) for each in (change, details.get("kind")) if each),
        str(details.get("item") or ""),
        str(details.get("subject") or ""),
        f"→ {choice}" if choice else "",
    )


def _way(details: Mapping[str, Any]) -> str:
    source = details.get("from") or details.get("from_agent")
    target = details.get("to") or details.get("to_agent")
    return f"{source} → {target}" if source and target else ""


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


class SpanFollower(_Observer):
    """Shows the spans of a session, and of those that answer it, until its run ends."""

    def __init__(
        self, store: Store, *, look: Glyphs, as_json: bool, children: bool, cost: CostOf | None
    ) -> None:
        """`look` are the characters to draw with; `cost` gives the price of a model call."""
        self.as_json = as_json
        self._store = store
        self._look = look
        self._children = children
        self._cost = cost
        self._builders: dict[str, SpanBuilder] = {}
        """By session."""
        self._depths: dict[str, int] = {}
        """The indentation of each span, by its id."""

    async def follow(self, session_id: str, stream: EventStream) -> int:
        """Show existing spans, then new ones; `stream` has started already."""
        row = await self._store.get(session_id)
        await self._open(session_id, await trace_context(self._store, row))
        root = self._builders[session_id]
        was_open = root.run is not None
        if self.as_json:
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

    async def _open(self, session_id: str, context: TraceContext) -> None:
        """Show the stored spans of a session, and follow it."""
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
        if event.seq > builder.last_seq + 1:  # Another subscription's events came first.
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

    async def _open_asked(self, builder: SpanBuilder, query: Mapping[str, Any]) -> None:
        session, message = query.get("session"), query.get("id")
        if not (isinstance(session, str) and isinstance(message, str)):
            return
        if session not in self._builders:
            above = ask_span_id(builder.session_id, message)
            context = TraceContext(trace_id=builder.context.trace_id, parent_id=above)
            await self._open(session, context)

    def _print(self, span: Span, has_begun: bool) -> None:
        if self.as_json:
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
