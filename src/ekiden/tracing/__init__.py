"""Traces: spans made from the stored events of sessions, and their exports."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.tracing.building.builder import SpanBuilder, spans_of
    from ekiden.tracing.building.parts import CostOf
    from ekiden.tracing.exports import export_jsonl, export_openai, trace_events
    from ekiden.tracing.logs import (
        ContextFilter,
        JsonFormatter,
        TextFormatter,
        log_fields,
        setup_logging,
    )
    from ekiden.tracing.lookup import Node, Trace, read_trace
    from ekiden.tracing.otel.exporter import add_otel_processor, export_otlp
    from ekiden.tracing.otel.follower import FollowPolicy, OtelFollower
    from ekiden.tracing.processors import (
        RunTrace,
        TraceDispatcher,
        TracingProcessor,
        Viewer,
        add_trace_processor,
        flush_traces,
        set_trace_processors,
        set_tracing_disabled,
        trace_processors,
    )
    from ekiden.tracing.redaction import for_export
    from ekiden.tracing.spans import Span, SpanKind, Tokens, TraceContext, parse_traceparent

__all__ = [
    "ContextFilter",
    "CostOf",
    "FollowPolicy",
    "JsonFormatter",
    "Node",
    "OtelFollower",
    "RunTrace",
    "Span",
    "SpanBuilder",
    "SpanKind",
    "TextFormatter",
    "Tokens",
    "Trace",
    "TraceContext",
    "TraceDispatcher",
    "TracingProcessor",
    "Viewer",
    "add_otel_processor",
    "add_trace_processor",
    "export_jsonl",
    "export_openai",
    "export_otlp",
    "flush_traces",
    "for_export",
    "log_fields",
    "parse_traceparent",
    "read_trace",
    "set_trace_processors",
    "set_tracing_disabled",
    "setup_logging",
    "spans_of",
    "trace_events",
    "trace_processors",
]

__getattr__ = lazy_names(
    __name__,
    {
        "ContextFilter": "ekiden.tracing.logs",
        "CostOf": "ekiden.tracing.building.parts",
        "FollowPolicy": "ekiden.tracing.otel.follower",
        "JsonFormatter": "ekiden.tracing.logs",
        "Node": "ekiden.tracing.lookup",
        "OtelFollower": "ekiden.tracing.otel.follower",
        "RunTrace": "ekiden.tracing.processors",
        "Span": "ekiden.tracing.spans",
        "SpanBuilder": "ekiden.tracing.building.builder",
        "SpanKind": "ekiden.tracing.spans",
        "TextFormatter": "ekiden.tracing.logs",
        "Tokens": "ekiden.tracing.spans",
        "Trace": "ekiden.tracing.lookup",
        "TraceContext": "ekiden.tracing.spans",
        "TraceDispatcher": "ekiden.tracing.processors",
        "TracingProcessor": "ekiden.tracing.processors",
        "Viewer": "ekiden.tracing.processors",
        "add_otel_processor": "ekiden.tracing.otel.exporter",
        "add_trace_processor": "ekiden.tracing.processors",
        "export_jsonl": "ekiden.tracing.exports",
        "export_openai": "ekiden.tracing.exports",
        "export_otlp": "ekiden.tracing.otel.exporter",
        "flush_traces": "ekiden.tracing.processors",
        "for_export": "ekiden.tracing.redaction",
        "log_fields": "ekiden.tracing.logs",
        "parse_traceparent": "ekiden.tracing.spans",
        "read_trace": "ekiden.tracing.lookup",
        "set_trace_processors": "ekiden.tracing.processors",
        "set_tracing_disabled": "ekiden.tracing.processors",
        "setup_logging": "ekiden.tracing.logs",
        "spans_of": "ekiden.tracing.building.builder",
        "trace_events": "ekiden.tracing.exports",
        "trace_processors": "ekiden.tracing.processors",
    },
)
