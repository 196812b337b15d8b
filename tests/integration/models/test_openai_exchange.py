"""Conversations with OpenAI's two APIs through the real client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ekiden.core.conversation.model import (
    Item,
    ModelRequest,
    ModelSettings,
    OutputSpec,
    ToolSpec,
    Usage,
    assistant_message,
    function_call,
    function_output,
    refusal_of,
    text_of,
    user_message,
)
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.models import resolve_model
from ekiden.testing import call, say, stream
from ekiden.testing.servers.openai import OpenAIServer, refuse
from ekiden.testing.steps import AnswerStep

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def tool(name: str = "weather") -> ToolSpec:
    return ToolSpec(
        name=name,
        description="Tells the weather.",
        parameters={
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    )


def request(*items: Item, stream: bool = False, **options: Any) -> ModelRequest:
    return ModelRequest(instructions="Be brief.", input=items, stream=stream, **options)


def connect(api: str, server: OpenAIServer) -> Any:
    return resolve_model(f"{api}:gpt-5-mini", base_url=server.base_url, api_key="sk-test")


def reasoning(text: str) -> Item:
    summary = [{"type": "summary_text", "text": text}]
    return {"type": "reasoning", "summary": summary, "encrypted_content": "sealed"}


async def test_a_text_is_returned_as_one_assistant_message(
    api: str, streamed: bool, ask: Any
) -> None:
    async with OpenAIServer([say("Good morning.")]) as server:
        deltas, response = await ask(
            connect(api, server), request(user_message("hi"), stream=streamed)
        )
    assert response.output == [assistant_message("Good morning.")]
    assert response.model == "gpt-5-mini"
    assert response.response_id
    if streamed:
        assert "".join(delta.text for delta in deltas) == "Good morning."
        assert {(delta.kind, delta.index) for delta in deltas} == {("text", 0)}
        assert len(deltas) > 1
    else:
        assert deltas == []


async def test_instructions_and_messages_arrive_with_their_roles(
    api: str, streamed: bool, ask: Any
) -> None:
    items = [user_message("one"), assistant_message("two"), user_message("three")]
    async with OpenAIServer([say("four")]) as server:
        await ask(connect(api, server), request(*items, stream=streamed))
    body = server.requests[0].body
    if api == "openai":
        assert body["instructions"] == "Be brief."
        said = body["input"]
    else:
        assert body["messages"][0] == {"role": "system", "content": "Be brief."}
        said = body["messages"][1:]
    assert [(each["role"], each["content"]) for each in said] == [
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
    ]


async def test_several_tool_calls_keep_their_ids_and_order(
    api: str, streamed: bool, ask: Any
) -> None:
    steps = [
        [
            say("Looking."),
            call("weather", "call_a", city="Oslo"),
            call("time", "call_b", city="Rome"),
        ],
        say("Cold, and late."),
    ]
    tools = [tool(), tool("time")]
    async with OpenAIServer(steps) as server:
        model = connect(api, server)
        asked = user_message("Oslo?")
        deltas, first = await ask(model, request(asked, tools=tools, stream=streamed))
        outputs = [function_output("call_b", "23:00"), function_output("call_a", {"celsius": -3})]
        _, second = await ask(
            model, request(asked, *first.output, *outputs, tools=tools, stream=streamed)
        )
    assert first.output == [
        assistant_message("Looking."),
        function_call("call_a", "weather", '{"city":"Oslo"}'),
        function_call("call_b", "time", '{"city":"Rome"}'),
    ]
    assert text_of(second.output[0]) == "Cold, and late."
    if streamed:
        said = ["".join(d.text for d in deltas if d.index == index) for index in range(3)]
        assert said == ["Looking.", '{"city":"Oslo"}', '{"city":"Rome"}']
    assert _outputs(server.requests[1].body) == {"call_a": '{"celsius":-3}', "call_b": "23:00"}


def _outputs(body: dict[str, Any]) -> dict[str, str]:
    if "input" in body:
        items = [item for item in body["input"] if item.get("type") == "function_call_output"]
        return {item["call_id"]: item["output"] for item in items}
    messages = [message for message in body["messages"] if message["role"] == "tool"]
    return {message["tool_call_id"]: message["content"] for message in messages}


async def test_tools_are_offered_with_their_strict_schema(api: str, ask: Any) -> None:
    async with OpenAIServer([say("ok")]) as server:
        await ask(connect(api, server), request(user_message("hi"), tools=[tool()]))
    offered = server.requests[0].body["tools"][0]
    offered = offered if api == "openai" else offered["function"]
    assert offered["name"] == "weather"
    assert offered["strict"] is True
    assert offered["parameters"] == tool().parameters


async def test_a_tool_that_is_not_strict_is_offered_as_not_strict(api: str, ask: Any) -> None:
    free = ToolSpec(
        name="note",
        description="",
        parameters={"type": "object", "properties": {"tags": {"type": "object"}}},
        strict=False,
    )
    async with OpenAIServer([say("ok")]) as server:
        await ask(connect(api, server), request(user_message("hi"), tools=[free]))
    offered = server.requests[0].body["tools"][0]
    offered = offered if api == "openai" else offered["function"]
    assert not offered.get("strict")


async def test_structured_output_is_requested_by_schema(api: str, streamed: bool, ask: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "integer"}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    output = OutputSpec(name="sum", json_schema=schema)
    async with OpenAIServer([say('{"answer":4}')]) as server:
        _, response = await ask(
            connect(api, server), request(user_message("2+2"), output=output, stream=streamed)
        )
    assert json.loads(text_of(response.output[0])) == {"answer": 4}
    body = server.requests[0].body
    form = body["text"]["format"] if api == "openai" else body["response_format"]["json_schema"]
    assert (form["name"], form["schema"], form["strict"]) == ("sum", schema, True)


async def test_a_refusal_is_kept_apart_from_text(api: str, streamed: bool, ask: Any) -> None:
    async with OpenAIServer([refuse("I cannot help with that."), say("Sure.")]) as server:
        model = connect(api, server)
        _, response = await ask(model, request(user_message("do it"), stream=streamed))
        (refused,) = response.output
        again = [user_message("do it"), refused, user_message("then something else")]
        await ask(model, request(*again, stream=streamed))
    assert refusal_of(refused) == "I cannot help with that."
    assert text_of(refused) == ""
    said = server.requests[1].body.get("input") or server.requests[1].body["messages"]
    assert {"role": "assistant", "content": "I cannot help with that."} in said


async def test_usage_is_counted_in_every_detail(api: str, streamed: bool, ask: Any) -> None:
    usage = Usage(
        requests=1,
        input_tokens=100,
        output_tokens=40,
        total_tokens=140,
        cached_tokens=64,
        reasoning_tokens=24,
    )
    async with OpenAIServer([say("ok")], usage=usage) as server:
        _, response = await ask(connect(api, server), request(user_message("hi"), stream=streamed))
    assert response.usage == usage


async def test_settings_use_the_parameter_names_of_the_api(api: str, ask: Any) -> None:
    settings = ModelSettings(
        temperature=0.5,
        top_p=0.9,
        max_tokens=200,
        parallel_tool_calls=False,
        tool_choice="time",
        extra={"metadata": {"team": "a"}, "service_tier": "flex"},
    )
    async with OpenAIServer([say("ok")]) as server:
        model = resolve_model(f"{api}:gpt-4.1", base_url=server.base_url, api_key="sk-test")
        wish = request(user_message("hi"), tools=[tool(), tool("time")], settings=settings)
        await ask(model, wish)
    body = server.requests[0].body
    assert body["temperature"] == 0.5
    assert body["top_p"] == 0.9
    assert body["max_output_tokens" if api == "openai" else "max_completion_tokens"] == 200
    assert body["parallel_tool_calls"] is False
    assert "time" in json.dumps(body["tool_choice"])
    assert "weather" not in json.dumps(body["tool_choice"])
    assert body["metadata"] == {"team": "a"}
    assert body["service_tier"] == "flex"


@pytest.mark.parametrize("choice", ["auto", "required", "none"])
async def test_a_general_tool_choice_is_passed_unchanged(api: str, choice: str, ask: Any) -> None:
    async with OpenAIServer([say("ok")]) as server:
        settings = ModelSettings(tool_choice=choice)
        wish = request(user_message("hi"), tools=[tool()], settings=settings)
        await ask(connect(api, server), wish)
    body = server.requests[0].body
    assert body.get("tool_choice", "none") == choice


async def test_reasoning_effort_is_passed_to_the_api(api: str, ask: Any) -> None:
    async with OpenAIServer([say("ok")]) as server:
        settings = ModelSettings(reasoning_effort="low")
        await ask(connect(api, server), request(user_message("hi"), settings=settings))
    body = server.requests[0].body
    effort = body["reasoning"]["effort"] if api == "openai" else body["reasoning_effort"]
    assert effort == "low"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (ModelSettings(tool_choice="nothing"), "'nothing' names no tool"),
        (ModelSettings(reasoning_effort="huge"), "'huge' is unknown"),
        (ModelSettings(extra={"timeout": 3}), "resolve_model"),
    ],
)
async def test_invalid_settings_are_refused_before_a_request_is_sent(
    settings: ModelSettings, complaint: str, ask: Any
) -> None:
    async with OpenAIServer() as server:
        with pytest.raises(UserError, match=complaint):
            await ask(
                connect("openai", server),
                request(user_message("hi"), tools=[tool()], settings=settings),
            )
    assert server.requests == []


async def test_reasoning_goes_back_with_its_call_to_the_provider_that_made_it(
    api: str, streamed: bool, ask: Any
) -> None:
    steps = [[reasoning("Think first."), call("weather", city="Oslo")], say("Cold.")]
    async with OpenAIServer(steps) as server:
        model = connect(api, server)
        asked = user_message("Oslo?")
        deltas, first = await ask(model, request(asked, tools=[tool()], stream=streamed))
        thought, called = first.output
        answer = function_output(called["call_id"], "-3")
        await ask(model, request(asked, *first.output, answer, tools=[tool()], stream=streamed))
    assert [part["text"] for part in thought["summary"]] == ["Think first."]
    if streamed:
        assert "".join(d.text for d in deltas if d.kind == "reasoning") == "Think first."
    body = server.requests[1].body
    if api == "openai":
        sent = next(item for item in body["input"] if item.get("type") == "reasoning")
        assert (sent["id"], sent["encrypted_content"]) == (thought["id"], "sealed")
        assert sent["summary"] == thought["summary"]
    else:
        assert body["messages"][2]["reasoning_content"] == "Think first."


async def test_reasoning_is_dropped_for_another_provider(api: str, ask: Any) -> None:
    steps = [[reasoning("Think first."), call("weather", city="Oslo")]]
    async with OpenAIServer(steps) as first, OpenAIServer([say("Cold.")]) as second:
        asked = user_message("Oslo?")
        _, response = await ask(connect(api, first), request(asked, tools=[tool()]))
        answer = function_output(response.output[1]["call_id"], "-3")
        await ask(connect(api, second), request(asked, *response.output, answer, tools=[tool()]))
    sent = json.dumps(second.requests[0].body)
    assert "Think first." not in sent
    assert "sealed" not in sent
    assert response.output[1].get("id", "fc_none") not in sent


async def test_reasoning_whose_call_was_filtered_out_is_not_sent(ask: Any) -> None:
    steps = [
        [reasoning("Think first."), call("weather", city="Oslo"), say("A moment.")],
        say("Hello."),
    ]
    async with OpenAIServer(steps) as server:
        model = connect("openai", server)
        _, first = await ask(model, request(user_message("Oslo?"), tools=[tool()]))
        left = [item for item in first.output if item["type"] != "function_call"]
        await ask(model, request(user_message("Oslo?"), *left, user_message("well?")))
    assert {item.get("type", "message") for item in server.requests[1].body["input"]} == {"message"}


async def test_reasoning_of_openai_is_not_sent_to_another_server(
    ask: Any,
) -> None:
    async with OpenAIServer([say("ok")]) as server:
        thought = {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "sealed"}
        called = {**function_call("call_9", "weather", "{}"), "id": "fc_9"}
        items = [user_message("hi"), thought, called, function_output("call_9", "ok")]
        await ask(connect("openai", server), request(*items, tools=[tool()]))
    kinds = [item.get("type", "message") for item in server.requests[0].body["input"]]
    assert kinds == ["message", "function_call", "function_call_output"]


async def test_images_arrive_by_url_and_by_value(api: str, ask: Any) -> None:
    content = [
        {"type": "input_text", "text": "Which one?"},
        {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
        {"type": "input_image", "image_url": PIXEL},
    ]
    async with OpenAIServer([say("The first.")]) as server:
        await ask(connect(api, server), request({"role": "user", "content": content}))
    body = server.requests[0].body
    sent = body["input"][0]["content"] if api == "openai" else body["messages"][1]["content"]
    urls = [part["image_url"] for part in sent[1:]]
    urls = urls if api == "openai" else [url["url"] for url in urls]
    assert sent[0]["text"] == "Which one?"
    assert urls == ["https://example.com/a.png", PIXEL]


async def test_an_answer_cut_at_its_token_limit_is_marked(
    api: str, streamed: bool, ask: Any
) -> None:
    half = AnswerStep(output=({**assistant_message("Once upon a"), "status": "incomplete"},))
    async with OpenAIServer([half]) as server:
        _, response = await ask(
            connect(api, server), request(user_message("a tale"), stream=streamed)
        )
    assert text_of(response.output[0]) == "Once upon a"
    assert response.output[0]["status"] == "incomplete"


async def test_an_answer_of_only_reasoning_is_an_error_that_names_max_tokens(ask: Any) -> None:
    only = AnswerStep(output=({**reasoning("Hmm"), "status": "incomplete"},))
    async with OpenAIServer([only]) as server:
        with pytest.raises(ModelBehaviorError, match="raise max_tokens"):
            await ask(connect("openai", server), request(user_message("a tale")))


async def test_a_local_server_needs_no_key(ask: Any) -> None:
    async with OpenAIServer([say("hello")]) as server:
        model = resolve_model(f"openai-chat:llama@{server.base_url}")
        _, response = await ask(model, request(user_message("hi")))
    assert text_of(response.output[0]) == "hello"
    assert server.requests[0].body["model"] == "llama"


async def test_the_api_key_variable_is_not_sent_to_a_url_in_a_model_name(
    api: str, monkeypatch: pytest.MonkeyPatch, ask: Any
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    async with OpenAIServer([say("a"), say("b")]) as server:
        await ask(resolve_model(f"{api}:m@{server.base_url}"), request(user_message("hi")))
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        await ask(resolve_model(f"{api}:m"), request(user_message("hi")))
    keys = [received.headers["authorization"] for received in server.requests]
    assert "canary" not in keys[0]
    assert keys[1] == "Bearer sk-canary"


async def test_text_in_think_tags_is_reasoning(ask: Any) -> None:
    async with OpenAIServer([stream("<think>Hm.</think>Yes.", chunks=1)]) as server:
        _, response = await ask(connect("openai-chat", server), request(user_message("hi")))
    thought, said = response.output
    assert thought["summary"] == [{"type": "summary_text", "text": "Hm."}]
    assert text_of(said) == "Yes."
