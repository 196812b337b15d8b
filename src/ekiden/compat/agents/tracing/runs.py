"""Ekiden's runs, shown to the processors of the current trace provider.

Spans of runs are made of stored events, so they are shown after what they tell of is stored. A run
inside ``with trace(…)`` is part of that trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ekiden import tracing
from ekiden.compat.agents.tracing import span_data as kinds
from ekiden.compat.agents.tracing.processor_interface import TracingProcessor
from ekiden.compat.agents.tracing.provider import when_watched
from ekiden.compat.agents.tracing.scope import IS_RELAYED, Scope
from ekiden.compat.agents.tracing.setup import get_trace_provider
from ekiden.compat.agents.tracing.span_data import SpanData
from ekiden.compat.agents.tracing.spans import Span, SpanError
from ekiden.compat.agents.tracing.traces import NoOpTrace, Trace
from ekiden.tracing.exports import iso_time, openai_error, openai_span, openai_span_data

_DATA: dict[str, Any] = {
    "agent": kinds.AgentSpanData,
    "function": kinds.FunctionSpanData,
    "generation": kinds.GenerationSpanData,
    "handoff": kinds.HandoffSpanData,
    "guardrail": kinds.GuardrailSpanData,
    "custom": kinds.CustomSpanData,
}


class _RunTrace(Trace):
    """A run that is part of no trace of the program's: it is one itself."""

    def __init__(self, run: tracing.RunTrace) -> None:
        self._run = run

    @property
    def trace_id(self) -> str:
        return f"trace_{self._run.trace_id}"

    @property
    def name(self) -> str:
        """The agent that began it."""
        return self._run.name

    @property
    def group_id(self) -> str:
        """What the session says that it belongs to."""
        return self._run.group_id

    def start(self, mark_as_current: bool = False) -> None:
        """Nothing: the run has begun it."""

    def finish(self, reset_current: bool = False) -> None:
        """Nothing: the run ends it."""

    def export(self) -> dict[str, Any] | None:
        return self._run.export()


class _RunSpan(Span[SpanData]):
    """A piece of work of a run."""

    def __init__(self, span: tracing.Span, within: _Within | None) -> None:
        self._span = span
        self._within = within
        data = openai_span_data(span)
        self._data: SpanData = _DATA[data.pop("type")](**data)

    @property
    def trace_id(self) -> str:
        return self._within.trace_id if self._within else f"trace_{self._span.trace_id}"

    @property
    def span_id(self) -> str:
        return f"span_{self._span.span_id}"

    @property
    def parent_id(self) -> str | None:
        """The span that it is part of; a run is part of none, or of the program's."""
        if self._span.kind == "run" or self._span.parent_id is None:
            return self._within.parent_id if self._within else None
        return f"span_{self._span.parent_id}"

    @property
    def span_data(self) -> SpanData:
        return self._data

    def start(self, mark_as_current: bool = False) -> None:
        """Nothing: the run has begun it."""

    def finish(self, reset_current: bool = False) -> None:
        """Nothing: the run ends it."""

    def set_error(self, error: SpanError) -> None:
        """Nothing: the run says what went wrong."""

    @property
    def started_at(self) -> str | None:
        return iso_time(self._span.started_at_us)

    @property
    def ended_at(self) -> str | None:
        return None if self._span.ended_at_us is None else iso_time(self._span.ended_at_us)

    @property
    def error(self) -> SpanError | None:
        found: Any = openai_error(self._span)
        return None if found is None else SpanError(message=found["message"], data=found["data"])

    def export(self) -> dict[str, Any] | None:
        own = {"trace_id": self.trace_id, "parent_id": self.parent_id}
        return {**openai_span(self._span), **own}


class _Within:
    """The trace of the program that a run is part of."""

    def __init__(self, trace: Trace) -> None:
        span = Scope.get_current_span()
        self.trace_id = trace.trace_id
        self.parent_id = None if span is None else span.span_id
        self.is_shown = not (isinstance(trace, NoOpTrace) or IS_RELAYED.get())


class _Runs(tracing.TracingProcessor):
    """Shows runs to the processors of the provider."""

    def __init__(self) -> None:
        self._within: dict[str, _Within] = {}

    def on_trace_start(self, trace: tracing.RunTrace) -> None:
        # It is called in the task of the run, so the program's trace is the current one.
        open_ = Scope.get_current_trace()
        if open_ is None:
            _processors().on_trace_start(_RunTrace(trace))
        else:
            self._within[trace.trace_id] = _Within(open_)

    def on_trace_end(self, trace: tracing.RunTrace) -> None:
        if self._within.pop(trace.trace_id, None) is None:
            _processors().on_trace_end(_RunTrace(trace))

    def on_span_start(self, span: tracing.Span) -> None:
        within = self._within.get(span.trace_id)
        if within is None or within.is_shown:
            _processors().on_span_start(_RunSpan(span, within))

    def on_span_end(self, span: tracing.Span) -> None:
        within = self._within.get(span.trace_id)
        if within is None or within.is_shown:
            _processors().on_span_end(_RunSpan(span, within))

    def shutdown(self) -> None:
        get_trace_provider().shutdown()

    def force_flush(self) -> None:
        get_trace_provider().force_flush()


_runs = _Runs()


def _processors() -> TracingProcessor:
    return get_trace_provider().run_processor


def show_runs() -> None:
    """Show runs to the provider's processors from now on.

    As in this SDK they see what was said, unless `RunConfig.trace_include_sensitive_data` is
    `False`; keys and tokens are masked.
    """
    if _runs not in tracing.trace_processors():
        tracing.add_trace_processor(_runs, include_content=True)


when_watched(show_runs)


def add_trace_processor(span_processor: TracingProcessor) -> None:
    """Add a processor for all traces of this process."""
    get_trace_provider().register_processor(span_processor)


def set_trace_processors(processors: Iterable[TracingProcessor]) -> None:
    """Use only these processors. Earlier processors are shut down."""
    get_trace_provider().set_processors(list(processors))


def set_tracing_disabled(disabled: bool) -> None:
    """Switch tracing off or on."""
    get_trace_provider().set_disabled(disabled)
    tracing.set_tracing_disabled(disabled)


def set_tracing_export_api_key(api_key: str) -> None:
    """Set the key for processors that send traces to OpenAI."""
    from ekiden.compat.agents.tracing.processors import default_exporter

    default_exporter().set_api_key(api_key)


def flush_traces() -> None:
    """Let all processors send their buffered data."""
    get_trace_provider().force_flush()
