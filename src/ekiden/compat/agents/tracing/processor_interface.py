"""The roles of those who see traces and spans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ekiden.compat.agents.tracing.spans import Span
from ekiden.compat.agents.tracing.traces import Trace


class TracingProcessor(ABC):
    """Receives traces and spans as they happen."""

    @abstractmethod
    def on_trace_start(self, trace: Trace) -> None:
        """A trace started."""

    @abstractmethod
    def on_trace_end(self, trace: Trace) -> None:
        """A trace ended."""

    @abstractmethod
    def on_span_start(self, span: Span[Any]) -> None:
        """A span started."""

    @abstractmethod
    def on_span_end(self, span: Span[Any]) -> None:
        """A span ended."""

    @abstractmethod
    def shutdown(self) -> None:
        """Release resources; no more traces follow."""

    @abstractmethod
    def force_flush(self) -> None:
        """Send buffered data."""


class TracingExporter(ABC):
    """Passes traces and spans on to another system."""

    @abstractmethod
    def export(self, items: list[Trace | Span[Any]]) -> None:
        """Pass these on."""
