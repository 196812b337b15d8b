"""The role of a realtime model, as the SDK defines it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NotRequired

from typing_extensions import TypedDict

from ekiden.compat.agents.realtime.audio_formats import audio_ms
from ekiden.compat.agents.realtime.config import RealtimeAudioFormat, RealtimeSessionModelSettings
from ekiden.compat.agents.realtime.model_events import RealtimeModelEvent
from ekiden.compat.agents.realtime.model_inputs import RealtimeModelSendEvent


class RealtimePlaybackState(TypedDict):
    """The item that is being played, and the part that the person heard."""

    current_item_id: str | None
    current_item_content_index: int | None
    elapsed_ms: float | None


class RealtimePlaybackTracker:
    """Tells the model how much audio was heard: call `on_play_bytes` or `on_play_ms` as you play.

    Without a tracker the model assumes that audio is played at once.
    """

    def __init__(self) -> None:
        self._format: RealtimeAudioFormat | None = None
        self._playing: tuple[str, int] | None = None
        self._heard_ms: float | None = None

    def on_play_bytes(self, item_id: str, item_content_index: int, bytes: bytes) -> None:
        """Report that this audio was played."""
        self.on_play_ms(item_id, item_content_index, audio_ms(self._format, bytes))

    def on_play_ms(self, item_id: str, item_content_index: int, ms: float) -> None:
        """Report that this many milliseconds were played."""
        is_same = self._playing == (item_id, item_content_index)
        self._playing = (item_id, item_content_index)
        self._heard_ms = ms + (self._heard_ms or 0.0 if is_same else 0.0)

    def on_interrupted(self) -> None:
        """Report that playback has stopped."""
        self._playing = self._heard_ms = None

    def set_audio_format(self, format: RealtimeAudioFormat) -> None:
        """Set the format of the played audio."""
        self._format = format

    def get_state(self) -> RealtimePlaybackState:
        """The current state of the playback."""
        item_id, index = (None, None) if self._playing is None else self._playing
        return {
            "current_item_id": item_id,
            "current_item_content_index": index,
            "elapsed_ms": self._heard_ms,
        }


class RealtimeModelListener(ABC):
    """Receives the events of a model."""

    @abstractmethod
    async def on_event(self, event: RealtimeModelEvent) -> None:
        """Handle an event of the model."""


class RealtimeModelConfig(TypedDict):
    """Options for the connection to a model."""

    api_key: NotRequired[str | Callable[[], Any]]
    url: NotRequired[str]
    headers: NotRequired[dict[str, str]]
    """Headers to send instead of the header with the key."""
    initial_model_settings: NotRequired[RealtimeSessionModelSettings]
    playback_tracker: NotRequired[RealtimePlaybackTracker]
    call_id: NotRequired[str]
    """The id of an existing call, such as a SIP call."""


class RealtimeModel(ABC):
    """A model for live conversations; sessions listen to it."""

    @abstractmethod
    async def connect(self, options: RealtimeModelConfig) -> None:
        """Connect with these settings."""

    @abstractmethod
    def add_listener(self, listener: RealtimeModelListener) -> None:
        """Send events of the model to this listener."""

    @abstractmethod
    def remove_listener(self, listener: RealtimeModelListener) -> None:
        """Stop sending events to this listener."""

    @abstractmethod
    async def send_event(self, event: RealtimeModelSendEvent) -> None:
        """Send an event to the model."""

    async def send_event_if(
        self, event: RealtimeModelSendEvent, send_if: Callable[[], bool]
    ) -> bool:
        """Send an event to the model if `send_if` returns true at the time of sending. Returns
        whether the event was sent.

        A model that cannot make this check sends nothing.
        """
        return False

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""
