"""A model with real weights, where one is installed or named in ``EKIDEN_LOCAL_MODEL``."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import (
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ToolSpec,
    user_message,
)
from ekiden.core.errors import UserError
from ekiden.core.profile import Triggers
from ekiden.models.local import LocalEngineSettings, LocalModel, close_engines, locate
from ekiden.routing.llm import agent_tool, instructions, request_item

AGENTS = [
    Agent(
        "billing",
        description="invoices, payments and refunds",
        triggers=Triggers(examples=("my invoice is wrong", "I want my money back")),
    ),
    Agent(
        "travel",
        description="flights, hotels and trips",
        triggers=Triggers(examples=("fly me to Oslo", "find a room in Rome")),
    ),
    Agent(
        "debugger",
        description="errors in programs",
        triggers=Triggers(examples=("it crashes with a null pointer", "why does this test fail")),
    ),
]
REQUESTS = {
    "please refund the second payment": "billing",
    "book a hotel near the beach": "travel",
    "the server throws an exception at startup": "debugger",
    "you charged my card twice": "billing",
    "是否有飞往东京的航班": "travel",
    "segmentation fault in my C code": "debugger",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    try:
        weights = locate("default")
    except UserError as exc:
        pytest.skip(f"no real weights: {exc}")
    if weights.size < 500_000_000:
        pytest.skip(f"{weights.name} is too small a model to choose well")
    yield LocalModel(weights, LocalEngineSettings(n_ctx=1024))
    close_engines()


async def response_of(model: LocalModel, request: ModelRequest) -> ModelResponse:
    (response,) = [e async for e in model.respond(request) if isinstance(e, ModelResponse)]
    return response


async def test_a_small_model_routes_clear_requests(model: LocalModel) -> None:
    tools = [agent_tool(a, f"transfer_to_{a.name}", among=len(AGENTS)) for a in AGENTS]
    chosen = {}
    for text in REQUESTS:
        request = ModelRequest(
            instructions=instructions(nobody=None),
            input=[request_item(text)],
            tools=tools,
            settings=ModelSettings(tool_choice="required"),
        )
        (call,) = (await response_of(model, request)).output
        chosen[text] = call["name"].removeprefix("transfer_to_")
    right = sum(chosen[text] == agent for text, agent in REQUESTS.items())
    assert right >= len(REQUESTS) - 1, chosen


async def test_a_small_model_calls_a_tool_with_the_requested_argument(model: LocalModel) -> None:
    weather = ToolSpec(
        name="weather",
        description="The weather of a city.",
        parameters={
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 30}},
            "required": ["city"],
            "additionalProperties": False,
        },
    )
    request = ModelRequest(
        instructions="Answer with the tool where it helps.",
        input=[user_message("How is the weather in Kyoto?")],
        tools=[weather],
        settings=ModelSettings(temperature=0, max_tokens=60),
    )
    (call,) = (await response_of(model, request)).output
    assert json.loads(call["arguments"]) == {"city": "Kyoto"}
