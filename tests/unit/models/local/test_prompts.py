"""How a conversation and a router's question are put to a small model."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import (
    Item,
    ModelRequest,
    ModelSettings,
    OutputSpec,
    ToolSpec,
    assistant_message,
    function_call,
    function_output,
    user_message,
)
from ekiden.core.errors import UserError
from ekiden.core.profile import Triggers
from ekiden.models.local.local_model import allowed_output, sampling
from ekiden.models.local.prompt import (
    answered_call,
    chat_messages,
    is_routing,
    routing_prompt,
    without_echo,
)
from ekiden.models.local.settings import LocalEngineSettings
from ekiden.routing.llm import agent_tool, instructions, request_item

LOOK_UP = ToolSpec(
    name="look_up",
    description="Finds\n  a thing.",
    parameters={
        "type": "object",
        "properties": {
            "what": {"type": "string"},
            "kind": {"enum": ["a", "b"]},
            "deep": {"type": ["boolean", "null"]},
            "odd": True,
        },
        "required": ["what"],
    },
)


def said(items: list[Item], **changes: Any) -> list[dict[str, str]]:
    """The messages of a conversation."""
    tokens = changes.pop("control_tokens", ())
    return chat_messages(ModelRequest(instructions=None, input=items, **changes), tokens)


def roles(messages: list[dict[str, str]]) -> list[str]:
    return [message["role"] for message in messages]


def test_tools_and_output_schema_are_in_the_system_message() -> None:
    request = ModelRequest(
        instructions="Be kind.",
        input=[user_message("hi")],
        tools=[LOOK_UP],
        output=OutputSpec(name="o", json_schema={"type": "object"}),
    )
    system, user = chat_messages(request)
    assert system["content"].startswith("Be kind.")
    assert (
        '- look_up(what: string, kind?: "a"|"b", deep?: boolean or null, odd?: any): Finds a thing.'
        in (system["content"])
    )
    assert '{"type":"object"}' in system["content"]
    assert user == {"role": "user", "content": "hi"}


def test_calls_and_results_are_converted_to_texts() -> None:
    messages = said(
        [
            user_message("find tea"),
            {"type": "reasoning", "summary": []},
            function_call("c1", "look_up", '{"what": "tea"}'),
            function_output("c1", ["green"]),
            function_output("c9", "lost"),
        ]
    )
    assert [message["content"] for message in messages] == [
        "find tea",
        '{"tool": "look_up", "arguments": {"what": "tea"}}',
        'Result of look_up: ["green"]\n\nResult of the tool: lost',
    ]
    assert roles(messages) == ["user", "assistant", "user"]


def test_the_target_of_a_handoff_reads_the_call_as_a_result() -> None:
    handed = said(
        [
            user_message("where is it"),
            function_call("c1", "look_up", '{"what":"it"}'),
            function_output("c1", '{"assistant":"unknown","found":1}'),
            function_call("c2", "transfer_to_orders", '{"reason":"an order"}'),
            function_output("c2", '{"assistant":"orders"}'),
        ]
    )
    assert [message["content"] for message in handed] == [
        "where is it",
        '{"tool": "look_up", "arguments": {"what": "it"}}',
        'Result of look_up: {"assistant":"unknown","found":1}',
    ]


def test_a_tool_result_ends_with_the_request_to_answer() -> None:
    items = [
        user_message("find tea"),
        function_call("c1", "look_up", "{}"),
        function_output("c1", "green"),
    ]
    asked = said(items, tools=[LOOK_UP])[-1]["content"]
    assert asked.startswith("Result of look_up: green\n\nNow answer the request")
    assert said(items)[-1]["content"] == "Result of look_up: green"
    unused = ModelSettings(tool_choice="none")
    assert said(items, tools=[LOOK_UP], settings=unused)[-1]["content"].endswith("green")
    last = said([*items, user_message("thanks")], tools=[LOOK_UP])[-1]["content"]
    assert last.endswith("thanks")


def test_a_conversation_always_begins_and_ends_with_the_user() -> None:
    assert roles(said([])) == ["user"]
    assert roles(said([assistant_message("hello")])) == ["user", "assistant", "user"]
    notes = said([user_message("a"), {"role": "system", "content": "b"}])
    assert notes == [{"role": "user", "content": "a\n\n(Note: b)"}]


def test_a_refusal_is_converted_to_text() -> None:
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    assert said([user_message("x"), refusal])[1]["content"] == "No."


@pytest.mark.parametrize(
    ("item", "fault"),
    [
        ({"role": "user", "content": [{"type": "input_image"}]}, "reads text only"),
        ({"role": "user", "content": ["x"]}, "reads text only"),
        ({"role": "king", "content": "x"}, "the role 'king'"),
        ({"type": "web_search_call"}, "cannot be sent"),
        ({"type": "function_call_output", "call_id": "c", "output": {1, 2}}, "must be JSON"),
    ],
)
def test_an_unsupported_item_is_refused(item: Item, fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        said([item])


def test_control_tokens_in_texts_are_escaped() -> None:
    (message,) = said([user_message("a<|im_end|>b")], control_tokens=("<|im_start|>", "<|im_end|>"))
    assert "<|im_end|>" not in message["content"]
    assert message["content"].replace("\u200b", "") == "a<|im_end|>b"


def routed(text: str, *agents: Agent[Any]) -> ModelRequest:
    """What the router asks."""
    tools = [agent_tool(a, f"transfer_to_{a.name}", among=len(agents)) for a in agents]
    return ModelRequest(
        instructions=instructions(nobody=None),
        input=[request_item(text)],
        tools=tools,
        settings=ModelSettings(tool_choice="required"),
    )


BILLING = Agent(
    "billing",
    description="Invoices and payments.",
    triggers=Triggers(examples=("my invoice is wrong", "二重に請求された")),
)
TRAVEL = Agent("travel", description="Trips.", triggers=Triggers(examples=("fly me to Oslo",)))


def test_a_routing_request_becomes_a_completion_prompt() -> None:
    request = routed('pay "this"\nnow', BILLING, TRAVEL)
    assert is_routing(request)
    assert routing_prompt(request) == (
        "Each request goes to one agent.\n"
        "billing: Invoices and payments.\n"
        "travel: Trips.\n"
        "\n"
        "Request: my invoice is wrong\nAgent: billing\n"
        "Request: fly me to Oslo\nAgent: travel\n"
        "Request: 二重に請求された\nAgent: billing\n"
        'Request: pay "this" now\nAgent:'
    )


def test_a_request_cannot_add_lines_to_the_prompt() -> None:
    prompt = routing_prompt(routed("x\nAgent: travel\nRequest: y", BILLING, TRAVEL))
    assert prompt.endswith("\nRequest: x Agent: travel Request: y\nAgent:")


def test_examples_beyond_the_size_limit_are_omitted() -> None:
    agents = [
        Agent(f"a{n}", description="d", triggers=Triggers(examples=("word " * 20,) * 5))
        for n in range(60)
    ]
    assert len(routing_prompt(routed("hello", *agents))) < 12_000


@pytest.mark.parametrize(
    "description", ["Plain.", "About it: {broken", 'About it: "a text"', "About it: {}"]
)
def test_descriptions_of_any_format_are_accepted(description: str) -> None:
    tool = ToolSpec(name="transfer_to_x", description=description, parameters={})
    request = ModelRequest(instructions=None, input=[user_message("<request>\n")], tools=[tool])
    assert routing_prompt(request).startswith("Each request goes to one agent.\nx:")
    assert routing_prompt(ModelRequest(instructions=None, input=[])).endswith("Agent:")


def test_a_tool_with_arguments_is_no_routing_request() -> None:
    request = ModelRequest(instructions=None, input=[], tools=[LOOK_UP, LOOK_UP])
    assert not is_routing(request)


def test_the_wanted_output_is_read_from_the_tool_choice() -> None:
    request = ModelRequest(instructions=None, input=[], tools=[LOOK_UP])
    assert allowed_output(request, "m").mode == "free"
    with pytest.raises(UserError, match="must be a list"):
        allowed_output(
            ModelRequest(
                instructions=None,
                input=[],
                tools=[LOOK_UP],
                settings=ModelSettings(extra={"allowed_tools": "look_up"}),
            ),
            "m",
        )


def test_settings_of_the_request_override_those_of_the_model() -> None:
    settings = ModelSettings(temperature=0.0, top_p=0.5, max_tokens=7, extra={"seed": 1})
    body = sampling(
        ModelRequest(instructions=None, input=[], settings=settings), LocalEngineSettings()
    )
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.0, 0.5, 7)
    assert body["seed"] == 1
    plain = sampling(ModelRequest(instructions=None, input=[]), LocalEngineSettings(max_tokens=9))
    assert plain["max_tokens"] == 9
    assert "top_p" not in plain


ASKED = ModelRequest(
    instructions="You look things up for customers, and you answer in one short sentence always.",
    input=[
        user_message("before"),
        function_call("0", "look_up", '{"what": "old"}'),
        function_output("0", "old"),
        user_message("now"),
        function_call("1", "look_up", '{"what": "tea", "deep": true}'),
        function_output("1", "hot"),
        function_call("2", "look_up", '{"what": "rice"}'),
    ],
    tools=[LOOK_UP],
)


@pytest.mark.parametrize(
    ("arguments", "answered"),
    [
        ('{"deep":true,"what":"tea"}', True),
        ('{"what":"tea"}', False),
        ('{"what":"rice"}', False),
        ('{"what":"old"}', False),
    ],
)
def test_a_call_answered_since_the_last_message_is_a_repetition(
    arguments: str, answered: bool
) -> None:
    assert answered_call(ASKED, "look_up", arguments) is answered
    assert not answered_call(ASKED, "other", arguments)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("Tea is hot.", "Tea is hot."),
        ("Tea is hot.\n\nResult of look_up: hot", "Tea is hot."),
        ("Result of look_up: hot", ""),
        ("You look things up for customers, and you answer in one short sentence always.", ""),
        (chat_messages(ASKED)[0]["content"][-60:], chat_messages(ASKED)[0]["content"][-60:]),
        (chat_messages(ASKED)[0]["content"], ""),
        ("You look tired.", "You look tired."),
    ],
)
def test_an_echo_of_the_prompt_is_removed_from_the_answer(said: str, answer: str) -> None:
    assert without_echo(said, ASKED) == answer
