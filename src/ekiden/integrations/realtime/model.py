"""The role of a realtime model: the messages to one, and one answer at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ekiden.core.conversation.model import Item, ToolSpec
from ekiden.integrations.realtime.config import RealtimeModelSettings, RealtimeServerError
from ekiden.integrations.realtime.items import RealtimeModelEvent, RealtimeModelToolCallEvent

_ALREADY_ACTIVE = "conversation_already_has_active_response"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeSetup:
    """The instructions, tools and prompt of the model: the part of the settings that changes with
    the active agent."""

    instructions: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    """The agent's tools, and its transfer tools."""
    prompt: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSendUserInput:
    """What the person writes."""

    item_id: str
    content: tuple[Item, ...]
    """Parts such as ``{"type": "input_text", "text": …}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSendMessage:
    """A message of earlier, so that the model knows of it."""

    item_id: str
    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSendAudio:
    """What the person says."""

    audio: bytes = field(repr=False)
    commit: bool = False
    """The person is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSendToolOutput:
    """The answer to a call."""

    tool_call: RealtimeModelToolCallEvent
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSendSessionUpdate:
    """Another agent is active, or the same one has other tools now."""

    setup: RealtimeSetup
    clears_prompt: bool = False
    """The agent before had a `prompt` and this one has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelRequestResponse:
    """The model shall answer."""

    event_id: str
    """An error that is about this request names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSendInterrupt:
    """The model shall stop its answer."""

    item_id: str | None = None
    """What was being said."""
    content_index: int = 0
    played_ms: int | None = None
    """So much of it was heard; the model forgets the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSendRawMessage:
    """A message in the provider's own words."""

    message: Mapping[str, Any]


RealtimeModelSendEvent: TypeAlias = (
    RealtimeModelSendUserInput
    | RealtimeModelSendMessage
    | RealtimeModelSendAudio
    | RealtimeModelSendToolOutput
    | RealtimeModelSendSessionUpdate
    | RealtimeModelRequestResponse
    | RealtimeModelSendInterrupt
    | RealtimeModelSendRawMessage
)


class RealtimeConnection(Protocol):
    """A live connection, used by one session."""

    async def send(self, event: RealtimeModelSendEvent) -> None:
        """Send an event to the model. Events arrive in the order of the calls, even if several
        tasks send.

        Raises `RealtimeDisconnected` if the connection is lost.
        """
        ...

    def events(self) -> AsyncIterator[RealtimeModelEvent]:
        """The events of the model, in order. Only one task may read them, and only once.

        The iterator ends when the provider closes the connection properly. It raises
        `RealtimeDisconnected` if the connection breaks. Unreadable data becomes a
        `RealtimeModelErrorEvent` and does not end the iterator.
        """
        ...

    async def close(self) -> None:
        """Close the connection. A second call does nothing. It never raises an exception."""
        ...


@runtime_checkable
class RealtimeModel(Protocol):
    """A model for live conversations; one object serves any number of sessions.

    For example::

        class Recorded(RealtimeModel):
            async def connect(
                self, setup: RealtimeSetup, settings: RealtimeModelSettings
            ) -> RealtimeConnection:
                return Playback(self.events)
    """

    async def connect(
        self, setup: RealtimeSetup, settings: RealtimeModelSettings
    ) -> RealtimeConnection:
        """Connect with `setup`. Raises `RealtimeUnavailable`, and `UserError` if a local
        requirement is missing."""
        ...


class ResponseGate:
    """Passes a request on at once, or when the answer under way is over; several become one."""

    def __init__(self, connection: RealtimeConnection) -> None:
        self._connection = connection
        self._numbers = count(1)
        self._asked: str | None = None
        self._is_wanted = False
        self.is_busy = False
        """Whether an answer is under way, or was asked for and has not begun."""

    async def request(self) -> None:
        """The model shall answer."""
        if self.is_busy:
            self._is_wanted = True
            return
        self.is_busy, self._is_wanted = True, False
        self._asked = f"ask_{next(self._numbers)}"
        await self._connection.send(RealtimeModelRequestResponse(event_id=self._asked))

    def started(self) -> None:
        """An answer began, asked for or not."""
        self.is_busy, self._asked = True, None

    async def ended(self, *, goes_on: bool) -> None:
        """The answer is over; `goes_on` if a request follows anyway, once its calls are made."""
        self.is_busy = False
        if self._is_wanted and not goes_on:
            await self.request()

    def failed(self, error: Exception) -> bool:
        """Look at an error of the model's; gives whether it was one that the gate deals with."""
        if not isinstance(error, RealtimeServerError):
            return False
        if error.server_code == _ALREADY_ACTIVE:
            self.is_busy = self._is_wanted = True
            return True
        if self._asked is not None and error.event_id in (None, self._asked):
            self.is_busy, self._asked = False, None
        return False
