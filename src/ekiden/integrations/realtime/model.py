"""The roles of a realtime model and its connection, and the events that a session sends."""

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
    """A text message from the person."""

    item_id: str
    content: tuple[Item, ...]
    """Parts such as ``{"type": "input_text", "text": …}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSendMessage:
    """A message of the earlier conversation."""

    item_id: str
    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSendAudio:
    """Audio from the person."""

    audio: bytes = field(repr=False)
    commit: bool = False
    """Whether the person's turn has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSendToolOutput:
    """The output of a tool call."""

    tool_call: RealtimeModelToolCallEvent
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSendSessionUpdate:
    """The new setup, after a change of the active agent or its tools."""

    setup: RealtimeSetup
    clears_prompt: bool = False
    """Whether the last setup had a `prompt` and this one has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelRequestResponse:
    """A request for an answer."""

    event_id: str
    """The id by which errors refer to this request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSendInterrupt:
    """Stops the current answer."""

    item_id: str | None = None
    """The item that was being played."""
    content_index: int = 0
    played_ms: int | None = None
    """How much of the item the person heard; the model forgets the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSendRawMessage:
    """A message in the provider's own format."""

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
        """Connect to the model, and send `setup`. Raises `RealtimeUnavailable` if the connection
        fails, and `UserError` if a requirement on this machine is missing, such as a key."""
        ...


class ResponseGate:
    """Requests answers one at a time, because providers refuse a request during an answer.

    A request during an answer is sent when the answer has ended; several become one.
    """

    def __init__(self, connection: RealtimeConnection) -> None:
        self._connection = connection
        self._numbers = count(1)
        self._request_id: str | None = None
        """The id of the sent request, until its answer begins."""
        self._is_wanted = False
        """Whether another answer is to be requested after the current one."""
        self.is_busy = False
        """Whether there is a current or requested answer."""

    async def request(self) -> None:
        """Request an answer, now or after the current one."""
        if self.is_busy:
            self._is_wanted = True
            return
        self.is_busy, self._is_wanted = True, False
        self._request_id = f"ask_{next(self._numbers)}"
        await self._connection.send(RealtimeModelRequestResponse(event_id=self._request_id))

    def started(self) -> None:
        """An answer began, requested or not."""
        self.is_busy, self._request_id = True, None

    async def ended(self, *, continues: bool) -> None:
        """The answer has ended. With `continues` another request follows, after its calls."""
        self.is_busy = False
        if self._is_wanted and not continues:
            await self.request()

    def failed(self, error: Exception) -> bool:
        """Process an error of the model; returns whether it needs no report."""
        if not isinstance(error, RealtimeServerError):
            return False
        if error.server_code == _ALREADY_ACTIVE:
            # The provider began an answer by itself, just before the request arrived.
            self.is_busy = self._is_wanted = True
            return True
        if self._request_id is not None and error.event_id in (None, self._request_id):
            self.is_busy, self._request_id = False, None
        return False
