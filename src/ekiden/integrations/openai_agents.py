"""Runs agents of the OpenAI Agents SDK. Each model call and each tool call is stored when it
ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse as SdkResponse,
    RunConfig,
    Runner,
    RunState,
    Usage as SdkUsage,
    function_tool,
)
from agents.models.multi_provider import MultiProvider
from openai.types.responses import ResponseOutputItem
from pydantic import TypeAdapter

from ekiden.core.conversation.model import Usage
from ekiden.core.integrations.foreign_agents import (
    CheckpointDelta,
    Durability,
    ForeignTurn,
    TurnAnswer,
    TurnDelta,
    TurnPart,
    TurnQuestion,
    TurnUsage,
)
from ekiden.tools import result_form, to_jsonable

_ITEMS: TypeAdapter[list[Any]] = TypeAdapter(list[ResponseOutputItem])


def adapter(agent: Any) -> OpenAIAgent:
    """The adapter of an agent."""
    return OpenAIAgent(agent)


class OpenAIAgent:
    """An agent of the SDK as a member of a team. Each run of the agent gets `context`.

    For example::

        OpenAIAgent(agent, context=Shop(), max_turns=20)
    """

    framework = "openai_agents"
    durability: Durability = "call"

    def __init__(self, agent: Agent[Any], *, context: Any = None, max_turns: int = 10) -> None:
        self._agent, self._context, self._max_turns = agent, context, max_turns

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """See `ForeignAdapter.take_turn`."""
        agent = _durable(self._agent, turn, {})
        run_input: Any
        history = (turn.checkpoint or {}).get("history", [])
        if turn.resumes:
            run_input = await RunState.from_json(
                agent, turn.checkpoint["state"], context_override=self._context
            )
            for item in run_input.get_interruptions():
                answer = turn.answers[_call_id(item)]
                if answer.approved and answer.arguments is None:
                    run_input.approve(item)
                else:
                    edited = answer.arguments and f"call it again with {answer.arguments}"
                    run_input.reject(item, rejection_message=edited or answer.text or "refused")
        else:
            run_input = [*history, *turn.messages()]
        result = await Runner.run(
            agent,
            run_input,
            context=None if turn.resumes else self._context,
            max_turns=self._max_turns,
            run_config=RunConfig(tracing_disabled=True),
        )
        if result.interruptions:
            state = result.to_state().to_json()
            for index, item in enumerate(result.interruptions):
                yield TurnQuestion(
                    id=_call_id(item),
                    tool=item.tool_name or "tool",
                    arguments=_field(item.raw_item, "arguments"),
                    checkpoint=None if index else {"state": state},
                )
            return
        checkpoint: Any = CheckpointDelta.between(history, to_jsonable(result.to_input_list()))
        if isinstance(checkpoint, CheckpointDelta):
            checkpoint = CheckpointDelta({"history": checkpoint.added})
        else:
            checkpoint = {"history": checkpoint}
        yield TurnAnswer(output=result.final_output, checkpoint=checkpoint)


def _field(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)


def _call_id(item: Any) -> str:
    return str(_field(item.raw_item, "call_id") or _field(item.raw_item, "id"))


def _durable(agent: Agent[Any], turn: ForeignTurn, seen: dict[str, Agent[Any]]) -> Agent[Any]:
    """A copy of the agent and its handoff targets whose model and tool calls are stored steps."""
    if agent.name in seen:
        return seen[agent.name]
    copy = seen[agent.name] = agent.clone()
    model = agent.model
    found = model if isinstance(model, Model) else MultiProvider().get_model(model)
    copy.model = _StepModel(found, turn)
    copy.tools = [
        _step_tool(each, turn) if isinstance(each, FunctionTool) else each for each in agent.tools
    ]
    copy.handoffs = [
        _durable(each, turn, seen) if isinstance(each, Agent) else each for each in agent.handoffs
    ]
    transfers = [_transfer(turn, to, text) for to, text in turn.handoffs.items()]
    copy.tools += transfers
    if transfers and copy.tool_use_behavior == "run_llm_again":
        copy.tool_use_behavior = {"stop_at_tool_names": [each.name for each in transfers]}
    return copy


def _transfer(turn: ForeignTurn, to: str, description: str) -> FunctionTool:
    def transfer(reason: str = "") -> str:
        return turn.hand_to(to, reason=reason)

    return function_tool(
        transfer, name_override=f"transfer_to_{to}", description_override=description
    )


def _step_tool(tool: FunctionTool, turn: ForeignTurn) -> FunctionTool:
    """The tool whose calls are stored steps, which are not repeated after a crash."""

    async def invoke(ctx: Any, arguments: str) -> Any:
        async def call(key: str) -> Any:
            return result_form(tool.name, await tool.on_invoke_tool(ctx, arguments))

        return await turn.step(tool.name, arguments, call)

    return replace(tool, on_invoke_tool=invoke)


class _StepModel(Model):
    """Makes each model call a stored step, which is not repeated after a crash."""

    def __init__(self, model: Model, turn: ForeignTurn) -> None:
        self._model, self._turn = model, turn

    async def get_response(self, *args: Any, **options: Any) -> SdkResponse:
        """See `Model`."""
        model_input = args[1] if len(args) > 1 else options.get("input")

        async def ask(key: str) -> Any:
            response = await self._ask(args, options)
            used = response.usage
            usage = Usage(
                requests=1,
                input_tokens=used.input_tokens if used else 0,
                output_tokens=used.output_tokens if used else 0,
            )
            name = getattr(self._model, "model", None)
            await self._turn.emit(TurnUsage(usage=usage, model=None if name is None else str(name)))
            output = [each.model_dump(mode="json", exclude_unset=True) for each in response.output]
            return {"output": output, "id": getattr(response, "response_id", None)}

        length = len(model_input) if isinstance(model_input, list) else 0
        stored = await self._turn.step("model", length, ask, is_tool=False)
        return SdkResponse(
            output=_ITEMS.validate_python(stored["output"]),
            usage=SdkUsage(),
            response_id=stored["id"],
        )

    async def _ask(self, args: Any, options: Any) -> Any:
        """Call the model, and emit its text. Returns a response of the SDK or of the API."""
        if self._turn.is_streamed:
            has_started = False
            try:
                async for event in self._model.stream_response(*args, **options):
                    has_started = True
                    if event.type == "response.output_text.delta":
                        await self._turn.emit(TurnDelta(text=event.delta))
                    elif event.type in ("response.completed", "response.incomplete"):
                        return event.response
                raise RuntimeError("the model's stream ended without a response")
            except NotImplementedError:  # Some models cannot stream.
                if has_started:
                    raise
        response = await self._model.get_response(*args, **options)
        for item in response.output:
            for part in getattr(item, "content", None) or ():
                await self._turn.emit(TurnDelta(text=getattr(part, "text", None) or ""))
        return response

    def stream_response(self, *args: Any, **options: Any) -> Any:
        """See `Model`. It is not used, because the SDK does not stream these turns."""
        return self._model.stream_response(*args, **options)
