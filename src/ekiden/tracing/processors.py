"""Trace processors: their interface, their registration, and the dispatcher of spans."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ekiden.core.current_agent import LOGGED
from ekiden.core.events import OBSERVERS, Event, SeenRun
from ekiden.tracing.builder import SpanBuilder
from ekiden.tracing.exports import exported, openai_trace
from ekiden.tracing.lookup import context_for, correlation_of
from ekiden.tracing.spans import (
    TRACEPARENT,
    CostOf,
    Span,
    TraceContext,
    ask_span_id,
    parse_traceparent,
    part,
    trace_id_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTrace:
    """A trace that has a run in this process."""

    trace_id: str
    session_id: str
    """The id of the first session of the trace that runs in this process. Other sessions of the
    trace may follow."""
    name: str
    """The name of the trace: the active agent of the session."""
    group_id: str
    """The group of the session; by default the id of the session."""
    parent_id: str | None = None
    """The parent span of the session. The parent is a span of the asking session, or a span of
    another program if the session has a `traceparent`."""

    def export(self) -> dict[str, Any]:
        """The trace as JSON, in the format of the OpenAI Agents SDK."""
        return openai_trace(self.trace_id, self.name, group_id=self.group_id)


class TracingProcessor:
    """Receives traces and spans as they happen.

    The methods of a processor are called in the task of the run, after the data was stored. So the
    methods must be fast. For slow work, use a queue. Exceptions of a processor are logged once and
    do not affect runs. If a span continues in another process after a crash, the processors of that
    process get only the end of the span, with the same id. Override the methods that you need. The
    defaults do nothing. For example::

        class Durations(TracingProcessor):
            def on_span_end(self, span: Span) -> None:
                print(span.kind, span.name, span.duration_us)

        add_trace_processor(Durations())
    """

    def on_trace_start(self, trace: RunTrace) -> None:
        """Called when the first run of a trace in this process starts."""

    def on_trace_end(self, trace: RunTrace) -> None:
        """Called when no run of the trace is active in this process any more, because all runs have
        ended or wait."""

    def on_span_start(self, span: Span) -> None:
        """Called when a span starts."""

    def on_span_end(self, span: Span) -> None:
        """Called when a span ends. If the span started and ended within one step, this call
        directly follows `on_span_start`."""

    def shutdown(self) -> None:
        """Called when the process ends."""

    def force_flush(self) -> None:
        """Called to send buffered data at once."""


_log = logging.getLogger("ekiden.tracing")

_MOST_SESSIONS: Final = 10_000
"""The number of waiting or asked sessions in memory, at most; others are read from the store."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Viewer:
    """A trace processor, and whether it may see message content."""

    processor: TracingProcessor
    include_content: bool = False


class TraceDispatcher:
    """Builds spans from stored events, and passes them to trace processors.

    As one of `ekiden.core.events.OBSERVERS`, the dispatcher gets the events of every run of the
    process. As an `EventSink`, it gets the events of the runs of one `RunConfig`::

        RunConfig(sinks=[TraceDispatcher([Viewer(processor=Durations())])])
    """

    def __init__(self, viewers: Sequence[Viewer] = (), *, cost: CostOf | None = None) -> None:
        self.viewers: tuple[Viewer, ...] = tuple(viewers)
        self._cost = cost
        self._builders: dict[tuple[str, int], SpanBuilder] = {}
        """By session id and creation time: sessions of several stores may have the same id."""
        self._contexts: dict[str, TraceContext] = {}
        """The trace contexts of asked sessions that have no events yet."""
        self._active: dict[str, tuple[RunTrace, set[tuple[str, int]]]] = {}
        """The sessions with a run in this process, by trace."""
        self._failed: set[int] = set()
        """The ids of processors whose failure was logged."""

    async def see(self, run: SeenRun, events: Sequence[Event]) -> None:
        """Process events that were just stored."""
        if not self.viewers or not events:
            return
        builder = self._builders.get((run.session_id, run.created_at_us))
        if builder is None or builder.last_seq != events[0].seq - 1:
            builder = await self._replayed(run, events[0].seq)
        self._process(builder, events)

    def emit(self, event: Event) -> None:
        """Process one event that the dispatcher gets as an `EventSink`. A sink gets only the events
        of the current run of the session."""
        if not self.viewers or not event.session_id:
            return
        created_at_us, context = _current_context(event.session_id)
        builder = self._builders.get((event.session_id, created_at_us))
        if builder is None:
            context = self._contexts.pop(event.session_id, context)
            builder = SpanBuilder(event.session_id, context, cost=self._cost, is_live=True)
            builder.created_at_us = created_at_us
            self._keep(builder)
        self._process(builder, [event])

    async def _replayed(self, run: SeenRun, seq: int) -> SpanBuilder:
        """A builder that has processed the events of the run before event `seq`."""
        context = self._contexts.pop(run.session_id, None)
        if context is None:
            context = await context_for(run.store, run.session_id, run.meta, run.created_at_us)
        earlier = [event for event in run.events if event.seq < seq]
        builder = SpanBuilder(
            run.session_id,
            context,
            correlation_id=correlation_of(run.session_id, run.meta),
            runs=max(run.number - 1, 0),
            cost=self._cost,
            is_live=True,
        )
        builder.created_at_us = run.created_at_us
        for event in earlier:
            builder.add(event)
        # The spans of earlier events were passed on before. An exception is the first event of a
        # session that another session created: no observer saw it.
        if not (len(earlier) == 1 and "message" in (earlier[0].details or {})):
            builder.take()
        self._keep(builder)
        return builder

    def _keep(self, builder: SpanBuilder) -> None:
        if len(self._builders) >= _MOST_SESSIONS:
            del self._builders[next(iter(self._builders))]
        self._builders[_key(builder)] = builder

    def _process(self, builder: SpanBuilder, events: Sequence[Event]) -> None:
        for event in events:
            builder.add(event)
            self._note_asked_sessions(builder, event)
            self._start_trace(builder)
            for is_start, each in builder.take():
                self._pass_on(builder.span(each), is_start=is_start)
        if builder.run is None or builder.run.status == "waiting":
            self._end_trace(builder)
        if builder.run is None and not builder.open_handoffs:
            self._builders.pop(_key(builder), None)

    def _note_asked_sessions(self, builder: SpanBuilder, event: Event) -> None:
        """Remember the trace contexts of sessions that this event created."""
        if event.type != "message" or not event.details:
            return
        for name in ("asks", "tells"):
            question = part(event.details.get(name))
            session, message = question.get("session"), question.get("id")
            if isinstance(session, str) and isinstance(message, str):
                if len(self._contexts) >= _MOST_SESSIONS:
                    del self._contexts[next(iter(self._contexts))]
                self._contexts[session] = TraceContext(
                    trace_id=builder.context.trace_id,
                    parent_id=ask_span_id(builder.session_id, message),
                )

    def _start_trace(self, builder: SpanBuilder) -> None:
        run, trace_id = builder.run, builder.context.trace_id
        if run is None or run.status == "waiting":
            return
        found = self._active.get(trace_id)
        if found is not None:
            found[1].add(_key(builder))
            return
        trace = RunTrace(
            trace_id=trace_id,
            session_id=builder.session_id,
            name=run.agent or "ekiden",
            group_id=builder.correlation_id,
            parent_id=builder.context.parent_id,
        )
        self._active[trace_id] = (trace, {_key(builder)})
        for viewer in self.viewers:
            self._call(viewer.processor, viewer.processor.on_trace_start, trace)

    def _end_trace(self, builder: SpanBuilder) -> None:
        found = self._active.get(builder.context.trace_id)
        if found is None:
            return
        trace, sessions = found
        sessions.discard(_key(builder))
        if not sessions:
            del self._active[builder.context.trace_id]
            for viewer in self.viewers:
                self._call(viewer.processor, viewer.processor.on_trace_end, trace)

    def _pass_on(self, span: Span, *, is_start: bool) -> None:
        if is_start:
            # The span may also have ended within this step. It is our own copy.
            span.ended_at_us = None
        shown: dict[bool, Span] = {}
        for viewer in self.viewers:
            seen = shown.get(viewer.include_content)
            if seen is None:
                seen = exported(span, include_content=viewer.include_content)
                shown[viewer.include_content] = seen
            processor = viewer.processor
            take = processor.on_span_start if is_start else processor.on_span_end
            self._call(processor, take, seen)

    def _call(
        self, processor: TracingProcessor, take: Callable[..., None], *shown: RunTrace | Span
    ) -> None:
        try:
            take(*shown)
        except Exception:
            if id(processor) not in self._failed:
                self._failed.add(id(processor))
                _log.exception(
                    "trace processor %s failed; what else it raises is not logged",
                    type(processor).__name__,
                )


def _key(builder: SpanBuilder) -> tuple[str, int]:
    return builder.session_id, builder.created_at_us


def _current_context(session_id: str) -> tuple[int, TraceContext]:
    """The creation time and the trace context of the session of the current run."""
    run = LOGGED.get()
    if run is None or run.session_id != session_id:
        return 0, TraceContext(trace_id=trace_id_of(session_id, 0))
    created_at_us = run.created_at_us or 0
    given = None if "asked_in" in run.meta else parse_traceparent(run.meta.get(TRACEPARENT))
    return created_at_us, given or TraceContext(trace_id=trace_id_of(session_id, created_at_us))


_dispatcher = TraceDispatcher()
_is_disabled = False
_is_at_exit = False


def add_trace_processor(processor: TracingProcessor, *, include_content: bool = False) -> None:
    """Add a processor, which gets the traces and spans of all runs of this process. For a run in
    progress, this begins with the next step of the run.

    Spans contain message content only with `include_content`, and never for runs with
    `trace_include_sensitive_data=False`. Keys and tokens are always masked. The processor is shut
    down at the end of the process::

        class Slow(TracingProcessor):
            def on_span_end(self, span: Span) -> None:
                if (span.duration_us or 0) > 5_000_000:
                    print(span.name, "took long")

        add_trace_processor(Slow())
    """
    _set((*_dispatcher.viewers, Viewer(processor=processor, include_content=include_content)))


def set_trace_processors(
    processors: Iterable[TracingProcessor], *, include_content: bool = False
) -> None:
    """Replace all processors by `processors`. The earlier processors are shut down.

    For example::

        set_trace_processors([])
    """
    new = tuple(Viewer(processor=each, include_content=include_content) for each in processors)
    kept = {id(each.processor) for each in new}
    before = [each.processor for each in _dispatcher.viewers if id(each.processor) not in kept]
    _set(new)
    for processor in before:
        _quietly(processor, "shutdown")


def trace_processors() -> tuple[TracingProcessor, ...]:
    """The current trace processors."""
    return tuple(each.processor for each in _dispatcher.viewers)


def set_tracing_disabled(disabled: bool) -> None:
    """Switch all processors off or on. Traces of stored events can be read in both cases.

    For example::

        set_tracing_disabled(True)
    """
    global _is_disabled
    _is_disabled = disabled
    _update_observers()


def flush_traces() -> None:
    """Let every processor send its buffered data.

    For example::

        flush_traces()
    """
    for processor in trace_processors():
        _quietly(processor, "force_flush")


def _set(viewers: tuple[Viewer, ...]) -> None:
    global _is_at_exit
    _dispatcher.viewers = viewers
    _update_observers()
    if viewers and not _is_at_exit:
        _is_at_exit = True
        atexit.register(_shut_down)


def _update_observers() -> None:
    wanted = bool(_dispatcher.viewers) and not _is_disabled
    if wanted and _dispatcher not in OBSERVERS:
        OBSERVERS.append(_dispatcher)
    elif not wanted and _dispatcher in OBSERVERS:
        OBSERVERS.remove(_dispatcher)


def _shut_down() -> None:
    set_trace_processors(())


def _quietly(processor: TracingProcessor, method: str) -> None:
    try:
        getattr(processor, method)()
    except Exception:
        _log.exception("trace processor %s failed in %s", type(processor).__name__, method)
