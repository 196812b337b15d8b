"""Spans: pieces of work in a trace."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextvars import Token
from typing import Any, Generic, TypeVar

from typing_extensions import TypedDict

from ekiden.compat.agents.tracing.scope import Scope, new_span_id
from ekiden.compat.agents.tracing.span_data import SpanData
from ekiden.tracing.exports import iso_time

TSpanData = TypeVar("TSpanData", bound=SpanData)


class SpanError(TypedDict):
    """An error in a span."""

    message: str
    data: dict[str, Any] | None


def now_iso() -> str:
    """The time as spans have it."""
    return iso_time(time.time_ns() // 1000)


class Span(ABC, Generic[TSpanData]):
    """A unit of work in a trace. Use it in a ``with`` statement, or call `start` and `finish`."""

    @property
    @abstractmethod
    def trace_id(self) -> str:
        """The id of the trace."""

    @property
    @abstractmethod
    def span_id(self) -> str:
        """The id of the span."""

    @property
    @abstractmethod
    def span_data(self) -> TSpanData:
        """The data of the span, by its type."""

    @property
    @abstractmethod
    def parent_id(self) -> str | None:
        """The id of the parent span."""

    @abstractmethod
    def start(self, mark_as_current: bool = False) -> None:
        """Start the span."""

    @abstractmethod
    def finish(self, reset_current: bool = False) -> None:
        """End the span."""

    @abstractmethod
    def set_error(self, error: SpanError) -> None:
        """Set the error of the span."""

    @property
    @abstractmethod
    def error(self) -> SpanError | None:
        """The error of the span."""

    @abstractmethod
    def export(self) -> dict[str, Any] | None:
        """The span as JSON; `None` if the span is not recorded."""

    @property
    @abstractmethod
    def started_at(self) -> str | None:
        """The start time in ISO 8601."""

    @property
    @abstractmethod
    def ended_at(self) -> str | None:
        """The end time in ISO 8601; `None` while the span is open."""

    @property
    def tracing_api_key(self) -> str | None:
        """The key for sending the span to OpenAI."""
        return None

    @property
    def trace_metadata(self) -> dict[str, Any] | None:
        """The metadata of the trace."""
        return None

    def __enter__(self) -> Span[TSpanData]:
        self.start(mark_as_current=True)
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        try:
            self.finish(reset_current=True)
        except ValueError:
            # A generator that is given up closes in another task, whose current span is another.
            if kind is not GeneratorExit:
                raise


class _PlainSpan(Span[TSpanData]):
    """A span with plain attributes, which can be the current span."""

    trace_id: str = "no-op"
    span_id: str = "no-op"
    span_data: Any = None
    parent_id: str | None = None
    error: SpanError | None = None
    started_at: str | None = None
    ended_at: str | None = None
    _before: Token[Any] | None = None

    def start(self, mark_as_current: bool = False) -> None:
        if mark_as_current:
            self._before = Scope.set_current_span(self)

    def finish(self, reset_current: bool = False) -> None:
        if reset_current and self._before is not None:
            Scope.reset_current_span(self._before)
            self._before = None


class SpanImpl(_PlainSpan[TSpanData]):
    """A span that processors see."""

    tracing_api_key: str | None = None
    trace_metadata: dict[str, Any] | None = None

    def __init__(
        self,
        trace_id: str,
        span_id: str | None,
        parent_id: str | None,
        processor: Any,
        span_data: TSpanData,
        tracing_api_key: str | None,
        trace_metadata: dict[str, Any] | None = None,
    ) -> None:
        self.trace_id = trace_id
        self.span_id = span_id or new_span_id()
        self.parent_id = parent_id
        self.span_data = span_data
        self.tracing_api_key = tracing_api_key
        self.trace_metadata = trace_metadata
        self._processor = processor

    def start(self, mark_as_current: bool = False) -> None:
        if self.started_at is None:
            self.started_at = now_iso()
            self._processor.on_span_start(self)
            super().start(mark_as_current)

    def finish(self, reset_current: bool = False) -> None:
        if self.ended_at is None:
            self.ended_at = now_iso()
            self._processor.on_span_end(self)
            super().finish(reset_current)

    def set_error(self, error: SpanError) -> None:
        self.error = error

    def export(self) -> dict[str, Any] | None:
        data = {
            "object": "trace.span",
            "id": self.span_id,
            "trace_id": self.trace_id,
            "parent_id": self.parent_id,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "span_data": self.span_data.export(),
            "error": self.error,
        }
        metadata = getattr(self.span_data, "metadata", None)
        return data if metadata is None else {**data, "metadata": metadata}


class NoOpSpan(_PlainSpan[TSpanData]):
    """A span that is not recorded, because tracing is off."""

    def __init__(self, span_data: TSpanData) -> None:
        self.span_data = span_data

    def set_error(self, error: SpanError) -> None:
        pass

    def export(self) -> dict[str, Any] | None:
        return None
