"""What kind of work a span was, and the details of each kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "AgentSpanData",
    "CustomSpanData",
    "FunctionSpanData",
    "GenerationSpanData",
    "GuardrailSpanData",
    "HandoffSpanData",
    "MCPListToolsSpanData",
    "ResponseSpanData",
    "SpanData",
    "SpeechGroupSpanData",
    "SpeechSpanData",
    "TaskSpanData",
    "TranscriptionSpanData",
    "TurnSpanData",
]


class SpanData(ABC):
    """The details of a span."""

    @property
    @abstractmethod
    def type(self) -> str:
        """The kind of work."""

    @abstractmethod
    def export(self) -> dict[str, Any]:
        """As JSON, with its type."""

    def _fields(self, *names: str) -> dict[str, Any]:
        return {"type": self.type, **{name: getattr(self, name) for name in names}}


@dataclass
class AgentSpanData(SpanData):
    """An agent had the conversation."""

    name: str
    handoffs: list[str] | None = None
    tools: list[str] | None = None
    output_type: str | None = None
    metadata: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        return "agent"

    def export(self) -> dict[str, Any]:
        return self._fields("name", "handoffs", "tools", "output_type")


def _as_custom(kind: str, data: dict[str, Any], usage: dict[str, Any] | None) -> dict[str, Any]:
    shown = {"sdk_span_type": kind, **data, **({} if usage is None else {"usage": usage})}
    return {"type": "custom", "name": kind, "data": shown}


@dataclass
class TaskSpanData(SpanData):
    """A whole run."""

    name: str
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        return "task"

    def export(self) -> dict[str, Any]:
        return _as_custom(self.type, {"name": self.name}, self.usage)


@dataclass
class TurnSpanData(SpanData):
    """One turn of an agent."""

    turn: int
    agent_name: str
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        return "turn"

    def export(self) -> dict[str, Any]:
        data = {"turn": self.turn, "agent_name": self.agent_name}
        return _as_custom(self.type, data, self.usage)


@dataclass
class FunctionSpanData(SpanData):
    """A tool was called."""

    name: str
    input: str | None = None
    output: Any = None
    mcp_data: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        return "function"

    def export(self) -> dict[str, Any]:
        output = None if self.output is None else str(self.output)
        return {**self._fields("name", "input"), "output": output, "mcp_data": self.mcp_data}


@dataclass
class GenerationSpanData(SpanData):
    """A model was asked."""

    input: Sequence[Mapping[str, Any]] | None = None
    output: Sequence[Mapping[str, Any]] | None = None
    model: str | None = None
    model_config: Mapping[str, Any] | None = None
    usage: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        return "generation"

    def export(self) -> dict[str, Any]:
        return self._fields("input", "output", "model", "model_config", "usage")


@dataclass
class ResponseSpanData(SpanData):
    """A model was asked through the Responses API."""

    response: Any = None
    input: Any = None
    usage: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        return "response"

    def export(self) -> dict[str, Any]:
        found = None if self.response is None else self.response.id
        return {"type": self.type, "response_id": found, "usage": self.usage}


@dataclass
class HandoffSpanData(SpanData):
    """The conversation was handed over, or was to be."""

    from_agent: str | None = None
    to_agent: str | None = None

    @property
    def type(self) -> str:
        return "handoff"

    def export(self) -> dict[str, Any]:
        return self._fields("from_agent", "to_agent")


@dataclass
class CustomSpanData(SpanData):
    """Anything else."""

    name: str
    data: dict[str, Any]

    @property
    def type(self) -> str:
        return "custom"

    def export(self) -> dict[str, Any]:
        return self._fields("name", "data")


@dataclass
class GuardrailSpanData(SpanData):
    """A guardrail looked at something."""

    name: str
    triggered: bool = False

    @property
    def type(self) -> str:
        return "guardrail"

    def export(self) -> dict[str, Any]:
        return self._fields("name", "triggered")


@dataclass
class TranscriptionSpanData(SpanData):
    """Speech became text."""

    input: str | None = None
    input_format: str | None = "pcm"
    output: str | None = None
    model: str | None = None
    model_config: Mapping[str, Any] | None = None

    @property
    def type(self) -> str:
        return "transcription"

    def export(self) -> dict[str, Any]:
        heard = {"data": self.input or "", "format": self.input_format}
        return {**self._fields("output", "model", "model_config"), "input": heard}


@dataclass
class SpeechSpanData(SpanData):
    """Text became speech."""

    input: str | None = None
    output: str | None = None
    output_format: str | None = "pcm"
    model: str | None = None
    model_config: Mapping[str, Any] | None = None
    first_content_at: str | None = None

    @property
    def type(self) -> str:
        return "speech"

    def export(self) -> dict[str, Any]:
        spoken = {"data": self.output or "", "format": self.output_format}
        own = self._fields("input", "model", "model_config", "first_content_at")
        return {**own, "output": spoken}


@dataclass
class SpeechGroupSpanData(SpanData):
    """Several pieces of speech."""

    input: str | None = None

    @property
    def type(self) -> str:
        return "speech_group"

    def export(self) -> dict[str, Any]:
        return self._fields("input")


@dataclass
class MCPListToolsSpanData(SpanData):
    """An MCP server was asked for its tools."""

    server: str | None = None
    result: list[str] | None = None

    @property
    def type(self) -> str:
        return "mcp_tools"

    def export(self) -> dict[str, Any]:
        return self._fields("server", "result")
