"""A member of each framework, with a model of that framework that answers from a script.

Each books something with an inner tool and hands on to the next; the OpenAI SDK's tool needs
approval.
"""

from __future__ import annotations

from typing import Any

import agent_framework as af
import agents as oa
import pydantic_ai as pa
from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    ModelInfo,
    RequestUsage,
)
from autogen_core.tools import FunctionTool as AutoGenTool
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from ekiden import Agent, Team, current_turn, foreign_agent
from tests.frameworks.effects import booked

NAMES = ("lg", "pyd", "oai", "maf", "ag")


def graph() -> Any:
    """LangGraph: a node that wants the tool, one that runs it, one that ends the turn."""

    def think(state: Any) -> Any:
        call = {"id": "c1", "name": "book", "args": {"what": "lg"}}
        used = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
        return {"messages": [AIMessage("", tool_calls=[call], usage_metadata=used)]}

    async def tools(state: Any) -> Any:
        return {"messages": [ToolMessage(await booked("lg"), tool_call_id="c1", name="book")]}

    async def end(state: Any) -> Any:
        for to in current_turn().handoffs:
            current_turn().hand_to(to, reason="lg is done")
        return {
            "messages": [
                await GenericFakeChatModel(messages=iter([AIMessage("lg done")])).ainvoke("go")
            ]
        }

    built = StateGraph(MessagesState)
    for node in (think, tools, end):
        built.add_node(node.__name__, node)
    built.add_edge(START, "think")
    built.add_edge("think", "tools")
    built.add_edge("tools", "end")
    built.add_edge("end", END)
    return built


def pydantic_agent(*, approval: bool = False) -> Any:
    def model(messages: Any, info: Any) -> ModelResponse:
        last = messages[-1].parts[-1]
        transfers = [tool.name for tool in info.function_tools if tool.name.startswith("transfer")]
        if last.part_kind == "user-prompt":
            return ModelResponse(parts=[ToolCallPart("book", {"what": "pyd"})])
        if transfers and last.part_kind == "tool-return" and last.tool_name == "book":
            return ModelResponse(parts=[ToolCallPart(transfers[0], {"reason": "pyd is done"})])
        return ModelResponse(parts=[TextPart("pyd done")])

    async def pieces(messages: Any, info: Any) -> Any:
        for part in model(messages, info).parts:
            if isinstance(part, ToolCallPart):
                yield {0: DeltaToolCall(part.tool_name, part.args_as_json_str())}
            else:
                for piece in ("pyd ", "done"):
                    yield piece

    agent: Any = pa.Agent(FunctionModel(model, stream_function=pieces))

    @agent.tool_plain(requires_approval=approval)
    async def book(what: str) -> str:
        return await booked("pyd")

    return agent


class SdkModel(oa.Model):
    async def get_response(  # type: ignore[override]
        self,
        system_instructions: Any,
        input: Any,
        model_settings: Any,
        tools: Any,
        *a: Any,
        **k: Any,
    ) -> Any:
        done = {each.get("call_id") for each in input if each.get("type") == "function_call_output"}
        transfers = [each.name for each in tools if each.name.startswith("transfer")]
        output: list[Any] = []
        if "o1" not in done:
            output.append(_sdk_call("o1", "book", '{"what": "oai"}'))
        elif transfers:
            output.append(_sdk_call("o2", transfers[0], '{"reason": "oai is done"}'))
        else:
            text = ResponseOutputText(type="output_text", text="oai done", annotations=[])
            output.append(
                ResponseOutputMessage(
                    id="m", type="message", role="assistant", status="completed", content=[text]
                )
            )
        used = oa.Usage(requests=1, input_tokens=5, output_tokens=1, total_tokens=6)
        return oa.ModelResponse(output=output, usage=used, response_id=None)

    async def stream_response(self, *args: Any, **options: Any) -> Any:
        whole = await self.get_response(*args, **options)
        if whole.output[0].type == "message":
            for number, text in enumerate(("oai ", "done")):
                yield ResponseTextDeltaEvent(
                    type="response.output_text.delta", delta=text, content_index=0, item_id="m",
                    logprobs=[], output_index=0, sequence_number=number,
                )  # fmt: skip
        used = {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}
        response = Response.model_construct(
            output=whole.output, usage=ResponseUsage.model_construct(**used)
        )
        yield ResponseCompletedEvent.model_construct(type="response.completed", response=response)


def _sdk_call(call_id: str, name: str, arguments: str) -> Any:
    return ResponseFunctionToolCall(
        type="function_call", call_id=call_id, name=name, arguments=arguments
    )


def sdk_agent(*, approval: bool = True) -> Any:
    @oa.function_tool(needs_approval=approval)
    async def book(what: str) -> str:
        return await booked("oai")

    return oa.Agent(name="inner", model=SdkModel(), tools=[book])


class Client(af.FunctionInvocationLayer, af.ChatMiddlewareLayer, af.BaseChatClient):  # type: ignore
    def _inner_get_response(
        self, *, messages: Any, stream: bool = False, options: Any = None, **more: Any
    ) -> Any:
        async def answer() -> Any:
            told = [each for one in messages for each in one.contents]
            done = {each.call_id for each in told if each.type == "function_result"}
            names = [tool.name for tool in (options or {}).get("tools") or ()]
            transfers = [name for name in names if name.startswith("transfer")]
            content = af.Content.from_text("maf done")
            if "m1" not in done:
                content = af.Content.from_function_call("m1", "book", arguments='{"what": "maf"}')
            elif transfers and "m2" not in done:
                content = af.Content.from_function_call("m2", transfers[0], arguments="{}")
            used = {"input_token_count": 2, "output_token_count": 1}
            message = af.Message("assistant", [content])
            return af.ChatResponse(messages=[message], usage_details=used)

        async def pieces() -> Any:
            whole = await answer()
            [content] = whole.messages[0].contents
            texts = content.text.split(" ") if content.type == "text" else []
            contents = (
                [af.Content.from_text(each) for each in (f"{texts[0]} ", *texts[1:])]
                if texts
                else [content]
            )
            for each in [*contents, af.Content.from_usage(whole.usage_details)]:
                yield af.ChatResponseUpdate(role="assistant", contents=[each])

        if stream:
            return af.ResponseStream(pieces(), finalizer=af.ChatResponse.from_updates)
        return answer()


def framework_agent(*, approval: bool = False) -> Any:
    @af.tool(approval_mode="always_require" if approval else "never_require")
    async def book(what: str) -> str:
        """Book."""
        return await booked("maf")

    return af.Agent(Client(), tools=[book])


class ScriptedClient(ChatCompletionClient):  # type: ignore
    def __init__(self, *calls: tuple[str, str]) -> None:
        self._calls = calls

    async def create(self, messages: Any, **more: Any) -> Any:
        made = sum(isinstance(each, FunctionExecutionResultMessage) for each in messages)
        used = RequestUsage(prompt_tokens=3, completion_tokens=1)
        if made < len(self._calls):
            name, arguments = self._calls[made]
            call = FunctionCall(id=f"a{made}", name=name, arguments=arguments)
            return CreateResult(
                finish_reason="function_calls", content=[call], usage=used, cached=False
            )
        return CreateResult(finish_reason="stop", content="ag done", usage=used, cached=False)

    def create_stream(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def actual_usage(self) -> Any:
        return RequestUsage(0, 0)

    total_usage = actual_usage

    def count_tokens(self, *args: Any, **options: Any) -> int:
        return 0

    def remaining_tokens(self, *args: Any, **options: Any) -> int:
        return 1000

    @property
    def model_info(self) -> Any:
        return ModelInfo(
            vision=False, function_calling=True, json_output=False, family="unknown",
            structured_output=False,
        )  # fmt: skip

    capabilities = model_info


def assistant(*more: tuple[str, str]) -> Any:
    async def book(what: str) -> str:
        return await booked("ag")

    tool = AutoGenTool(book, name="book", description="Book.")
    client = ScriptedClient(("book", '{"what": "ag"}'), *more)
    return AssistantAgent(
        "ag", model_client=client, tools=[tool], handoffs=["user"], max_tool_iterations=5
    )


def members() -> dict[str, Any]:
    """The objects, by the name of the member."""
    return {
        "lg": graph(),
        "pyd": pydantic_agent(),
        "oai": sdk_agent(),
        "maf": framework_agent(),
        "ag": assistant(),
    }


def team() -> Team:
    """They hand on to each other in this order."""
    found: list[Agent[Any]] = []
    for name, obj in reversed(members().items()):
        found.append(foreign_agent(obj, name, handoffs=found[-1:]))
    return Team(*reversed(found))
