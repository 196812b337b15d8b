"""The role of those who are shown traces and spans of this process while they happen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ekiden.tracing.exports import openai_trace
from ekiden.tracing.spans import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTrace:
    """A trace with a run in this process."""

    trace_id: str
    session_id: str
    """The session whose run it begins with here; others of the trace may join it."""
    name: str
    """The agent that has that run."""
    group_id: str
    """What the session says that it belongs to; by default its own id."""
    parent_id: str | None = None
    """The span that the session is below: of whoever asked it, or, with a `traceparent`, of another
    program."""

    def export(self) -> dict[str, Any]:
        """In the shape of the OpenAI Agents SDK."""
        return openai_trace(self.trace_id, self.name, group_id=self.group_id)


class TracingProcessor:
    """Receives traces and spans as they happen.

    It is called in the task of the run, after the data was stored, and so must be fast: use a queue
    for slow work. Its exceptions are logged once and do not affect runs. A span that started in a
    process that died is shown only when it ends, with the same id. Every method does nothing unless
    it is overridden. For example::

        class Durations(TracingProcessor):
            def on_span_end(self, span: Span) -> None:
                print(span.kind, span.name, span.duration_us)

        add_trace_processor(Durations())
    """

    def on_trace_start(self, trace: RunTrace) -> None:
        """This process starts to work on a trace: its first run here."""

    def on_trace_end(self, trace: RunTrace) -> None:
        """No run of the trace is active here any more: all ended, or wait."""

    def on_span_start(self, span: Span) -> None:
        """A span started."""

    def on_span_end(self, span: Span) -> None:
        """A span ended; if it started and ended within one step, both calls follow each other."""

    def shutdown(self) -> None:
        """The process ends."""

    def force_flush(self) -> None:
        """Send buffered data."""
