"""The interfaces of a realtime model and of its connection, their configuration, events and errors.

ModelError
├── RealtimeUnavailable       the connection could not be opened
├── RealtimeDisconnected      the connection was lost, and the session has ended
└── RealtimeServerError       the provider reported an error; the session continues
UserError
└── RealtimeClosed            the session is not open, or has ended
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from ekiden.core.checks.fields import Checked, Count, Positive, Seconds, WholeAmount
from ekiden.core.conversation.model import Item, ToolSpec
from ekiden.core.errors import ModelError, UserError
from ekiden.core.guardrails import HandoffGuardrail
from ekiden.core.roles import Approver, Clock
from ekiden.core.runs import RunHooks
from ekiden.core.values import SYSTEM_CLOCK
from ekiden.integrations.realtime.items import RealtimeModelEvent, RealtimeModelToolCallEvent
from ekiden.runtime import Limits, RunConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSettings(Checked):
    """Settings for audio input and output of the model. A value of `None` means the default of the
    provider.

    For example::

        RealtimeModelSettings(voice="marin", input_audio_transcription={"model": "whisper-1"})
    """

    output_modalities: Sequence[Literal["text", "audio"]] | None = None
    voice: str | Mapping[str, Any] | None = None
    speed: Positive | None = None
    input_audio_format: str | Mapping[str, Any] | None = None
    """The audio format of the input: ``pcm16``, ``g711_ulaw``, ``g711_alaw``, or an object in the
    provider's own format."""
    output_audio_format: str | Mapping[str, Any] | None = None
    input_audio_transcription: Mapping[str, Any] | None = None
    """Settings for the transcription of the input. `None` means no transcription. Then the history
    has no text for the person's speech."""
    input_audio_noise_reduction: Mapping[str, Any] | None = None
    turn_detection: Mapping[str, Any] | Literal["off"] | None = None
    """How the end of the person's speech is detected. With ``off``, the caller signals the end with
    ``send_audio(…, commit=True)``."""
    tool_choice: str | None = None
    """``auto``, ``required``, ``none`` or the name of a tool."""
    max_output_tokens: Count | Literal["inf"] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Additional settings. They are passed to the provider unchanged, and override the other
    settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeRunConfig(Checked):
    """Settings of a live session. All settings have defaults.

    For example::

        config = RealtimeRunConfig(model_settings=RealtimeModelSettings(voice="marin"))
        runner = RealtimeRunner(triage, model=RealtimeWebSocketModel(), config=config)
    """

    model_settings: RealtimeModelSettings = field(default_factory=RealtimeModelSettings)
    hooks: RunHooks[Any] | None = None
    """Callbacks for every agent of the session."""
    tool_timeout_s: Seconds | None = 60.0
    """The timeout, in seconds, of tools that have no timeout of their own. It is short, because a
    person is waiting."""
    max_calls: Count = 64
    """The maximum number of tool calls in one turn. Further calls are not executed, and the model
    gets an error text for them."""
    max_handoffs: WholeAmount = 5
    """The maximum number of handoffs between two messages from the person. Further handoffs are
    refused."""
    returns: Literal["declared", "always"] = "declared"
    """Whether a handoff may return to an agent that had the conversation before.
    `RunConfig.returns` describes the values."""
    handoff_guardrails: Sequence[HandoffGuardrail[Any]] = ()
    """Handoff guardrails for every agent. They run before the guardrails of the agent itself."""
    approver: Approver | Literal["inbox"] | None = None
    """The `Approver` that is asked before a handoff with `confirm`. With ``"inbox"``, people answer
    in the inbox, and the conversation continues in the meantime. With `None`, every handoff with
    `confirm` is refused."""
    max_waiting_events: Count = 10_000
    """The maximum number of events that the caller has not read yet. At this limit, Ekiden stops
    reading from the model until the caller catches up. The provider closes the connection if this
    takes too long."""
    history_items: WholeAmount = 50
    """When a stored session continues, the model gets at most this many of its last messages."""
    lease_s: Seconds = 30.0
    """After this many seconds without a heartbeat, other processes may take over a stored
    session."""
    clock: Clock = SYSTEM_CLOCK

    def run_config(self) -> RunConfig:
        """Convert these settings to a `RunConfig`, with which the runtime checks and records
        handoffs."""
        return RunConfig(
            limits=Limits(depth=self.max_handoffs),
            returns=self.returns,
            handoff_guardrails=self.handoff_guardrails,
            approver=self.approver,
            tool_timeout_s=self.tool_timeout_s,
            on_busy="refuse",
            lease_s=self.lease_s,
            clock=self.clock,
        )


class RealtimeUnavailable(ModelError):
    """The connection to the realtime model failed."""

    code = "realtime.unavailable"


class RealtimeDisconnected(ModelError):
    """The connection was lost. Run the session again to continue with the same agent.

    A stored session keeps everything that was recorded before.
    """

    code = "realtime.disconnected"

    def __init__(self, message: str, *, close_code: int | None = None) -> None:
        super().__init__(message)
        self.close_code = close_code
        """The close code of the WebSocket; `None` if the connection was not closed properly."""


class RealtimeServerError(ModelError):
    """The provider reported an error. The session continues."""

    code = "realtime.server_error"

    def __init__(
        self, message: str, *, server_code: str | None = None, event_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.server_code = server_code
        """The provider's own error code."""
        self.event_id = event_id
        """The id of the sent event that caused the error, if the provider names it."""


class RealtimeClosed(UserError):
    """The realtime session is not open, or it has ended."""

    code = "realtime.closed"

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"{problem}: use a realtime session inside its `async with` block, "
            "and create a new one with RealtimeRunner.run()"
        )


_ALREADY_ACTIVE = "conversation_already_has_active_response"
_ALREADY_OVER = "response_cancel_not_active"
"""The error for an answer that ended just before it was interrupted."""


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
    """The parts of the message, such as ``{"type": "input_text", "text": …}``."""


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
    """Whether the previous setup had a `prompt` and this setup has none."""


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
    """How much of the item the person heard, in milliseconds. The model forgets the rest."""


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
        """Close the connection. A second call does nothing. This method never raises an
        exception."""
        ...


@runtime_checkable
class RealtimeModel(Protocol):
    """A model for live conversations. One object can serve any number of sessions.

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

    A request during an answer is sent when the answer has ended. Several such requests become one
    request.
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
        """Request an answer. If an answer is in progress, the request is sent after it."""
        if self.is_busy:
            self._is_wanted = True
            return
        self.is_busy, self._is_wanted = True, False
        self._request_id = f"ask_{next(self._numbers)}"
        await self._connection.send(RealtimeModelRequestResponse(event_id=self._request_id))

    def started(self) -> None:
        """Note that an answer began, whether it was requested or not."""
        self.is_busy, self._request_id = True, None

    async def ended(self, *, continues: bool) -> None:
        """Note that the answer has ended. With `continues`, another request follows after the calls
        of the answer."""
        self.is_busy = False
        if self._is_wanted and not continues:
            await self.request()

    def failed(self, error: Exception) -> bool:
        """Process an error of the model. Returns whether the error is handled and needs no
        report."""
        if not isinstance(error, RealtimeServerError):
            return False
        if error.server_code == _ALREADY_ACTIVE:
            # The provider began an answer by itself, just before the request arrived.
            self.is_busy = self._is_wanted = True
            return True
        if error.server_code == _ALREADY_OVER:
            return True  # It does not concern a request that was sent in the meantime.
        if self._request_id is not None and error.event_id in (None, self._request_id):
            self.is_busy, self._request_id = False, None
        return False
