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
    """Data that every event has."""

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
    """The result of the tool. If the tool failed: the error text for the model."""
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
    """The audio of this part is complete."""

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
    """A new item was added to the conversation."""

    item: RealtimeItem
    info: RealtimeEventInfo
    type: Literal["history_added"] = "history_added"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeHistoryUpdated:
    """Items of the conversation were changed or removed."""

    history: Sequence[RealtimeItem]
    """The whole current conversation."""
    info: RealtimeEventInfo
    type: Literal["history_updated"] = "history_updated"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeError:
    """An error. If it ends the session, this is the last event, and the iteration then raises the
    error."""

    error: Exception
    info: RealtimeEventInfo
    type: Literal["error"] = "error"

    @property
    def code(self) -> str:
        """The stable code of the error; empty for an exception that is not an `EkidenError`."""
        return str(getattr(self.error, "code", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeRawModelEvent:
    """An unchanged event of the model. The events that the session makes from it follow."""

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
