"""OpenTelemetry for a program that has no server and no worker: spans leave as they end.

What is sent goes through the SDK's own batches, in a thread, which ``OTEL_BSP_…`` set up: a
collector that is away for long loses spans, and so does a process that is killed. `OtelFollower`
loses none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ekiden.tracing.ids import session_span_id
from ekiden.tracing.otel.export import need_otel, traces_endpoint
from ekiden.tracing.otel.exporter import OtelSpans, captures_content, is_disabled
from ekiden.tracing.processors import RunTrace, TracingProcessor
from ekiden.tracing.registry import add_trace_processor
from ekiden.tracing.spans import Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

_MOST_SESSIONS: Final = 10_000


class OtelProcessor(TracingProcessor):
    """Sends the spans of this process to a collector; see `add_otel_processor`."""

    def __init__(self, endpoint: str | None = None, *, content: bool | None = None) -> None:
        """As `export_otlp`; `UserError` without the extra ``otel``."""
        need_otel()
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._maker = OtelSpans(content=content)
        self._tops: dict[str, str | None] = {}
        """What sessions are below that others asked, by the ids of their spans."""
        self._batches: SpanProcessor | None = None
        if not is_disabled():
            exporter = OTLPSpanExporter(endpoint=traces_endpoint(endpoint))
            self._batches = BatchSpanProcessor(exporter)

    def on_trace_start(self, trace: RunTrace) -> None:
        """Learn what the session is below."""
        self._learn(trace.session_id, trace.parent_id)

    def on_span_start(self, span: Span) -> None:
        """Learn what is below a question."""
        for name in ("asks", "tells"):
            told = span.details.get(name)
            session = told.get("session") if isinstance(told, Mapping) else None
            if isinstance(session, str):
                self._learn(session, span.span_id)

    def on_span_end(self, span: Span) -> None:
        """Put it into the next batch."""
        if self._batches is not None:
            for each in self._maker.readable([span], tops=self._tops):
                self._batches.on_end(each)

    def shutdown(self) -> None:
        """Send what is left."""
        if self._batches is not None:
            self._batches.shutdown()

    def force_flush(self) -> None:
        """Send what there is; it blocks."""
        if self._batches is not None:
            self._batches.force_flush()

    def _learn(self, session_id: str, above: str | None) -> None:
        top = session_span_id(session_id)
        self._tops.pop(top, None)
        if len(self._tops) >= _MOST_SESSIONS:
            del self._tops[next(iter(self._tops))]
        self._tops[top] = above


def add_otel_processor(
    endpoint: str | None = None, *, content: bool | None = None
) -> OtelProcessor:
    """Send the spans of every run of this process to a collector, from its next step on.

    The target and the content are as for `export_otlp`::

        add_otel_processor("http://127.0.0.1:4318")
    """
    wanted = captures_content() if content is None else content
    processor = OtelProcessor(endpoint, content=wanted)
    add_trace_processor(processor, include_content=wanted)
    return processor
