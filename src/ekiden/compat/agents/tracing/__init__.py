"""Traces and spans, and who sees them."""

from ekiden.compat.agents.tracing.config import (
    TracingConfig,
)
from ekiden.compat.agents.tracing.context import (
    TraceCtxManager,
)
from ekiden.compat.agents.tracing.create import (
    agent_span,
    custom_span,
    function_span,
    generation_span,
    get_current_span,
    get_current_trace,
    guardrail_span,
    handoff_span,
    mcp_tools_span,
    response_span,
    speech_group_span,
    speech_span,
    task_span,
    trace,
    transcription_span,
    turn_span,
)
from ekiden.compat.agents.tracing.processor_interface import (
    TracingProcessor,
)
from ekiden.compat.agents.tracing.provider import (
    TraceProvider,
)
from ekiden.compat.agents.tracing.runs import (
    add_trace_processor,
    flush_traces,
    set_trace_processors,
    set_tracing_disabled,
    set_tracing_export_api_key,
)
from ekiden.compat.agents.tracing.setup import (
    get_trace_provider,
    set_trace_provider,
)
from ekiden.compat.agents.tracing.span_data import (
    AgentSpanData,
    CustomSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    MCPListToolsSpanData,
    ResponseSpanData,
    SpanData,
    SpeechGroupSpanData,
    SpeechSpanData,
    TaskSpanData,
    TranscriptionSpanData,
    TurnSpanData,
)
from ekiden.compat.agents.tracing.spans import (
    Span,
    SpanError,
)
from ekiden.compat.agents.tracing.traces import (
    Trace,
)
from ekiden.compat.agents.tracing.util import (
    gen_span_id,
    gen_trace_id,
)

__all__ = [
    "AgentSpanData",
    "CustomSpanData",
    "FunctionSpanData",
    "GenerationSpanData",
    "GuardrailSpanData",
    "HandoffSpanData",
    "MCPListToolsSpanData",
    "ResponseSpanData",
    "Span",
    "SpanData",
    "SpanError",
    "SpeechGroupSpanData",
    "SpeechSpanData",
    "TaskSpanData",
    "Trace",
    "TraceCtxManager",
    "TraceProvider",
    "TracingConfig",
    "TracingProcessor",
    "TranscriptionSpanData",
    "TurnSpanData",
    "add_trace_processor",
    "agent_span",
    "custom_span",
    "flush_traces",
    "function_span",
    "gen_span_id",
    "gen_trace_id",
    "generation_span",
    "get_current_span",
    "get_current_trace",
    "get_trace_provider",
    "guardrail_span",
    "handoff_span",
    "mcp_tools_span",
    "response_span",
    "set_trace_processors",
    "set_trace_provider",
    "set_tracing_disabled",
    "set_tracing_export_api_key",
    "speech_group_span",
    "speech_span",
    "task_span",
    "trace",
    "transcription_span",
    "turn_span",
]
