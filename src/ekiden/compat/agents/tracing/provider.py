"""Who makes traces and spans, and shows them to processors."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from ekiden.compat.agents.tracing.config import TracingConfig
from ekiden.compat.agents.tracing.logger import logger
from ekiden.compat.agents.tracing.processor_interface import TracingProcessor
from ekiden.compat.agents.tracing.scope import Scope, new_group_id, new_span_id, new_trace_id
from ekiden.compat.agents.tracing.spans import NoOpSpan, Span, SpanImpl, TSpanData, now_iso
from ekiden.compat.agents.tracing.traces import NoOpTrace, Trace, TraceImpl


class SynchronousMultiTracingProcessor(TracingProcessor):
    """Shows everything to several processors, one after the other."""

    def __init__(self) -> None:
        self._processors: tuple[TracingProcessor, ...] = ()

    def add_tracing_processor(self, tracing_processor: TracingProcessor) -> None:
        """Show it to one more."""
        self._processors += (tracing_processor,)

    def set_processors(self, processors: list[TracingProcessor]) -> None:
        """Show it to these and no others; the ones before are shut down."""
        before, self._processors = self._processors, tuple(processors)
        self._all("shutdown", of=[each for each in before if each not in processors])

    def on_trace_start(self, trace: Trace) -> None:
        self._all("on_trace_start", trace)

    def on_trace_end(self, trace: Trace) -> None:
        self._all("on_trace_end", trace)

    def on_span_start(self, span: Span[Any]) -> None:
        self._all("on_span_start", span)

    def on_span_end(self, span: Span[Any]) -> None:
        self._all("on_span_end", span)

    def shutdown(self, timeout: float | None = None) -> None:
        self._all("shutdown")

    def force_flush(self) -> None:
        self._all("force_flush")

    def _all(self, name: str, *shown: Any, of: Iterable[TracingProcessor] | None = None) -> None:
        for processor in self._processors if of is None else of:
            try:
                getattr(processor, name)(*shown)
            except Exception as error:
                logger.error("trace processor %r failed in %s: %s", processor, name, error)


class TraceProvider(ABC):
    """Creates traces and spans; `set_trace_provider` replaces the default provider."""

    @abstractmethod
    def register_processor(self, processor: TracingProcessor) -> None:
        """Add a processor."""

    @abstractmethod
    def set_processors(self, processors: list[TracingProcessor]) -> None:
        """Use only these processors."""

    @abstractmethod
    def get_current_trace(self) -> Trace | None:
        """The open trace."""

    @abstractmethod
    def get_current_span(self) -> Span[Any] | None:
        """The innermost open span."""

    @abstractmethod
    def set_disabled(self, disabled: bool) -> None:
        """Switch tracing off or on."""

    @abstractmethod
    def time_iso(self) -> str:
        """The current time in the format of spans."""

    @abstractmethod
    def gen_trace_id(self) -> str:
        """A new trace id."""

    @abstractmethod
    def gen_span_id(self) -> str:
        """A new span id."""

    @abstractmethod
    def gen_group_id(self) -> str:
        """A new group id."""

    @abstractmethod
    def create_trace(
        self,
        name: str,
        trace_id: str | None = None,
        group_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        disabled: bool = False,
        tracing: TracingConfig | None = None,
    ) -> Trace:
        """Create a trace without starting it."""

    @abstractmethod
    def create_span(
        self,
        span_data: TSpanData,
        span_id: str | None = None,
        parent: Trace | Span[Any] | None = None,
        disabled: bool = False,
    ) -> Span[TSpanData]:
        """Create a span without starting it."""

    @property
    def run_processor(self) -> TracingProcessor:
        """The processor that gets the spans of runs. Your own provider may override this method."""
        return SynchronousMultiTracingProcessor()

    def force_flush(self) -> None:
        """Let all processors send their buffered data."""
        return None

    def shutdown(self) -> None:
        """Shut down all processors."""
        return None


_WHEN_WATCHED: list[Callable[[], None]] = []
"""Called when somebody wants to see traces: spans of runs cost something."""


def when_watched(call: Callable[[], None]) -> None:
    """Call `call` whenever a processor is added."""
    _WHEN_WATCHED.append(call)


def _watched() -> None:
    for call in _WHEN_WATCHED:
        call()


class DefaultTraceProvider(TraceProvider):
    """Shows traces and spans that code makes to the processors."""

    def __init__(self) -> None:
        self._multi_processor = SynchronousMultiTracingProcessor()
        self._manual: bool | None = None

    @property
    def is_disabled(self) -> bool:
        """Whether tracing is off: by `set_disabled`, else by the environment."""
        if self._manual is not None:
            return self._manual
        wanted = os.environ.get("OPENAI_AGENTS_DISABLE_TRACING", "false")
        return wanted.lower() in ("true", "1")

    @property
    def run_processor(self) -> TracingProcessor:
        return self._multi_processor

    def register_processor(self, processor: TracingProcessor) -> None:
        _watched()
        self._multi_processor.add_tracing_processor(processor)

    def set_processors(self, processors: list[TracingProcessor]) -> None:
        if processors:
            _watched()
        self._multi_processor.set_processors(processors)

    def get_current_trace(self) -> Trace | None:
        found: Trace | None = Scope.get_current_trace()
        return found

    def get_current_span(self) -> Span[Any] | None:
        found: Span[Any] | None = Scope.get_current_span()
        return found

    def set_disabled(self, disabled: bool) -> None:
        self._manual = disabled

    def time_iso(self) -> str:
        return now_iso()

    def gen_trace_id(self) -> str:
        return new_trace_id()

    def gen_span_id(self) -> str:
        return new_span_id()

    def gen_group_id(self) -> str:
        return new_group_id()

    def create_trace(
        self,
        name: str,
        trace_id: str | None = None,
        group_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        disabled: bool = False,
        tracing: TracingConfig | None = None,
    ) -> Trace:
        if disabled or self.is_disabled:
            return NoOpTrace()
        key = (tracing or {}).get("api_key")
        return TraceImpl(name, trace_id, group_id, metadata, self._multi_processor, key)

    def create_span(
        self,
        span_data: TSpanData,
        span_id: str | None = None,
        parent: Trace | Span[Any] | None = None,
        disabled: bool = False,
    ) -> Span[TSpanData]:
        if disabled or self.is_disabled:
            return NoOpSpan(span_data)
        above = parent or Scope.get_current_span() or Scope.get_current_trace()
        if above is None:
            logger.error("there is no trace: begin one with `with trace(...)` before a span")
            return NoOpSpan(span_data)
        if above.trace_id == "no-op":
            return NoOpSpan(span_data)
        metadata = above.trace_metadata if isinstance(above, Span) else _metadata(above)
        return SpanImpl(
            trace_id=above.trace_id,
            span_id=span_id,
            parent_id=above.span_id if isinstance(above, Span) else None,
            processor=self._multi_processor,
            span_data=span_data,
            tracing_api_key=above.tracing_api_key,
            trace_metadata=metadata,
        )

    def force_flush(self) -> None:
        self._multi_processor.force_flush()

    def shutdown(self, timeout: float | None = None) -> None:
        self._multi_processor.shutdown()


def _metadata(trace: Trace) -> dict[str, Any] | None:
    found: dict[str, Any] | None = getattr(trace, "metadata", None)
    return found
