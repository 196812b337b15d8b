"""Builds traces from the stored events of sessions, and exports them."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.tracing.builder import SpanBuilder as SpanBuilder, spans_of as spans_of
    from ekiden.tracing.exports import (
        export_jsonl as export_jsonl,
        export_openai as export_openai,
        for_export as for_export,
        trace_events as trace_events,
    )
    from ekiden.tracing.logs import (
        ContextFilter as ContextFilter,
        JsonFormatter as JsonFormatter,
        TextFormatter as TextFormatter,
        log_fields as log_fields,
        setup_logging as setup_logging,
    )
    from ekiden.tracing.lookup import Node as Node, Trace as Trace, read_trace as read_trace
    from ekiden.tracing.otel_exporter import (
        add_otel_processor as add_otel_processor,
        export_otlp as export_otlp,
    )
    from ekiden.tracing.otel_follower import (
        FollowPolicy as FollowPolicy,
        OtelFollower as OtelFollower,
    )
    from ekiden.tracing.processors import (
        RunTrace as RunTrace,
        TraceDispatcher as TraceDispatcher,
        TracingProcessor as TracingProcessor,
        Viewer as Viewer,
        add_trace_processor as add_trace_processor,
        flush_traces as flush_traces,
        set_trace_processors as set_trace_processors,
        set_tracing_disabled as set_tracing_disabled,
        trace_processors as trace_processors,
    )
    from ekiden.tracing.spans import (
        CostOf as CostOf,
        Span as Span,
        SpanKind as SpanKind,
        Tokens as Tokens,
        TraceContext as TraceContext,
        parse_traceparent as parse_traceparent,
    )

__getattr__ = lazy_names(__name__)
