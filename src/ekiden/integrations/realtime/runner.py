"""Starting live sessions."""

from __future__ import annotations

from typing import Any

from ekiden.core.errors import UserError
from ekiden.integrations.realtime.agent import RealtimeAgent
from ekiden.integrations.realtime.config import RealtimeRunConfig
from ekiden.integrations.realtime.model import RealtimeModel
from ekiden.integrations.realtime.session import RealtimeSession
from ekiden.integrations.realtime.websocket import RealtimeWebSocketModel
from ekiden.sessions import Session


class RealtimeRunner:
    """Creates live sessions that start with `starting_agent`; one runner serves any number.

    For example::

        runner = RealtimeRunner(triage, model=RealtimeWebSocketModel("gpt-realtime"))
        async with await runner.run(context=Shop("north")) as session:
            async for event in session:
                ...
    """

    def __init__(
        self,
        starting_agent: RealtimeAgent[Any],
        *,
        model: RealtimeModel | None = None,
        config: RealtimeRunConfig | None = None,
    ) -> None:
        """Without a model it is OpenAI's; `UserError` for what is no agent, model or config."""
        if not isinstance(starting_agent, RealtimeAgent):
            raise UserError(
                f"a realtime session begins with a RealtimeAgent, not {starting_agent!r:.80} "
                f"({type(starting_agent).__name__})"
            )
        if model is not None and not isinstance(model, RealtimeModel):
            raise UserError(
                f"model must be a RealtimeModel, such as RealtimeWebSocketModel(…), not "
                f"{model!r:.80} ({type(model).__name__})"
            )
        if config is not None and not isinstance(config, RealtimeRunConfig):
            raise UserError(f"config must be RealtimeRunConfig(…), not {type(config).__name__}")
        self.starting_agent = starting_agent
        self.model = RealtimeWebSocketModel() if model is None else model
        self.config = RealtimeRunConfig() if config is None else config

    async def run(self, *, context: Any = None, session: Session | None = None) -> RealtimeSession:
        """A live session, for ``async with``; it is not connected yet.

        With a stored `session` every handoff, message and tool call is recorded in it, and an
        earlier conversation continues with its agent. While it is live no other process can write
        to it.
        """
        if session is not None and not isinstance(session, Session):
            raise UserError(f"session must be Session(id, store=…), not {type(session).__name__}")
        return RealtimeSession(
            self.model, self.starting_agent, context, config=self.config, session=session
        )
