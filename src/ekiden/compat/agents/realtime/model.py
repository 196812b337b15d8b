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

__all__ = [
    "RealtimeModel",
    "RealtimeModelConfig",
    "RealtimeModelListener",
    "RealtimePlaybackState",
    "RealtimePlaybackTracker",
]


class RealtimePlaybackState(TypedDict):
    """What is being played, and how much of it was heard."""

    current_item_id: str | None
    current_item_content_index: int | None
    elapsed_ms: float | None


class RealtimePlaybackTracker:
    """Tells the model how much audio was heard: call `on_play_bytes` or `on_play_ms` as you play.

    Without one the model assumes that audio is played at once.
    """

    def __init__(self) -> None:
        self._format: RealtimeAudioFormat | None = None
        self._playing: tuple[str, int] | None = None
        self._heard_ms: float | None = None

    def on_play_bytes(self, item_id: str, item_content_index: int, bytes: bytes) -> None:
        """So much audio was played."""
        self.on_play_ms(item_id, item_content_index, audio_ms(self._format, bytes))

    def on_play_ms(self, item_id: str, item_content_index: int, ms: float) -> None:
        """So many milliseconds were played."""
        is_same = self._playing == (item_id, item_content_index)
        self._playing = (item_id, item_content_index)
        self._heard_ms = ms + (self._heard_ms or 0.0 if is_same else 0.0)

    def on_interrupted(self) -> None:
        """Nothing is played any more."""
        self._playing = self._heard_ms = None

    def set_audio_format(self, format: RealtimeAudioFormat) -> None:
        """The format of what is played."""
        self._format = format

    def get_state(self) -> RealtimePlaybackState:
        """What is being played now."""
        item_id, index = (None, None) if self._playing is None else self._playing
        return {
            "current_item_id": item_id,
            "current_item_content_index": index,
            "elapsed_ms": self._heard_ms,
        }


class RealtimeModelListener(ABC):
    """Is told what a model reports."""

    @abstractmethod
    async def on_event(self, event: RealtimeModelEvent) -> None:
        """The model reports something."""


class RealtimeModelConfig(TypedDict):
    """How to connect to a model."""

    api_key: NotRequired[str | Callable[[], Any]]
    url: NotRequired[str]
    headers: NotRequired[dict[str, str]]
    """Instead of the header with the key."""
    initial_model_settings: NotRequired[RealtimeSessionModelSettings]
    playback_tracker: NotRequired[RealtimePlaybackTracker]
    call_id: NotRequired[str]
    """A call that exists already, such as one over SIP."""


class RealtimeModel(ABC):
    """A model for live conversations; a session is its listener."""

    @abstractmethod
    async def connect(self, options: RealtimeModelConfig) -> None:
        """Connect with these settings."""

    @abstractmethod
    def add_listener(self, listener: RealtimeModelListener) -> None:
        """Report to this listener."""

    @abstractmethod
    def remove_listener(self, listener: RealtimeModelListener) -> None:
        """Report no more to this listener."""

    @abstractmethod
    async def send_event(self, event: RealtimeModelSendEvent) -> None:
        """Tell the model something."""

    async def send_event_if(
        self, event: RealtimeModelSendEvent, send_if: Callable[[], bool]
    ) -> bool:
        """Tell the model something if `send_if` holds when it is sent; gives whether it was.

        A model that cannot check this at the moment of sending sends nothing.
        """
        return False

    @abstractmethod
    async def close(self) -> None:
        """Hang up."""
