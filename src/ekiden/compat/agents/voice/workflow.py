"""What happens between hearing and speaking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any

from ekiden.compat.agents.agent import Agent
from ekiden.compat.agents.result import RunResultStreaming
from ekiden.compat.agents.run import Runner


class VoiceWorkflowBase(ABC):
    """Answers a transcript with text to speak."""

    @abstractmethod
    def run(self, transcription: str) -> AsyncIterator[str]:
        """The text of the answer, piece by piece."""

    async def on_start(self) -> AsyncIterator[str]:
        """The text to speak before the person speaks; only for live speech."""
        if False:
            yield ""


class VoiceWorkflowHelper:
    """Reads the text of agent runs."""

    @classmethod
    async def stream_text_from(cls, result: RunResultStreaming) -> AsyncIterator[str]:
        """Stream the text of a run."""
        async for event in result.stream_events():
            data = getattr(event, "data", None)
            if getattr(data, "type", None) == "response.output_text.delta":
                yield data.delta  # type: ignore[union-attr]


class SingleAgentWorkflowCallbacks:
    """Callbacks of a `SingleAgentVoiceWorkflow`."""

    def on_run(self, workflow: SingleAgentVoiceWorkflow, transcription: str) -> None:
        """Called with the transcript at the start of each turn."""


class SingleAgentVoiceWorkflow(VoiceWorkflowBase):
    """A workflow with one agent that answers and keeps the conversation."""

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
        """The agent's answer. After a handoff, the new agent gets the next turn."""
        if self._callbacks is not None:
            self._callbacks.on_run(self, transcription)
        given = [*self._history, {"role": "user", "content": transcription}]
        result = Runner.run_streamed(self._agent, given, context=self._context)
        async for text in VoiceWorkflowHelper.stream_text_from(result):
            yield text
        self._history, self._agent = result.to_input_list(), result.last_agent
