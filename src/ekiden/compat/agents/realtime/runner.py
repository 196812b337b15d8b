"""Starting live sessions."""

from __future__ import annotations

from typing import Any

from ekiden.compat.agents.realtime.agent import RealtimeAgent
from ekiden.compat.agents.realtime.config import RealtimeRunConfig
from ekiden.compat.agents.realtime.model import RealtimeModel, RealtimeModelConfig
from ekiden.compat.agents.realtime.openai_realtime import OpenAIRealtimeWebSocketModel
from ekiden.compat.agents.realtime.session import RealtimeSession


class RealtimeRunner:
    """Creates live sessions that start with `starting_agent`; the default model is from OpenAI."""

    def __init__(
        self,
        starting_agent: RealtimeAgent[Any],
        *,
        model: RealtimeModel | None = None,
        config: RealtimeRunConfig | None = None,
    ) -> None:
        self._agent = starting_agent
        self._config = config
        self._model = OpenAIRealtimeWebSocketModel() if model is None else model

    async def run(
        self, *, context: Any = None, model_config: RealtimeModelConfig | None = None
    ) -> RealtimeSession:
        """Create a session. It connects at the start of ``async with``."""
        return RealtimeSession(
            model=self._model,
            agent=self._agent,
            context=context,
            model_config=model_config,
            run_config=self._config,
        )
