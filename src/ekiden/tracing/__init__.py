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

__getattr__ = lazy_names(
    __name__,
    {
        "ContextFilter": "ekiden.tracing.logs",
        "CostOf": "ekiden.tracing.spans",
        "FollowPolicy": "ekiden.tracing.otel_follower",
        "JsonFormatter": "ekiden.tracing.logs",
        "Node": "ekiden.tracing.lookup",
        "OtelFollower": "ekiden.tracing.otel_follower",
        "RunTrace": "ekiden.tracing.processors",
        "Span": "ekiden.tracing.spans",
        "SpanBuilder": "ekiden.tracing.builder",
        "SpanKind": "ekiden.tracing.spans",
        "TextFormatter": "ekiden.tracing.logs",
        "Tokens": "ekiden.tracing.spans",
        "Trace": "ekiden.tracing.lookup",
        "TraceContext": "ekiden.tracing.spans",
        "TraceDispatcher": "ekiden.tracing.processors",
        "TracingProcessor": "ekiden.tracing.processors",
        "Viewer": "ekiden.tracing.processors",
        "add_otel_processor": "ekiden.tracing.otel_exporter",
        "add_trace_processor": "ekiden.tracing.processors",
        "export_jsonl": "ekiden.tracing.exports",
        "export_openai": "ekiden.tracing.exports",
        "export_otlp": "ekiden.tracing.otel_exporter",
        "flush_traces": "ekiden.tracing.processors",
        "for_export": "ekiden.tracing.exports",
        "log_fields": "ekiden.tracing.logs",
        "parse_traceparent": "ekiden.tracing.spans",
        "read_trace": "ekiden.tracing.lookup",
        "set_trace_processors": "ekiden.tracing.processors",
        "set_tracing_disabled": "ekiden.tracing.processors",
        "setup_logging": "ekiden.tracing.logs",
        "spans_of": "ekiden.tracing.builder",
        "trace_events": "ekiden.tracing.exports",
        "trace_processors": "ekiden.tracing.processors",
    },
)
