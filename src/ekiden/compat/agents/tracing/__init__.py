"""Traces and spans, and who sees them."""

from ekiden.compat.agents.not_supported import names_of
from ekiden.compat.agents.tracing.config import TracingConfig as TracingConfig
from ekiden.compat.agents.tracing.context import TraceCtxManager as TraceCtxManager
from ekiden.compat.agents.tracing.create import (
    agent_span as agent_span,
    custom_span as custom_span,
    function_span as function_span,
    generation_span as generation_span,
    get_current_span as get_current_span,
    get_current_trace as get_current_trace,
    guardrail_span as guardrail_span,
    handoff_span as handoff_span,
    mcp_tools_span as mcp_tools_span,
    response_span as response_span,
    speech_group_span as speech_group_span,
    speech_span as speech_span,
    task_span as task_span,
    trace as trace,
    transcription_span as transcription_span,
    turn_span as turn_span,
)
from ekiden.compat.agents.tracing.processor_interface import TracingProcessor as TracingProcessor
from ekiden.compat.agents.tracing.provider import TraceProvider as TraceProvider
from ekiden.compat.agents.tracing.runs import (
    add_trace_processor as add_trace_processor,
    flush_traces as flush_traces,
    set_trace_processors as set_trace_processors,
    set_tracing_disabled as set_tracing_disabled,
    set_tracing_export_api_key as set_tracing_export_api_key,
)
from ekiden.compat.agents.tracing.setup import (
    get_trace_provider as get_trace_provider,
    set_trace_provider as set_trace_provider,
)
from ekiden.compat.agents.tracing.span_data import (
    AgentSpanData as AgentSpanData,
    CustomSpanData as CustomSpanData,
    FunctionSpanData as FunctionSpanData,
    GenerationSpanData as GenerationSpanData,
    GuardrailSpanData as GuardrailSpanData,
    HandoffSpanData as HandoffSpanData,
    MCPListToolsSpanData as MCPListToolsSpanData,
    ResponseSpanData as ResponseSpanData,
    SpanData as SpanData,
    SpeechGroupSpanData as SpeechGroupSpanData,
    SpeechSpanData as SpeechSpanData,
    TaskSpanData as TaskSpanData,
    TranscriptionSpanData as TranscriptionSpanData,
    TurnSpanData as TurnSpanData,
)
from ekiden.compat.agents.tracing.spans import Span as Span, SpanError as SpanError
from ekiden.compat.agents.tracing.traces import Trace as Trace
from ekiden.compat.agents.tracing.util import (
    gen_span_id as gen_span_id,
    gen_trace_id as gen_trace_id,
)

__all__ = names_of(__name__)
