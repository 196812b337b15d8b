"""The roles of tracing in this SDK. Ekiden records events instead and calls no processor yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

TSpanData = TypeVar("TSpanData")


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
