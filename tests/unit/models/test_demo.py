"""The offline demo model."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.conversation.model import (
    Item,
    ModelDelta,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    OutputSpec,
    ToolSpec,
    function_call,
    function_output,
    text_of,
    user_message,
)
from ekiden.core.errors import UserError
from ekiden.core.values import loads
from ekiden.models import resolve_model
from ekiden.models.demo import DemoModel

REASON = {"type": "string"}
MAYBE = {"type": ["string", "null"]}


def tool(name: str, description: str = "", **properties: dict[str, Any]) -> ToolSpec:
    """A tool all of whose parameters are required, as strict schemas have it."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolSpec(name=name, description=description, parameters=schema)


BILLING = tool(
    "transfer_to_billing",
    "Hand the conversation over to the agent billing. Invoices, refunds. Use it: for money (退款)",
    reason=REASON,
    context=MAYBE,
)
ORDERS = tool("transfer_to_orders", "Parcels and deliveries (包裹)", reason=REASON)
ROUTER = tool("transfer_to_router_agent", "Only when the request is nobody's.", reason=REASON)
READ = tool("read_file", path={"type": "string"}, limit={"anyOf": [REASON, {"type": "null"}]})


async def respond(*items: Item | str, **request: Any) -> tuple[Item, list[str]]:
    """The one item that the model says, and its deltas."""
    said = [user_message(item) if isinstance(item, str) else item for item in items]
    given = {"instructions": None, "agent": "reception", "step": "1.m", **request}
    parts = [part async for part in DemoModel().respond(ModelRequest(input=said, **given))]
    *deltas, last = parts
    assert isinstance(last, ModelResponse)
    assert last.model == "demo:offline"
    return last.output[0], [part.text for part in deltas if isinstance(part, ModelDelta)]


async def test_the_demo_introduces_itself_and_its_limits() -> None:
    item, deltas = await respond("Hello there", tools=[BILLING, ROUTER, READ])
    text = text_of(item)
    assert "I am reception" in text
    assert "“Hello there”" in text
    assert "understands nothing" in text
    assert "ekiden config set model" in text
    assert "My tools: read_file." in text
    assert "I can hand off to: billing." in text
    assert deltas == []


async def test_chinese_is_answered_in_chinese() -> None:
    item, _ = await respond("你好", tools=[BILLING, READ])
    assert text_of(item).startswith("我是 reception")
    assert "read_file" in text_of(item)


async def test_a_streamed_answer_has_deltas() -> None:
    item, deltas = await respond("Hello", stream=True)
    assert len(deltas) > 5
    assert "".join(deltas) == text_of(item)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("I want a refund, please", "transfer_to_billing"),
        ("我要退款", "transfer_to_billing"),
        ("Where is my parcel?", "transfer_to_orders"),
        ("包裹在哪里", "transfer_to_orders"),
    ],
)
async def test_a_request_matching_another_agent_is_handed_off(text: str, target: str) -> None:
    item, _ = await respond(text, tools=[ROUTER, BILLING, ORDERS])
    assert item["name"] == target
    arguments = loads(item["arguments"])
    assert arguments["reason"].startswith("the request speaks of ")
    assert arguments.get("context") is None


async def test_a_request_matching_the_own_instructions_is_kept() -> None:
    mine = "You look after refunds.\n\nParcels go to orders."
    item, _ = await respond("a refund of my parcel", tools=[ORDERS, BILLING], instructions=mine)
    assert item["type"] == "message"


async def test_with_a_required_tool_choice_the_descriptions_decide() -> None:
    item, _ = await respond(
        "a refund of the money",
        tools=[ORDERS, BILLING],
        instructions="Choose. billing: refunds",
        settings=ModelSettings(tool_choice="required"),
    )
    assert item["name"] == "transfer_to_billing"


async def test_without_a_match_the_demo_does_not_choose_nobody() -> None:
    nobody = tool("transfer_to_nobody", "Say that the request is about nothing.", reason=REASON)
    must = ModelSettings(tool_choice="required")
    asked = '<request>\n"Tell me about quantum physics"\n</request>'
    item, _ = await respond(asked, tools=[BILLING, nobody], settings=must)
    assert item["type"] == "message"


async def test_a_request_is_handed_off_only_once() -> None:
    handed = [function_call("c1", "transfer_to_orders", "{}"), function_output("c1", "{}")]
    item, _ = await respond("a refund of my parcel", *handed, tools=[BILLING])
    assert item["type"] == "message"


async def test_a_tool_is_called_when_the_text_contains_its_arguments() -> None:
    item, _ = await respond("What is in docs/notes.md ?", tools=[READ])
    assert (item["name"], loads(item["arguments"])) == (
        "read_file",
        {"path": "docs/notes.md", "limit": None},
    )
    handed = [function_call("c1", "transfer_to_reception", "{}"), function_output("c1", "{}")]
    item, _ = await respond("Read notes.md", *handed, tools=[READ])
    assert item["name"] == "read_file"


@pytest.mark.parametrize(
    ("text", "parameter", "value"),
    [
        ("get https://example.org/a?b=c, please", "url", "https://example.org/a?b=c"),
        ("run `pytest -q` for me", "command", "pytest -q"),
        ("我的订单1043在哪里", "order_id", "1043"),
    ],
)
async def test_arguments_are_found_by_parameter_name(text: str, parameter: str, value: str) -> None:
    spec = tool("do", **{parameter: {"type": "string"}, "times": {"default": 1}})
    item, _ = await respond(text, tools=[spec])
    assert loads(item["arguments"]) == {parameter: value, "times": 1}


@pytest.mark.parametrize("text", ["e.g. this", "what about version 1.2", "hello"])
async def test_a_tool_is_not_called_with_guessed_arguments(text: str) -> None:
    write = tool("write_file", path={"type": "string"}, content={"type": "string"})
    item, _ = await respond(text, tools=[write, tool("now"), tool("pay", order_id=REASON)])
    assert item["type"] == "message"


async def test_the_result_of_a_tool_is_shown() -> None:
    called = [function_call("c1", "read_file", "{}"), function_output("c1", {"lines": 3})]
    item, _ = await respond("Read a.md", *called, tools=[READ])
    assert 'read_file gave: {"lines":3}' in text_of(item)
    item, _ = await respond("读 a.md", *called, tools=[READ])
    assert "read_file 的结果" in text_of(item)


async def test_long_texts_are_truncated() -> None:
    item, _ = await respond("x" * 1_000_000)
    assert len(text_of(item)) < 1000


async def test_an_empty_conversation_is_answered() -> None:
    item, _ = await respond()
    assert "I am reception" in text_of(item)


async def test_structured_output_is_refused_with_advice() -> None:
    with pytest.raises(UserError, match="set a real model"):
        await respond("hi", output=OutputSpec(name="x", json_schema={}))


def test_the_demo_model_is_resolved_by_name() -> None:
    assert isinstance(resolve_model("demo:offline"), DemoModel)
