"""Models and workflows of voice that do what a test wrote down."""

from __future__ import annotations

import copy
import dataclasses
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ekiden.compat.agents.voice.imports import np
from ekiden.compat.agents.voice.input import AudioInput, StreamedAudioInput
from ekiden.compat.agents.voice.model import (
    StreamedTranscriptionSession,
    STTModel,
    STTModelSettings,
    TTSModel,
    TTSModelSettings,
)
from ekiden.compat.agents.voice.workflow import VoiceWorkflowBase


class VoiceScriptError(Exception):
    """A script and what happened do not fit."""


class UnexpectedVoiceCall(VoiceScriptError):
    """A script had no more steps."""

    def __init__(self, message: str, *, operation: str) -> None:
        super().__init__(message)
        self.operation = operation


class UnconsumedVoiceSteps(VoiceScriptError):
    """Steps of a script were left."""

    def __init__(self, message: str, *, remaining_steps: int) -> None:
        super().__init__(message)
        self.remaining_steps = remaining_steps


@dataclass(frozen=True)
class STTCall:
    """A recording that was to be transcribed."""

    input: AudioInput
    settings: STTModelSettings
    trace_include_sensitive_data: bool
    trace_include_sensitive_audio_data: bool


@dataclass(frozen=True)
class STTSessionCall:
    """Live speech that was to be transcribed."""

    input: StreamedAudioInput
    settings: STTModelSettings
    trace_include_sensitive_data: bool
    trace_include_sensitive_audio_data: bool


@dataclass(frozen=True)
class TTSCall:
    """Text that was to be spoken."""

    text: str
    settings: TTSModelSettings


@dataclass(frozen=True)
class TTSResult:
    """Speech, in pieces."""

    chunks: Sequence[bytes] = field(default_factory=tuple)


def pcm16_samples(samples: Iterable[int]) -> bytes:
    """Samples as 16-bit PCM."""
    return bytes(np.array(list(samples), dtype="<i2").tobytes())


def _copy(call: Any) -> Any:
    """A record that later changes do not touch; live input stays what it is."""
    changes: dict[str, Any] = {"settings": copy.deepcopy(call.settings)}
    if isinstance(call, STTCall):
        changes["input"] = dataclasses.replace(call.input, buffer=call.input.buffer.copy())
    return dataclasses.replace(call, **changes)


def _steps(given: Any) -> deque[Any]:
    return deque([given] if isinstance(given, str) else given)


def _frozen(step: Any) -> Any:
    """A step as it is now; text is one piece."""
    if isinstance(step, Exception | StreamedTranscriptionSession):
        return step
    return (step,) if isinstance(step, str) else tuple(step)


def _take(steps: deque[Any], operation: str, what: str) -> Any:
    if not steps:
        raise UnexpectedVoiceCall(
            f"Unexpected {operation} call: no scripted {what} remain", operation=operation
        )
    step = steps.popleft()
    if isinstance(step, Exception):
        raise step
    return step


def _check(remaining: int, what: str) -> None:
    if remaining:
        raise UnconsumedVoiceSteps(
            f"{remaining} scripted {what}(s) left", remaining_steps=remaining
        )


class ScriptedTranscriptionSession(StreamedTranscriptionSession):
    """Says what was written down, until it is closed."""

    def __init__(
        self,
        turns: str | Iterable[str | Exception] = (),
        *,
        close_error: Exception | None = None,
    ) -> None:
        self._turns = _steps(turns)
        self._close_error = close_error
        self.close_calls = 0

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self.close_calls > 0

    async def transcribe_turns(self) -> AsyncIterator[str]:
        """The turns."""
        while self._turns and not self.closed:
            yield _take(self._turns, "transcription_turn", "turns")

    async def close(self) -> None:
        """End it; the first time, the error that was written down is raised."""
        self.close_calls += 1
        if self._close_error is not None and self.close_calls == 1:
            raise self._close_error

    def assert_complete(self) -> None:
        """Raise if turns are left."""
        _check(len(self._turns), "transcription turn")


class ScriptedSTTModel(STTModel):
    """Hears what was written down."""

    def __init__(
        self,
        transcriptions: str | Iterable[str | Exception] = (),
        *,
        sessions: str | Iterable[Any] = (),
        model_name: str = "scripted-stt",
    ) -> None:
        self._texts = _steps(transcriptions)
        self._sessions = deque(_frozen(each) for each in _steps(sessions))
        self._name = model_name
        self._calls: list[STTCall] = []
        self._session_calls: list[STTSessionCall] = []
        self._created: list[ScriptedTranscriptionSession] = []

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self._name

    @property
    def calls(self) -> tuple[STTCall, ...]:
        """The recordings it was given."""
        return tuple(_copy(each) for each in self._calls)

    @property
    def session_calls(self) -> tuple[STTSessionCall, ...]:
        """The sessions it was asked for."""
        return tuple(_copy(each) for each in self._session_calls)

    @property
    def created_sessions(self) -> tuple[ScriptedTranscriptionSession, ...]:
        """The sessions it gave."""
        return tuple(self._created)

    async def transcribe(
        self,
        input: AudioInput,
        settings: STTModelSettings,
        trace_include_sensitive_data: bool,
        trace_include_sensitive_audio_data: bool,
    ) -> str:
        """The next text."""
        sensitive = (trace_include_sensitive_data, trace_include_sensitive_audio_data)
        self._calls.append(_copy(STTCall(input, settings, *sensitive)))
        return str(_take(self._texts, "static_transcription", "transcriptions"))

    async def create_session(
        self,
        input: StreamedAudioInput,
        settings: STTModelSettings,
        trace_include_sensitive_data: bool,
        trace_include_sensitive_audio_data: bool,
    ) -> StreamedTranscriptionSession:
        """The next session."""
        sensitive = (trace_include_sensitive_data, trace_include_sensitive_audio_data)
        self._session_calls.append(_copy(STTSessionCall(input, settings, *sensitive)))
        step = _take(self._sessions, "streamed_session", "sessions")
        is_one = isinstance(step, ScriptedTranscriptionSession)
        session = step if is_one else ScriptedTranscriptionSession(step)
        self._created.append(session)
        return session

    def assert_complete(self) -> None:
        """Raise if texts, sessions, or turns of sessions are left."""
        _check(len(self._texts) + len(self._sessions), "STT step")
        for session in self._created:
            session.assert_complete()


class ScriptedTTSModel(TTSModel):
    """Speaks what was written down."""

    def __init__(self, results: Iterable[Any] = (), *, model_name: str = "scripted-tts") -> None:
        self._results = deque(
            _frozen(each.chunks if isinstance(each, TTSResult) else each) for each in results
        )
        self._name = model_name
        self._calls: list[TTSCall] = []

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self._name

    @property
    def calls(self) -> tuple[TTSCall, ...]:
        """The texts it was given."""
        return tuple(_copy(each) for each in self._calls)

    async def run(self, text: str, settings: TTSModelSettings) -> AsyncIterator[bytes]:
        """The next speech."""
        self._calls.append(_copy(TTSCall(text, settings)))
        for chunk in _take(self._results, "tts", "results"):
            yield chunk

    def assert_complete(self) -> None:
        """Raise if speech is left."""
        _check(len(self._results), "TTS result")


class ScriptedVoiceWorkflow(VoiceWorkflowBase):
    """Answers what was written down."""

    def __init__(
        self,
        turns: str | Iterable[Any] = (),
        *,
        start: str | Sequence[str] | Exception | None = None,
    ) -> None:
        self._turns = deque(_frozen(each) for each in _steps(turns))
        self._start = None if start is None else deque([_frozen(start)])
        self._heard: list[str] = []

    @property
    def transcriptions(self) -> tuple[str, ...]:
        """What it was told."""
        return tuple(self._heard)

    async def on_start(self) -> AsyncIterator[str]:
        """What to say first; once, if it was written down."""
        if self._start is not None:
            if not self._start:
                raise UnexpectedVoiceCall(
                    "Unexpected workflow_start call: no scripted startup step remains",
                    operation="workflow_start",
                )
            for text in _take(self._start, "workflow_start", "startup steps"):
                yield text

    async def run(self, transcription: str) -> AsyncIterator[str]:
        """The next answer."""
        self._heard.append(transcription)
        for text in _take(self._turns, "workflow_turn", "turns"):
            yield text

    def assert_complete(self) -> None:
        """Raise if answers are left."""
        starts = len(self._start or ())
        what = "workflow step" if starts and self._turns else "workflow startup step"
        _check(starts + len(self._turns), what if starts else "workflow turn")
