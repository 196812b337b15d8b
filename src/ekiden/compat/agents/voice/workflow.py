"""What happens between hearing and speaking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any

from ekiden.compat.agents.agent import Agent
from ekiden.compat.agents.result import RunResultStreaming
from ekiden.compat.agents.run import Runner

__all__ = [
    "SingleAgentVoiceWorkflow",
    "SingleAgentWorkflowCallbacks",
    "VoiceWorkflowBase",
    "VoiceWorkflowHelper",
]


class VoiceWorkflowBase(ABC):
    """Answers what was said with text to speak."""

    @abstractmethod
    def run(self, transcription: str) -> AsyncIterator[str]:
        """The answer, piece by piece."""

    async def on_start(self) -> AsyncIterator[str]:
        """What to say before anybody spoke; with live speech only."""
        if False:
            yield ""


class VoiceWorkflowHelper:
    """Reads text out of runs."""

    @classmethod
    async def stream_text_from(cls, result: RunResultStreaming) -> AsyncIterator[str]:
        """The text of a run as it comes."""
        async for event in result.stream_events():
            data = getattr(event, "data", None)
            if getattr(data, "type", None) == "response.output_text.delta":
                yield data.delta  # type: ignore[union-attr]


class SingleAgentWorkflowCallbacks:
    """Is told what a `SingleAgentVoiceWorkflow` does."""

    def on_run(self, workflow: SingleAgentVoiceWorkflow, transcription: str) -> None:
        """Somebody said something."""


class SingleAgentVoiceWorkflow(VoiceWorkflowBase):
    """One agent that answers, and remembers the conversation."""

    def __init__(
        self,
        agent: Agent[Any],
        callbacks: SingleAgentWorkflowCallbacks | None = None,
        *,
        context: Any = None,
    ) -> None:
        self._agent, self._callbacks, self._context = agent, callbacks, context
        self._history: list[Any] = []

    async def run(self, transcription: str) -> AsyncIterator[str]:
        """The agent's answer; the agent that gave it answers next time."""
        if self._callbacks is not None:
            self._callbacks.on_run(self, transcription)
        given = [*self._history, {"role": "user", "content": transcription}]
        result = Runner.run_streamed(self._agent, given, context=self._context)
        async for text in VoiceWorkflowHelper.stream_text_from(result):
            yield text
        self._history, self._agent = result.to_input_list(), result.last_agent
