"""Traces over HTTP."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

SpanKindName = Literal[
    "session",
    "run",
    "agent",
    "llm_call",
    "tool_call",
    "handoff",
    "guardrail",
    "route",
    "tool_confirmation",
    "message",
    "task",
    "inbox",
]
SpanStatusName = Literal["ok", "error", "waiting"]


class SpanModel(BaseModel):
    """A piece of work; what is empty is left out."""

    trace_id: str
    span_id: str
    parent_id: str | None
    kind: SpanKindName
    name: str
    session_id: str
    correlation_id: str
    started_at: float = Field(description="Seconds since 1970.")
    ended_at: float | None = Field(description="`null`: it still goes on, or waits.")
    status: SpanStatusName
    agent_name: str | None = None
    duration_ms: float | None = None
    error: str | None = None
    details: dict[str, Any] | None = Field(default=None, description="Facts that are no content.")
    content: dict[str, Any] | None = Field(default=None, description="What was said.")
    tokens: dict[str, int] | None = None
    cost: float | None = None
    links: list[str] | None = Field(default=None, description="Spans that have to do with it.")
    depth: int | None = Field(default=None, description="How deep it stands in the tree.")
    total_tokens: dict[str, int] | None = Field(
        default=None, description="What it and all below it used."
    )
    total_cost: float | None = None
    unpriced_requests: int | None = None


class TraceModel(BaseModel):
    """A session, and those that answered it, as spans in the order of the tree."""

    trace_id: str
    session_id: str
    status: SpanStatusName
    tokens: dict[str, int]
    cost: float | None
    unpriced_requests: int
    errors: list[str] = Field(description="Ids of the spans that went wrong.")
    waits: list[str] = Field(description="Ids of the spans that wait.")
    spans: list[SpanModel]


class OpenAITrace(BaseModel):
    """A trace as the OpenAI Agents SDK exports it: first the trace, then its spans."""

    data: list[dict[str, Any]]
