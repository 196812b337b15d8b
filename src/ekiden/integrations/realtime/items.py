"""Items of a live conversation, and the events with which a model reports them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ekiden.core.conversation.model import Item, Usage, assistant_message, user_message

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeItem:
    """A message, a tool call, or the output of a call. When an item changes, a new object replaces
    it.

    Audio is not kept: `text` is the written text, or the transcript of the speech.
    """

    item_id: str
    type: Literal["message", "function_call", "function_call_output"]
    role: Literal["user", "assistant", "system"] | None = None
    """The role of a message."""
    text: str = ""
    status: ItemStatus = "completed"
    """`incomplete` means that the item was interrupted."""
    is_audio: bool = False
    call_id: str | None = None
    name: str | None = None
    """The name of the called tool."""
    arguments: str | None = None
    output: str | None = None
    previous_item_id: str | None = None

    @property
    def is_final(self) -> bool:
        """Whether the text of the item is complete."""
        return self.status != "in_progress" and bool(self.text)


def read_item(data: Mapping[str, Any], previous_item_id: str | None = None) -> RealtimeItem | None:
    """Convert an item in the provider's format. Returns `None` for other kinds of items.

    Raises `KeyError`, `TypeError` or `ValueError` for an invalid item.
    """
    kind = data["type"]
    if kind not in ("message", "function_call", "function_call_output"):
        return None
    status = data.get("status") or "completed"
    if status not in ("in_progress", "completed", "incomplete"):
        raise ValueError(f"an item cannot be {status!r:.40}")
    common: dict[str, Any] = {
        "item_id": as_text(data["id"]),
        "type": kind,
        "status": status,
        "previous_item_id": previous_item_id,
    }
    if kind == "message":
        role = data["role"]
        if role not in ("user", "assistant", "system"):
            raise ValueError(f"a message cannot have the role {role!r:.40}")
        text, is_audio = _content(data.get("content") or ())
        return RealtimeItem(**common, role=role, text=text, is_audio=is_audio)
    call_id = as_text(data["call_id"])
    if kind == "function_call":
        return RealtimeItem(
            **common,
            call_id=call_id,
            name=as_text(data["name"]),
            arguments=as_text(data.get("arguments") or ""),
        )
    return RealtimeItem(**common, call_id=call_id, output=as_text(data.get("output") or ""))


def stored_item(item: RealtimeItem) -> Item:
    """Convert the message to the format of stored sessions."""
    if item.role == "assistant":
        return assistant_message(item.text)
    return {**user_message(item.text), "role": item.role}


def _content(parts: Any) -> tuple[str, bool]:
    """The text or transcript of all parts, and whether one of them is audio."""
    texts, is_audio = [], False
    for part in parts:
        is_audio = is_audio or "audio" in part["type"]
        texts.append(as_text(part.get("text") or part.get("transcript") or ""))
    return "".join(texts), is_audio


def as_text(value: Any) -> str:
    """The value. Raises `TypeError` unless it is a string."""
    if not isinstance(value, str):
        raise TypeError(f"text was expected, not {type(value).__name__}")
    return value


class History:
    """The items of a live conversation. The provider names the predecessor of each item."""

    def __init__(self) -> None:
        self._items: dict[str, RealtimeItem] = {}
        self._order: list[str] = []

    def all(self) -> Sequence[RealtimeItem]:
        """All items, oldest first."""
        return tuple(self._items[item_id] for item_id in self._order)

    def put(self, item: RealtimeItem) -> tuple[RealtimeItem, bool, bool]:
        """Add or update an item. Returns the item, whether it is new, and whether it changed.

        An update without text keeps the known text, and a completed item stays completed. The
        reason is that the provider may send the same item several times, sometimes incomplete.
        """
        known = self._items.get(item.item_id)
        if known is None:
            self._items[item.item_id] = item
            self._insert(item)
            return item, True, True
        kept = replace(
            item,
            text=item.text or known.text,
            status=known.status if item.status == "in_progress" else item.status,
            is_audio=item.is_audio or known.is_audio,
            previous_item_id=known.previous_item_id or item.previous_item_id,
        )
        self._items[item.item_id] = kept
        return kept, False, kept != known

    def set_text(self, item_id: str, text: str) -> tuple[RealtimeItem, bool]:
        """Set the transcript of the person's speech. Returns the item, and whether it is new."""
        known = self._items.get(item_id)
        if known is None:
            known = RealtimeItem(item_id=item_id, type="message", role="user", is_audio=True)
            item, is_new, _ = self.put(replace(known, text=text))
            return item, is_new
        item = self._items[item_id] = replace(known, text=text, status="completed")
        return item, False

    def remove(self, item_id: str) -> bool:
        """Remove an item, and return whether it existed."""
        if self._items.pop(item_id, None) is None:
            return False
        self._order.remove(item_id)
        return True

    def last_said(self) -> str:
        """The text of the last message of an agent; empty if there is no such message."""
        items = (self._items[item_id] for item_id in reversed(self._order))
        return next((item.text for item in items if item.role == "assistant"), "")

    def _insert(self, item: RealtimeItem) -> None:
        before = item.previous_item_id
        if before is None or before not in self._items or self._order[-1:] == [before]:
            self._order.append(item.item_id)
        else:
            self._order.insert(self._order.index(before) + 1, item.item_id)


TurnStatus: TypeAlias = Literal["completed", "cancelled", "failed", "incomplete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelTurnStartedEvent:
    """The model begins an answer."""

    response_id: str
    type: Literal["turn_started"] = "turn_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelToolCallEvent:
    """The model calls a tool or requests a handoff. The call is answered after the turn."""

    name: str
    call_id: str
    arguments: str
    """The arguments as JSON, which may be invalid."""
    response_id: str
    item_id: str | None = None
    type: Literal["function_call"] = "function_call"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelTurnEndedEvent:
    """The model's answer has ended. Only the calls of a `completed` answer are executed."""

    response_id: str
    status: TurnStatus = "completed"
    usage: Usage = field(default_factory=Usage)
    type: Literal["turn_ended"] = "turn_ended"


# The events without slots are also events of the compatibility layer. Its users read the `type`
# of a class, which slots would hide.
@dataclass(frozen=True)
class RealtimeModelAudioEvent:
    """A piece of the model's speech."""

    data: bytes = field(repr=False)
    response_id: str
    item_id: str
    content_index: int
    type: Literal["audio"] = "audio"


@dataclass(frozen=True)
class RealtimeModelAudioDoneEvent:
    """The audio of this part is complete."""

    item_id: str
    content_index: int
    type: Literal["audio_done"] = "audio_done"


@dataclass(frozen=True)
class RealtimeModelAudioInterruptedEvent:
    """The audio of this part must no longer be played."""

    item_id: str
    content_index: int
    type: Literal["audio_interrupted"] = "audio_interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSpeechStartedEvent:
    """The person begins to speak."""

    type: Literal["speech_started"] = "speech_started"


@dataclass(frozen=True)
class RealtimeModelTranscriptDeltaEvent:
    """A piece of the transcript of the model's speech."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["transcript_delta"] = "transcript_delta"


@dataclass(frozen=True)
class RealtimeModelOutputTextDeltaEvent:
    """A piece of the model's text."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["output_text_delta"] = "output_text_delta"


@dataclass(frozen=True)
class RealtimeModelInputAudioTranscriptionCompletedEvent:
    """The transcript of the person's speech."""

    item_id: str
    transcript: str
    type: Literal["input_audio_transcription_completed"] = "input_audio_transcription_completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelItemUpdatedEvent:
    """An item was added to the conversation or changed."""

    item: RealtimeItem
    type: Literal["item_updated"] = "item_updated"


@dataclass(frozen=True)
class RealtimeModelItemDeletedEvent:
    """An item was removed from the conversation."""

    item_id: str
    type: Literal["item_deleted"] = "item_deleted"


@dataclass(frozen=True)
class RealtimeModelErrorEvent:
    """An error that does not end the connection."""

    error: Exception
    type: Literal["error"] = "error"


@dataclass(frozen=True)
class RealtimeModelOtherEvent:
    """An event that the session ignores."""

    data: Any
    type: Literal["other"] = "other"


RealtimeModelEvent: TypeAlias = (
    RealtimeModelTurnStartedEvent
    | RealtimeModelToolCallEvent
    | RealtimeModelTurnEndedEvent
    | RealtimeModelAudioEvent
    | RealtimeModelAudioDoneEvent
    | RealtimeModelAudioInterruptedEvent
    | RealtimeModelSpeechStartedEvent
    | RealtimeModelTranscriptDeltaEvent
    | RealtimeModelOutputTextDeltaEvent
    | RealtimeModelInputAudioTranscriptionCompletedEvent
    | RealtimeModelItemUpdatedEvent
    | RealtimeModelItemDeletedEvent
    | RealtimeModelErrorEvent
    | RealtimeModelOtherEvent
)
