"""How a live session is to be held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ekiden.core.checks.fields import Checked, Count, Positive, Seconds, WholeAmount
from ekiden.core.guardrails import HandoffGuardrail
from ekiden.core.hooks import RunHooks
from ekiden.core.roles import Approver, Clock
from ekiden.core.values.clock import SYSTEM_CLOCK
from ekiden.runtime import Limits, RunConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSettings(Checked):
    """Wishes about how the model listens and speaks; `None` leaves it to the provider.

    For example::

        RealtimeModelSettings(voice="marin", input_audio_transcription={"model": "whisper-1"})
    """

    output_modalities: Sequence[Literal["text", "audio"]] | None = None
    voice: str | Mapping[str, Any] | None = None
    speed: Positive | None = None
    input_audio_format: str | Mapping[str, Any] | None = None
    """``pcm16``, ``g711_ulaw``, ``g711_alaw``, or the provider's own object."""
    output_audio_format: str | Mapping[str, Any] | None = None
    input_audio_transcription: Mapping[str, Any] | None = None
    """Needed if what a person says is to stand in the history as text."""
    input_audio_noise_reduction: Mapping[str, Any] | None = None
    turn_detection: Mapping[str, Any] | Literal["off"] | None = None
    """``off``: the caller says when the person is done, with ``send_audio(…, commit=True)``."""
    tool_choice: str | None = None
    """``auto``, ``required``, ``none`` or the name of a tool."""
    max_output_tokens: Count | Literal["inf"] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Passed to the provider as it is, on top of everything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeRunConfig(Checked):
    """Settings of a live session; everything has a default that works.

    For example::

        config = RealtimeRunConfig(model_settings=RealtimeModelSettings(voice="marin"))
        runner = RealtimeRunner(triage, model=RealtimeWebSocketModel(), config=config)
    """

    model_settings: RealtimeModelSettings = field(default_factory=RealtimeModelSettings)
    hooks: RunHooks[Any] | None = None
    """Called for every agent of the session."""
    tool_timeout_s: Seconds | None = 60.0
    """The longest wait for a tool that has no time-out of its own: a person is waiting."""
    max_calls: Count = 64
    """Calls of one turn that are made; the model is told of those beyond."""
    max_handoffs: WholeAmount = 5
    """Handoffs in a row, without a word of the person between: a further one is refused."""
    returns: Literal["declared", "always"] = "declared"
    """Whether handoffs may lead back to an agent that had the task: as `RunConfig.returns`."""
    handoff_guardrails: Sequence[HandoffGuardrail[Any]] = ()
    """Of every agent of the session, before its own."""
    approver: Approver | Literal["inbox"] | None = None
    """Asked before a handoff with `confirm` is made; ``"inbox"``: the people who look into it,
    while the conversation goes on; `None`: such a handoff is never made."""
    max_waiting_events: Count = 10_000
    """So many events wait for whoever iterates over the session; then nothing more is read from
    the model until some were taken. A provider hangs up on a session that nobody reads."""
    history_items: WholeAmount = 50
    """So many messages of a stored session are told to the model when the session goes on."""
    lease_s: Seconds = 30.0
    """After so long without a sign of life others may take a stored session over."""
    clock: Clock = SYSTEM_CLOCK

    def run_config(self) -> RunConfig:
        """The same for the runtime, which checks and records handoffs."""
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
