"""Configuration of live sessions, and their errors.

ModelError
├── RealtimeUnavailable       no connection could be made
├── RealtimeDisconnected      the connection broke; the session has ended
└── RealtimeServerError       the provider reports an error; the session continues
UserError
└── RealtimeClosed            something was sent after the session ended
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ekiden.core.checks.fields import Checked, Count, Positive, Seconds, WholeAmount
from ekiden.core.errors import ModelError, UserError
from ekiden.core.guardrails import HandoffGuardrail
from ekiden.core.roles import Approver, Clock
from ekiden.core.runs import RunHooks
from ekiden.core.values import SYSTEM_CLOCK
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
    """Settings for the transcription of the input. `None` means no transcription; then the history
    has no text for what the person said."""
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
    """Settings of a live session; you can use all defaults.

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
    is informed."""
    max_handoffs: WholeAmount = 5
    """The maximum number of handoffs between two messages from the person. Further handoffs are
    refused."""
    returns: Literal["declared", "always"] = "declared"
    """Whether a handoff may return to an agent that had the conversation before; see
    `RunConfig.returns`."""
    handoff_guardrails: Sequence[HandoffGuardrail[Any]] = ()
    """Handoff guardrails for every agent; they run before the guardrails of the agent."""
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
        """These settings as a `RunConfig`, with which the runtime checks and records handoffs."""
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
    """The connection broke; run the session again to continue with the same agent.

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
            "and make a new one with RealtimeRunner.run()"
        )
