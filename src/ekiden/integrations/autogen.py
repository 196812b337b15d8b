"""Runs agents and teams of AutoGen. A turn is one run, after which the result of `save_state` is
stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from autogen_agentchat.base import TaskResult
from autogen_agentchat.messages import (
    HandoffMessage,
    ModelClientStreamingChunkEvent,
    TextMessage,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from autogen_core import CancellationToken

from ekiden.core.conversation.model import Usage
from ekiden.core.integrations.foreign_agents import (
    Durability,
    ForeignTurn,
    TurnAnswer,
    TurnDelta,
    TurnHandoff,
    TurnPart,
    TurnQuestion,
    TurnToolCall,
    TurnToolResult,
    TurnUsage,
)
from ekiden.tools import to_jsonable


def adapter(agent: Any) -> AutoGenAgent:
    """The adapter of an agent or of a team."""
    return AutoGenAgent(agent)


class AutoGenAgent:
    """An agent or a team of AutoGen as a member of a team.

    A `HandoffMessage` hands the conversation to the member with this name. If there is no such
    member, a person is asked: the content of the message is the question, and the answer is the
    next task. AutoGen's objects have one state, so an object takes one turn at a time. For
    example::

        foreign_agent(AutoGenAgent(assistant), "billing", handoffs=[support])
    """

    framework = "autogen"
    durability: Durability = "turn"

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._lock = asyncio.Lock()

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """See `ForeignAdapter.take_turn`."""
        async with self._lock:
            await self._load(turn)
            task: Any = [
                TextMessage(content=each["content"], source=each["role"])
                for each in turn.messages()
            ]
            if turn.resumes:
                asked = turn.checkpoint["asked"]
                [answer] = turn.answers.values()
                task = HandoffMessage(
                    source=asked["target"], target=asked["source"], content=answer.words
                )
            token, result = CancellationToken(), None
            try:
                async for event in self._agent.run_stream(task=task, cancellation_token=token):
                    if isinstance(event, TaskResult):
                        result = event
                    else:
                        for part in _parts(event):
                            yield part
            finally:
                token.cancel()
            state = {"state": to_jsonable(await self._agent.save_state())}
        assert result is not None
        last = result.messages[-1]
        if not isinstance(last, HandoffMessage):
            yield TurnAnswer(output=getattr(last, "content", ""), checkpoint=state)
        elif last.target in turn.handoffs:
            yield TurnHandoff(to=last.target, reason=last.content, checkpoint=state)
        else:
            asked = {"target": last.target, "source": last.source}
            yield TurnQuestion(
                id="handoff",
                subject=last.content[:500],
                body=last.content,
                checkpoint={**state, "asked": asked},
            )

    async def _load(self, turn: ForeignTurn) -> None:
        if hasattr(self._agent, "on_reset"):
            await self._agent.on_reset(CancellationToken())
        elif turn.checkpoint is not None:
            await self._agent.reset()
        if turn.checkpoint is not None:
            await self._agent.load_state(turn.checkpoint["state"])


def _parts(event: Any) -> list[TurnPart]:
    parts: list[TurnPart] = []
    if isinstance(event, ModelClientStreamingChunkEvent):
        parts.append(TurnDelta(text=event.content))
    elif isinstance(event, ToolCallRequestEvent):
        parts += [
            TurnToolCall(call_id=each.id, name=each.name, arguments=each.arguments)
            for each in event.content
        ]
    elif isinstance(event, ToolCallExecutionEvent):
        parts += [
            TurnToolResult(
                call_id=each.call_id,
                output=each.content,
                error=each.content if each.is_error else None,
            )
            for each in event.content
        ]
    if event.models_usage is not None:
        used = event.models_usage
        usage = Usage(
            requests=1, input_tokens=used.prompt_tokens, output_tokens=used.completion_tokens
        )
        parts.append(TurnUsage(usage=usage))
    return parts
