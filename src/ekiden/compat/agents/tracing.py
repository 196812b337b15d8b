"""The tracing of this SDK over Ekiden's spans: the same roles, called for runs of this process.

Spans are made of stored events, so they are shown after what they tell of is stored, and no program
makes them: there is no ``with trace(…)`` and no ``custom_span``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar

from ekiden import tracing
from ekiden.tracing.exports import iso_time, openai_error, openai_span, openai_span_data

__all__ = [
    "AgentSpanData",
    "CustomSpanData",
    "FunctionSpanData",
    "GenerationSpanData",
    "GuardrailSpanData",
    "HandoffSpanData",
    "Span",
    "SpanData",
    "Trace",
    "TracingProcessor",
    "add_trace_processor",
    "flush_traces",
    "set_trace_processors",
    "set_tracing_disabled",
]

TSpanData = TypeVar("TSpanData")

flush_traces = tracing.flush_traces
set_tracing_disabled = tracing.set_tracing_disabled


class SpanData:
    """What kind of work a span was."""

    type: ClassVar[str] = ""

    def export(self) -> dict[str, Any]:
        """As JSON, with its type."""
        own: Any = self
        return {"type": self.type, **{each.name: getattr(self, each.name) for each in fields(own)}}


@dataclass(frozen=True, slots=True)
class AgentSpanData(SpanData):
    """An agent had the conversation."""

    type = "agent"
    name: str
    handoffs: list[str] | None = None
    tools: list[str] | None = None
    output_type: str | None = None


@dataclass(frozen=True, slots=True)
class FunctionSpanData(SpanData):
    """A tool was called."""

    type = "function"
    name: str
    input: Any = None
    output: Any = None
    mcp_data: Any = None


@dataclass(frozen=True, slots=True)
class GenerationSpanData(SpanData):
    """A model was asked; `input` is what was new to it."""

    type = "generation"
    input: Any = None
    output: Any = None
    model: str | None = None
    model_config: Any = None
    usage: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class HandoffSpanData(SpanData):
    """The conversation was handed over, or was to be."""

    type = "handoff"
    from_agent: str | None = None
    to_agent: str | None = None


@dataclass(frozen=True, slots=True)
class GuardrailSpanData(SpanData):
    """A guardrail did not let something through, or only with a warning."""

    type = "guardrail"
    name: str
    triggered: bool = False


@dataclass(frozen=True, slots=True)
class CustomSpanData(SpanData):
    """Anything else: a run, a choice of a router, a question to people, a task of a plan."""

    type = "custom"
    name: str
    data: dict[str, Any]


_DATA: dict[str, Any] = {
    each.type: each
    for each in (
        AgentSpanData,
        FunctionSpanData,
        GenerationSpanData,
        HandoffSpanData,
        GuardrailSpanData,
        CustomSpanData,
    )
}


class Trace(ABC):
    """One run, seen from outside."""

    @property
    @abstractmethod
    def trace_id(self) -> str:
        """The run's id."""

    @abstractmethod
    def export(self) -> dict[str, Any] | None:
        """The trace as JSON; `None` if there is nothing to show."""


class Span(ABC, Generic[TSpanData]):
    """One piece of work in a trace."""

    @property
    @abstractmethod
    def trace_id(self) -> str:
        """The trace it is part of."""

    @property
    @abstractmethod
    def span_id(self) -> str:
        """Its own id."""

    @property
    @abstractmethod
    def span_data(self) -> TSpanData:
        """What kind of work it was."""

    @abstractmethod
    def export(self) -> dict[str, Any] | None:
        """The span as JSON; `None` if there is nothing to show."""


class TracingProcessor(ABC):
    """Somebody who wants to see traces and spans."""

    @abstractmethod
    def on_trace_start(self, trace: Trace) -> None:
        """A run began."""

    @abstractmethod
    def on_trace_end(self, trace: Trace) -> None:
        """A run ended."""

    @abstractmethod
    def on_span_start(self, span: Span[Any]) -> None:
        """A piece of work began."""

    @abstractmethod
    def on_span_end(self, span: Span[Any]) -> None:
        """A piece of work ended."""

    @abstractmethod
    def shutdown(self) -> None:
        """Nothing more will come."""

    @abstractmethod
    def force_flush(self) -> None:
        """Pass on what is held back."""


class _RunTrace(Trace):
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

    def export(self) -> dict[str, Any] | None:
        return self._run.export()


class _ShownSpan(Span[SpanData]):
    def __init__(self, span: tracing.Span) -> None:
        self._span = span
        data = openai_span_data(span)
        self._data: SpanData = _DATA[data.pop("type")](**data)

    @property
    def trace_id(self) -> str:
        return f"trace_{self._span.trace_id}"

    @property
    def span_id(self) -> str:
        return f"span_{self._span.span_id}"

    @property
    def parent_id(self) -> str | None:
        """The span that it is part of; a run is part of none."""
        if self._span.kind == "run" or self._span.parent_id is None:
            return None
        return f"span_{self._span.parent_id}"

    @property
    def span_data(self) -> SpanData:
        return self._data

    @property
    def started_at(self) -> str:
        """As ISO 8601."""
        return iso_time(self._span.started_at_us)

    @property
    def ended_at(self) -> str | None:
        """As ISO 8601; `None` while it goes on."""
        return None if self._span.ended_at_us is None else iso_time(self._span.ended_at_us)

    @property
    def error(self) -> dict[str, Any] | None:
        """What went wrong: `message` and `data`."""
        return openai_error(self._span)

    def export(self) -> dict[str, Any] | None:
        return {**openai_span(self._span), "parent_id": self.parent_id}


class _Adapter(tracing.TracingProcessor):
    """A processor of this SDK as one of Ekiden's."""

    def __init__(self, processor: TracingProcessor) -> None:
        self._processor = processor

    def on_trace_start(self, trace: tracing.RunTrace) -> None:
        self._processor.on_trace_start(_RunTrace(trace))

    def on_trace_end(self, trace: tracing.RunTrace) -> None:
        self._processor.on_trace_end(_RunTrace(trace))

    def on_span_start(self, span: tracing.Span) -> None:
        self._processor.on_span_start(_ShownSpan(span))

    def on_span_end(self, span: tracing.Span) -> None:
        self._processor.on_span_end(_ShownSpan(span))

    def shutdown(self) -> None:
        self._processor.shutdown()

    def force_flush(self) -> None:
        self._processor.force_flush()


def add_trace_processor(span_processor: TracingProcessor) -> None:
    """Show every run of this process to one more processor.

    As in this SDK it sees what was said, unless `RunConfig.trace_include_sensitive_data` is
    `False`; keys and tokens are covered.
    """
    tracing.add_trace_processor(_Adapter(span_processor), include_content=True)


def set_trace_processors(processors: Iterable[TracingProcessor]) -> None:
    """Show runs to these processors and no others; those before are shut down."""
    tracing.set_trace_processors([_Adapter(each) for each in processors], include_content=True)
