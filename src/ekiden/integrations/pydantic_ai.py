"""Runs agents of PydanticAI. Each model call and each tool call is stored when it ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from pydantic_ai import (
    Agent,
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessagesTypeAdapter,
    ModelRetry,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, WrapperToolset

from ekiden.core.conversation.model import Usage
from ekiden.core.errors import EkidenError, UserError
from ekiden.core.integrations.foreign_agents import (
    CheckpointDelta,
    Durability,
    ForeignTurn,
    PersonAnswer,
    TurnAnswer,
    TurnDelta,
    TurnPart,
    TurnQuestion,
    TurnUsage,
)
from ekiden.core.values import loads
from ekiden.tools import result_form, to_jsonable


def adapter(agent: Any) -> PydanticAIAgent:
    """The adapter of an agent."""
    return PydanticAIAgent(agent)


class PydanticAIAgent:
    """An agent of PydanticAI as a member of a team. Each run of the agent gets `deps`.

    For example::

        PydanticAIAgent(agent, deps=Shop())
    """

    framework = "pydantic_ai"
    durability: Durability = "call"

    def __init__(self, agent: Agent[Any, Any], *, deps: Any = None) -> None:
        self._agent, self._deps = agent, deps

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """See `ForeignAdapter.take_turn`."""
        agent = self._agent
        if agent.model is None:
            raise UserError(f"agent {turn.agent!r} of PydanticAI has no model: give it one")
        history = ModelMessagesTypeAdapter.validate_python(turn.checkpoint or [])
        prompt, results = None, None
        if turn.resumes:
            results = DeferredToolResults()
            for name, each in turn.answers.items():
                results.approvals[name] = _approval(each)
        else:
            prompt = "\n\n".join(each["content"] for each in turn.messages())
        toolsets = [
            each.visit_and_replace(lambda one: _Steps(one, turn)) for each in agent.toolsets
        ]
        toolsets.append(_transfers(turn))
        with agent.override(model=_StepModel(agent.model, turn), toolsets=toolsets, tools=[]):
            result: Any = await agent.run(
                prompt,
                message_history=history or None,
                deferred_tool_results=results,
                output_type=[agent.output_type, DeferredToolRequests],
                deps=self._deps,
            )
        messages = ModelMessagesTypeAdapter.dump_python(result.all_messages(), mode="json")
        messages = CheckpointDelta.between(turn.checkpoint, messages)
        output = result.output
        if not isinstance(output, DeferredToolRequests):
            yield TurnAnswer(output=output, checkpoint=messages)
            return
        if output.calls:
            names = ", ".join(each.tool_name for each in output.calls)
            raise UserError(f"tools that others run are not supported: {names}")
        for index, call in enumerate(output.approvals):
            yield TurnQuestion(
                id=call.tool_call_id,
                tool=call.tool_name,
                arguments=call.args_as_json_str(),
                checkpoint=None if index else messages,
            )


def _approval(answer: PersonAnswer) -> ToolApproved | ToolDenied:
    if not answer.approved:
        return ToolDenied(answer.text or "A person refused the call.")
    return ToolApproved(override_args=loads(answer.arguments) if answer.arguments else None)


class _StepModel(WrapperModel):
    """Makes each model call a stored step, which is not repeated after a crash."""

    def __init__(self, model: Model | str, turn: ForeignTurn) -> None:
        super().__init__(infer_model(model))
        self._turn = turn

    async def request(
        self, messages: Any, model_settings: Any, model_request_parameters: Any
    ) -> Any:
        async def ask(key: str) -> Any:
            response = await self._ask(messages, model_settings, model_request_parameters)
            used = response.usage
            usage = Usage(
                requests=1, input_tokens=used.input_tokens, output_tokens=used.output_tokens
            )
            await self._turn.emit(TurnUsage(usage=usage, model=response.model_name))
            return ModelMessagesTypeAdapter.dump_python([response], mode="json")

        stored = await self._turn.step("model", len(messages), ask, is_tool=False)
        return ModelMessagesTypeAdapter.validate_python(stored)[0]

    async def _ask(self, *request: Any) -> Any:
        has_started = False
        if self._turn.is_streamed:
            try:
                async with self.wrapped.request_stream(*request) as stream:
                    async for event in stream:
                        has_started = True
                        if text := _text(event):
                            await self._turn.emit(TurnDelta(text=text))
                    return stream.get()
            except (AssertionError, NotImplementedError):  # Some models cannot stream.
                if has_started:
                    raise
        response = await self.wrapped.request(*request)
        if response.text:
            await self._turn.emit(TurnDelta(text=response.text))
        return response


def _text(event: Any) -> str:
    """The text of an event of a streamed response."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


class _NoResult(EkidenError):
    """A tool did not run, so no result is stored. PydanticAI handles the `cause`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__("the tool did not run")
        self.cause = cause


@dataclass
class _Steps(WrapperToolset[Any]):
    """Makes each tool call a stored step, which is not repeated after a crash."""

    turn: ForeignTurn

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        async def call(key: str) -> Any:
            try:
                result = await self.wrapped.call_tool(name, tool_args, ctx, tool)
            except (ApprovalRequired, CallDeferred) as exc:
                raise _NoResult(exc) from exc
            except ModelRetry as exc:
                return {"retry": exc.message}
            return {"result": result_form(name, result)}

        try:
            stored = await self.turn.step(name, to_jsonable(tool_args), call)
        except _NoResult as exc:
            raise exc.cause from None
        if "retry" in stored:
            raise ModelRetry(stored["retry"])
        return stored["result"]


def _transfers(turn: ForeignTurn) -> AbstractToolset[Any]:
    toolset: FunctionToolset[Any] = FunctionToolset()
    for to, description in turn.handoffs.items():
        toolset.add_function(_transfer(turn, to), name=f"transfer_to_{to}", description=description)
    return toolset


def _transfer(turn: ForeignTurn, to: str) -> Any:
    def transfer(reason: str = "") -> str:
        return turn.hand_to(to, reason=reason)

    return transfer
