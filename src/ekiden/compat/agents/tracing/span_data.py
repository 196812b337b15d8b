"""What kind of work a span was, and the details of each kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class SpanData(ABC):
    """Base class of the data of a span."""

    @property
    @abstractmethod
    def type(self) -> str:
        """The type of the span."""

    @abstractmethod
    def export(self) -> dict[str, Any]:
        """The data as JSON, with the type."""


class _Plain(SpanData):
    """Data whose fields are exported as they are."""

    type = ""
    _exported: ClassVar[tuple[str, ...]] = ()
    """The names of the exported fields."""

    def export(self) -> dict[str, Any]:
        return {"type": self.type, **{name: getattr(self, name) for name in self._exported}}


@dataclass
class AgentSpanData(_Plain):
    """Data of a span for an agent."""

    name: str
    handoffs: list[str] | None = None
    tools: list[str] | None = None
    output_type: str | None = None
    metadata: dict[str, Any] | None = None
    type = "agent"
    _exported = ("name", "handoffs", "tools", "output_type")


def _as_custom(kind: str, data: dict[str, Any], usage: dict[str, Any] | None) -> dict[str, Any]:
    shown = {"sdk_span_type": kind, **data, **({} if usage is None else {"usage": usage})}
    return {"type": "custom", "name": kind, "data": shown}


@dataclass
class TaskSpanData(SpanData):
    """Data of a span for a whole run."""

    name: str
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    type = "task"

    def export(self) -> dict[str, Any]:
        return _as_custom(self.type, {"name": self.name}, self.usage)


@dataclass
class TurnSpanData(SpanData):
    """Data of a span for one turn of an agent."""

    turn: int
    agent_name: str
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    type = "turn"

    def export(self) -> dict[str, Any]:
        data = {"turn": self.turn, "agent_name": self.agent_name}
        return _as_custom(self.type, data, self.usage)


@dataclass
class FunctionSpanData(_Plain):
    """Data of a span for a tool call."""

    name: str
    input: str | None = None
    output: Any = None
    mcp_data: dict[str, Any] | None = None
    type = "function"
    _exported = ("name", "input", "mcp_data")

    def export(self) -> dict[str, Any]:
        return {**super().export(), "output": None if self.output is None else str(self.output)}


@dataclass
class GenerationSpanData(_Plain):
    """Data of a span for a model call."""

    input: Sequence[Mapping[str, Any]] | None = None
    output: Sequence[Mapping[str, Any]] | None = None
    model: str | None = None
    model_config: Mapping[str, Any] | None = None
    usage: dict[str, Any] | None = None
    type = "generation"
    _exported = ("input", "output", "model", "model_config", "usage")


@dataclass
class ResponseSpanData(SpanData):
    """Data of a span for a model call through the Responses API."""

    response: Any = None
    input: Any = None
    usage: dict[str, Any] | None = None
    type = "response"

    def export(self) -> dict[str, Any]:
        found = None if self.response is None else self.response.id
        return {"type": self.type, "response_id": found, "usage": self.usage}


@dataclass
class HandoffSpanData(_Plain):
    """Data of a span for a handoff, completed or not."""

    from_agent: str | None = None
    to_agent: str | None = None
    type = "handoff"
    _exported = ("from_agent", "to_agent")


@dataclass
class CustomSpanData(_Plain):
    """Data of a custom span."""

    name: str
    data: dict[str, Any]
    type = "custom"
    _exported = ("name", "data")


@dataclass
class GuardrailSpanData(_Plain):
    """Data of a span for a guardrail."""

    name: str
    triggered: bool = False
    type = "guardrail"
    _exported = ("name", "triggered")


@dataclass
class TranscriptionSpanData(_Plain):
    """Data of a span for a transcription."""

    input: str | None = None
    input_format: str | None = "pcm"
    output: str | None = None
    model: str | None = None
    model_config: Mapping[str, Any] | None = None
    type = "transcription"
    _exported = ("output", "model", "model_config")

    def export(self) -> dict[str, Any]:
        heard = {"data": self.input or "", "format": self.input_format}
        return {**super().export(), "input": heard}


@dataclass
class SpeechSpanData(_Plain):
    """Data of a span for speech synthesis."""

    input: str | None = None
    output: str | None = None
    output_format: str | None = "pcm"
    model: str | None = None
    model_config: Mapping[str, Any] | None = None
    first_content_at: str | None = None
    type = "speech"
    _exported = ("input", "model", "model_config", "first_content_at")

    def export(self) -> dict[str, Any]:
        spoken = {"data": self.output or "", "format": self.output_format}
        return {**super().export(), "output": spoken}


@dataclass
class SpeechGroupSpanData(_Plain):
    """Data of a span for several pieces of speech."""

    input: str | None = None
    type = "speech_group"
    _exported = ("input",)


@dataclass
class MCPListToolsSpanData(_Plain):
    """Data of a span for listing the tools of an MCP server."""

    server: str | None = None
    result: list[str] | None = None
    type = "mcp_tools"
    _exported = ("server", "result")
