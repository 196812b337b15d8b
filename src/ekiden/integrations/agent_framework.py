"""Agents of the Microsoft Agent Framework: each model call and each tool call is stored when it
ends, through the framework's middleware."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    FunctionTool,
    Message,
    Workflow,
)

from ekiden.core.conversation.model import Usage
from ekiden.core.errors import UserError
from ekiden.core.foreign import (
    Durability,
    ForeignTurn,
    TurnAnswer,
    TurnDelta,
    TurnPart,
    TurnQuestion,
    TurnUsage,
)
from ekiden.integrations.agent_framework_workflow import AgentFrameworkWorkflow
from ekiden.tools import to_jsonable

_TRANSFER = "transfer_to_"


def adapter(obj: Any) -> AgentFrameworkAgent | AgentFrameworkWorkflow:
    """The adapter of an agent or of a workflow."""
    if isinstance(obj, Workflow):
        return AgentFrameworkWorkflow(obj)
    if not isinstance(obj, Agent):
        raise UserError(
            f"{type(obj).__name__} of the Agent Framework is no Agent and no Workflow: give one of "
            "them, or write a ForeignAdapter"
        )
    return AgentFrameworkAgent(obj)


class AgentFrameworkAgent:
    """An agent of the framework as a member of a team.

    For example::

        foreign_agent(AgentFrameworkAgent(agent), "billing")
    """

    framework = "agent_framework"
    durability: Durability = "call"

    def __init__(self, agent: Agent[Any]) -> None:
        self._agent = agent

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """See `ForeignAdapter`."""
        told = turn.checkpoint or {}
        session = AgentSession.from_dict(told["session"]) if told else self._agent.create_session()
        if turn.resumes:
            contents = []
            for request in map(Content.from_dict, told["requests"]):
                answer = turn.answers[str(request.id)]
                approved = answer.approved and answer.arguments is None
                contents.append(request.to_function_approval_response(approved))
            given = [Message("user", contents)]
        else:
            given = [Message(each["role"], [each["content"]]) for each in turn.messages()]
        response = await self._agent.run(
            given,
            session=session,
            middleware=[_StoredCalls(turn), _StoredAnswers(turn)],
            tools=[_transfer(turn, to, text) for to, text in turn.handoffs.items()],
        )
        after = {"session": to_jsonable(session.to_dict())}
        requests = response.user_input_requests
        if not requests:
            yield TurnAnswer(output=response.text, checkpoint=after)
            return
        after["requests"] = [to_jsonable(each.to_dict()) for each in requests]
        for place, each in enumerate(requests):
            yield TurnQuestion(
                id=str(each.id),
                tool=each.function_call.name,
                arguments=each.function_call.arguments,
                checkpoint=None if place else after,
            )


class _StoredCalls(FunctionMiddleware):
    """Runs each tool once for each place of the turn."""

    def __init__(self, turn: ForeignTurn) -> None:
        self._turn = turn

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        """See `FunctionMiddleware`."""
        if context.function.name.startswith(_TRANSFER):
            await call_next()
            return

        async def call(key: str) -> Any:
            await call_next()
            result = context.result
            contents = result if isinstance(result, list) else [Content.from_text(str(result))]
            return [to_jsonable(each.to_dict()) for each in contents]

        stored = await self._turn.step(context.function.name, to_jsonable(context.arguments), call)
        context.result = [Content.from_dict(each) for each in stored]


class _StoredAnswers(ChatMiddleware):
    """Asks the model once for each place of the turn."""

    def __init__(self, turn: ForeignTurn) -> None:
        self._turn = turn

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """See `ChatMiddleware`."""

        async def ask(key: str) -> Any:
            await call_next()
            response = context.result
            if response.text:
                await self._turn.emit(TurnDelta(text=response.text))
            used = response.usage_details or {}
            usage = Usage(
                requests=1,
                input_tokens=used.get("input_token_count") or 0,
                output_tokens=used.get("output_token_count") or 0,
            )
            await self._turn.emit(TurnUsage(usage=usage, model=response.model))
            return to_jsonable(response.to_dict())

        stored = await self._turn.step("model", len(context.messages), ask, is_tool=False)
        context.result = ChatResponse.from_dict(stored)


def _transfer(turn: ForeignTurn, to: str, description: str) -> FunctionTool:
    def transfer(reason: str = "") -> str:
        return turn.hand_to(to, reason=reason)

    return FunctionTool(name=f"{_TRANSFER}{to}", description=description, func=transfer)
