"""Traces and spans that code makes: `with trace("…")`, `with custom_span("…")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.compat.agents.tracing import span_data as kinds
from ekiden.compat.agents.tracing.config import TracingConfig
from ekiden.compat.agents.tracing.logger import logger
from ekiden.compat.agents.tracing.setup import get_trace_provider
from ekiden.compat.agents.tracing.spans import Span, TSpanData
from ekiden.compat.agents.tracing.traces import Trace

Parent = Trace | Span[Any] | None


def trace(
    workflow_name: str,
    trace_id: str | None = None,
    group_id: str | None = None,
    metadata: dict[str, Any] | None = None,
    tracing: TracingConfig | None = None,
    disabled: bool = False,
) -> Trace:
    """Create a trace. Runs and spans inside its ``with`` block belong to it."""
    provider = get_trace_provider()
    if provider.get_current_trace() is not None:
        logger.warning("a trace is open already: this one is begun inside it")
    return provider.create_trace(
        name=workflow_name,
        trace_id=trace_id,
        group_id=group_id,
        metadata=metadata,
        disabled=disabled,
        tracing=tracing,
    )


def get_current_trace() -> Trace | None:
    """The open trace."""
    return get_trace_provider().get_current_trace()


def get_current_span() -> Span[Any] | None:
    """The innermost open span."""
    return get_trace_provider().get_current_span()


def _span(data: TSpanData, span_id: str | None, parent: Parent, off: bool) -> Span[TSpanData]:
    return get_trace_provider().create_span(
        span_data=data, span_id=span_id, parent=parent, disabled=off
    )


def agent_span(
    name: str,
    handoffs: list[str] | None = None,
    tools: list[str] | None = None,
    output_type: str | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[kinds.AgentSpanData]:
    """Create a span for an agent."""
    data = kinds.AgentSpanData(name, handoffs, tools, output_type)
    return _span(data, span_id, parent, disabled)


def task_span(
    name: str, span_id: str | None = None, parent: Parent = None, disabled: bool = False
) -> Span[kinds.TaskSpanData]:
    """Create a span for a whole run."""
    return _span(kinds.TaskSpanData(name), span_id, parent, disabled)


def turn_span(
    turn: int,
    agent_name: str,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[kinds.TurnSpanData]:
    """Create a span for one turn of an agent."""
    return _span(kinds.TurnSpanData(turn, agent_name), span_id, parent, disabled)


def function_span(
    name: str,
    input: str | None = None,
    output: str | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[kinds.FunctionSpanData]:
    """Create a span for a tool call."""
    return _span(kinds.FunctionSpanData(name, input, output), span_id, parent, disabled)


def generation_span(
    input: Sequence[Mapping[str, Any]] | None = None,
    output: Sequence[Mapping[str, Any]] | None = None,
    model: str | None = None,
    model_config: Mapping[str, Any] | None = None,
    usage: dict[str, Any] | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[kinds.GenerationSpanData]:
    """Create a span for a model call."""
    data = kinds.GenerationSpanData(input, output, model, model_config, usage)
    return _span(data, span_id, parent, disabled)


def response_span(
    response: Any = None, span_id: str | None = None, parent: Parent = None, disabled: bool = False
) -> Span[kinds.ResponseSpanData]:
    """Create a span for a model call through the Responses API."""
    return _span(kinds.ResponseSpanData(response), span_id, parent, disabled)


def handoff_span(
    from_agent: str | None = None,
    to_agent: str | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[kinds.HandoffSpanData]:
    """Create a span for a handoff."""
    return _span(kinds.HandoffSpanData(from_agent, to_agent), span_id, parent, disabled)


def custom_span(
    name: str,
    data: dict[str, Any] | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[kinds.CustomSpanData]:
    """Create a span with your own data."""
    return _span(kinds.CustomSpanData(name, data or {}), span_id, parent, disabled)


def guardrail_span(
    name: str,
    triggered: bool = False,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[kinds.GuardrailSpanData]:
    """Create a span for a guardrail."""
    return _span(kinds.GuardrailSpanData(name, triggered), span_id, parent, disabled)


def transcription_span(
    model: str | None = None,
    input: str | None = None,
    input_format: str | None = "pcm",
    output: str | None = None,
    model_config: Mapping[str, Any] | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[kinds.TranscriptionSpanData]:
    """Create a span for a transcription."""
    data = kinds.TranscriptionSpanData(input, input_format, output, model, model_config)
    return _span(data, span_id, parent, disabled)


def speech_span(
    model: str | None = None,
    input: str | None = None,
    output: str | None = None,
    output_format: str | None = "pcm",
    model_config: Mapping[str, Any] | None = None,
    first_content_at: str | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[kinds.SpeechSpanData]:
    """Create a span for speech synthesis."""
    data = kinds.SpeechSpanData(input, output, output_format, model, model_config, first_content_at)
    return _span(data, span_id, parent, disabled)


def speech_group_span(
    input: str | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[kinds.SpeechGroupSpanData]:
    """Create a span for several pieces of speech."""
    return _span(kinds.SpeechGroupSpanData(input), span_id, parent, disabled)


def mcp_tools_span(
    server: str | None = None,
    result: list[str] | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[kinds.MCPListToolsSpanData]:
    """Create a span for listing the tools of an MCP server."""
    return _span(kinds.MCPListToolsSpanData(server, result), span_id, parent, disabled)
