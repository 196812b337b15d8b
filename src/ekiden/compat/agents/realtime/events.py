"""Events of live sessions, with the SDK's fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ekiden.compat.agents.guardrail import OutputGuardrailResult
from ekiden.integrations.realtime import (
    RealtimeAgentEndEvent as RealtimeAgentEndEvent,
    RealtimeAgentStartEvent as RealtimeAgentStartEvent,
    RealtimeAudio as RealtimeAudio,
    RealtimeAudioEnd as RealtimeAudioEnd,
    RealtimeAudioInterrupted as RealtimeAudioInterrupted,
    RealtimeError as RealtimeError,
    RealtimeEventInfo as RealtimeEventInfo,
    RealtimeHandoffEvent as RealtimeHandoffEvent,
    RealtimeHistoryAdded as RealtimeHistoryAdded,
    RealtimeHistoryUpdated as RealtimeHistoryUpdated,
    RealtimeRawModelEvent as RealtimeRawModelEvent,
    RealtimeSessionEvent as NativeEvent,
    RealtimeToolEnd as RealtimeToolEnd,
    RealtimeToolStart as RealtimeToolStart,
)


@dataclass
class RealtimeToolApprovalRequired:
    """A tool call waits for `approve_tool_call` or `reject_tool_call` of the session."""

    agent: Any
    tool: Any
    call_id: str
    arguments: str
    info: RealtimeEventInfo
    type: Literal["tool_approval_required"] = "tool_approval_required"


@dataclass
class RealtimeGuardrailTripped:
    """A guardrail stopped the answer."""

    guardrail_results: list[OutputGuardrailResult]
    message: str
    """The answer up to that point."""
    info: RealtimeEventInfo
    type: Literal["guardrail_tripped"] = "guardrail_tripped"


@dataclass
class RealtimeInputAudioTimeoutTriggered:
    """The person said nothing for a while."""

    info: RealtimeEventInfo
    type: Literal["input_audio_timeout_triggered"] = "input_audio_timeout_triggered"


RealtimeSessionEvent: TypeAlias = (
    NativeEvent
    | RealtimeToolApprovalRequired
    | RealtimeGuardrailTripped
    | RealtimeInputAudioTimeoutTriggered
)
