"""The events of a live session, as its iterator returns them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ekiden.core.context import RunContextWrapper
from ekiden.core.tools.tool import Tool
from ekiden.integrations.realtime.agent import RealtimeAgent
from ekiden.integrations.realtime.items import (
    RealtimeItem,
    RealtimeModelAudioEvent,
    RealtimeModelEvent,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeEventInfo:
    """What every event has."""

    context: RunContextWrapper[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeAgentStartEvent:
    """The active agent begins an answer."""

    agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["agent_start"] = "agent_start"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeAgentEndEvent:
    """The agent's answer is over, or was interrupted."""

    agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["agent_end"] = "agent_end"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeHandoffEvent:
    """Another agent has the conversation now."""

    from_agent: RealtimeAgent[Any]
    to_agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["handoff"] = "handoff"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeToolStart:
    """A tool is about to run."""

    agent: RealtimeAgent[Any]
    tool: Tool
    arguments: str
    info: RealtimeEventInfo
    type: Literal["tool_start"] = "tool_start"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeToolEnd:
    """A tool returned, or failed."""

    agent: RealtimeAgent[Any]
    tool: Tool
    arguments: str
    output: Any
    """What it returned; what the model is told, if it failed."""
    info: RealtimeEventInfo
    type: Literal["tool_end"] = "tool_end"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeAudio:
    """Audio to be played."""

    audio: RealtimeModelAudioEvent
    item_id: str
    content_index: int
    info: RealtimeEventInfo
    type: Literal["audio"] = "audio"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeAudioEnd:
    """No more audio comes for this part."""

    item_id: str
    content_index: int
    info: RealtimeEventInfo
    type: Literal["audio_end"] = "audio_end"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeAudioInterrupted:
    """Stop playing: the person speaks, or the answer was stopped."""

    item_id: str
    content_index: int
    info: RealtimeEventInfo
    type: Literal["audio_interrupted"] = "audio_interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeHistoryAdded:
    """There is a new item in the conversation."""

    item: RealtimeItem
    info: RealtimeEventInfo
    type: Literal["history_added"] = "history_added"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeHistoryUpdated:
    """Items of the conversation changed, or are gone."""

    history: Sequence[RealtimeItem]
    """All of it as it is now."""
    info: RealtimeEventInfo
    type: Literal["history_updated"] = "history_updated"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeError:
    """Something went wrong. If it ends the session, it is the last event and is then raised."""

    error: Exception
    info: RealtimeEventInfo
    type: Literal["error"] = "error"

    @property
    def code(self) -> str:
        """The error's stable code; empty for an exception that is none of ours."""
        return str(getattr(self.error, "code", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeRawModelEvent:
    """What the model's side told, as it was told; the session's own events come after it."""

    data: RealtimeModelEvent
    info: RealtimeEventInfo
    type: Literal["raw_model_event"] = "raw_model_event"


RealtimeSessionEvent: TypeAlias = (
    RealtimeAgentStartEvent
    | RealtimeAgentEndEvent
    | RealtimeHandoffEvent
    | RealtimeToolStart
    | RealtimeToolEnd
    | RealtimeAudio
    | RealtimeAudioEnd
    | RealtimeAudioInterrupted
    | RealtimeHistoryAdded
    | RealtimeHistoryUpdated
    | RealtimeError
    | RealtimeRawModelEvent
)
