"""Conversations in Anthropic's wire format through the real client."""

from __future__ import annotations

import json
import logging
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from ekiden.core.conversation.model import (
    Item,
    ModelRequest,
    ModelSettings,
    OutputSpec,
    ToolSpec,
    assistant_message,
    function_output,
    refusal_of,
    text_of,
    user_message,
)
from ekiden.core.errors import ModelError, UserError
from ekiden.models import resolve_model
from ekiden.testing.servers.loopback import HttpReply, HttpRequest, LoopbackServer

MODEL = "claude-sonnet-5-5"
WEATHER = ToolSpec(
    name="weather",
    description="Tells the weather.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)


class AnthropicServer(LoopbackServer):
    """``/v1/messages``: each answer is a list of content blocks, or a status with an error."""

    def __init__(self, answers: Iterable[list[Item] | tuple[int, Item]]) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.stop_reason: str | None = None
        self._answers = deque(answers)

    async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
        assert (request.method, request.path) == ("POST", "/v1/messages")
        body = request.json()
        self.bodies.append(body)
        self.keys.append(request.headers["authorization"])
        complaint = _complaint(body)
        if complaint:
            await reply.json(_error("invalid_request_error", complaint), status=400)
            return
        answer = self._answers.popleft()
        if isinstance(answer, tuple):
            await reply.json(answer[1], status=answer[0])
        elif not body.get("stream"):
            await reply.json({**self._message(answer), "content": answer})
        else:
            await reply.start_events()
            for event in self._events(answer):
                await reply.event(json.dumps(event), name=event["type"])
            await reply.end_events()

    def _message(self, blocks: list[Item]) -> dict[str, Any]:
        called = any(block["type"] == "tool_use" for block in blocks)
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [],
            "stop_reason": self.stop_reason or ("tool_use" if called else "end_turn"),
            "stop_sequence": None,
            "usage": {"input_tokens": 20, "output_tokens": 7, "cache_read_input_tokens": 4},
        }

    def _events(self, blocks: list[Item]) -> Iterator[dict[str, Any]]:
        message = self._message(blocks)
        opened = {**message, "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
        yield {"type": "message_start", "message": opened}
        for index, block in enumerate(blocks):
            start, *deltas = _pieces(block)
            yield {"type": "content_block_start", "index": index, "content_block": start}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 7}}
        yield {"type": "message_stop"}


def _pieces(block: Item) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        yield {**block, "text": ""}
        for text in (block["text"][:3], block["text"][3:]):
            yield {"type": "text_delta", "text": text}
    elif block["type"] == "thinking":
        yield {**block, "thinking": "", "signature": ""}
        yield {"type": "thinking_delta", "thinking": block["thinking"]}
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        yield {**block, "input": {}}
        yield {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}


def _complaint(body: dict[str, Any]) -> str | None:
    """What the API would refuse: roles that do not take turns, results without their call."""
    called: set[str] = set()
    for index, message in enumerate(body["messages"]):
        if message["role"] != ("user", "assistant")[index % 2]:
            return f"messages.{index}: roles must alternate between user and assistant"
        blocks = message["content"] if isinstance(message["content"], list) else []
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if results != (called if message["role"] == "user" else set()):
            return f"messages.{index}: tool_use ids and tool_result blocks do not match"
        called = {block["id"] for block in blocks if block["type"] == "tool_use"}
    return None


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def connect(server: AnthropicServer, **options: Any) -> Any:
    return resolve_model(f"anthropic:{MODEL}", base_url=server.origin, api_key="sk-ant", **options)


def request(*items: Item, stream: bool, **options: Any) -> ModelRequest:
    return ModelRequest(instructions="Be brief.", input=items, stream=stream, **options)


async def test_a_text_request_and_its_answer_are_translated(streamed: bool, ask: Any) -> None:
    async with AnthropicServer([[{"type": "text", "text": "Good morning."}]]) as server:
        deltas, response = await ask(connect(server), request(user_message("hi"), stream=streamed))
    assert response.output == [assistant_message("Good morning.")]
    assert "".join(delta.text for delta in deltas) == ("Good morning." if streamed else "")
    assert response.usage.output_tokens == 7
    assert response.usage.cached_tokens == 4
    (body,) = server.bodies
    assert server.keys == ["Bearer sk-ant"]
    assert "Be brief." in json.dumps(body["system"])
    assert body["messages"][0]["role"] == "user"


async def test_a_tool_call_is_sent_with_its_output_in_the_next_request(
    streamed: bool, ask: Any
) -> None:
    thought = {"type": "thinking", "thinking": "Look it up.", "signature": "signed"}
    used = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}
    answers = [[thought, used], [{"type": "text", "text": "Cold."}]]
    async with AnthropicServer(answers) as server:
        model = connect(server)
        asked = user_message("Oslo?")
        deltas, first = await ask(model, request(asked, tools=[WEATHER], stream=streamed))
        output = function_output("toolu_1", "-3")
        _, second = await ask(
            model, request(asked, *first.output, output, tools=[WEATHER], stream=streamed)
        )
    reasoned, called = first.output
    assert reasoned["encrypted_content"] == "signed"
    assert (called["call_id"], called["name"]) == ("toolu_1", "weather")
    assert json.loads(called["arguments"]) == {"city": "Oslo"}
    if streamed:
        assert [(delta.kind, delta.index) for delta in deltas] == [
            ("reasoning", 0),
            ("arguments", 1),
        ]
    assert text_of(second.output[0]) == "Cold."
    sent = server.bodies[1]["messages"]
    assert sent[1]["content"][0] == thought
    assert sent[1]["content"][1]["id"] == "toolu_1"
    assert sent[2]["content"][0]["tool_use_id"] == "toolu_1"


async def test_reasoning_of_another_provider_is_left_out(ask: Any) -> None:
    foreign = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Secret plan."}],
        "encrypted_content": "sealed",
    }
    async with AnthropicServer([[{"type": "text", "text": "ok"}]]) as server:
        items = [user_message("hi"), foreign, assistant_message("hello"), user_message("well?")]
        await ask(connect(server), request(*items, stream=False))
    sent = json.dumps(server.bodies)
    assert "Secret plan." not in sent
    assert "sealed" not in sent


async def test_settings_and_output_type_reach_the_provider(ask: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "integer"}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    settings = ModelSettings(max_tokens=99, extra={"metadata": {"user_id": "u"}})
    async with AnthropicServer([[{"type": "text", "text": '{"answer":1}'}]]) as server:
        wish = request(
            user_message("1?"),
            stream=False,
            tools=[WEATHER],
            settings=settings,
            output=OutputSpec(name="sum", json_schema=schema),
        )
        _, response = await ask(connect(server), wish)
    (body,) = server.bodies
    assert body["max_tokens"] == 99
    assert body["metadata"] == {"user_id": "u"}
    assert '"answer"' in json.dumps(body["output_config"])
    assert json.loads(text_of(response.output[0])) == {"answer": 1}


async def test_a_setting_the_model_does_not_support_is_a_user_error(ask: Any) -> None:
    async with AnthropicServer([]) as server:
        forced = ModelSettings(tool_choice="required")
        wish = request(user_message("hi"), stream=False, tools=[WEATHER], settings=forced)
        with pytest.raises(UserError, match="does not support forcing tool use"):
            await ask(connect(server), wish)
    assert server.bodies == []


async def test_a_warning_raised_as_an_error_keeps_its_type(ask: Any) -> None:
    async with AnthropicServer([]) as server:
        wish = request(user_message("hi"), stream=False, settings=ModelSettings(temperature=0.5))
        with pytest.raises(UserWarning, match="temperature"):
            await ask(connect(server), wish)


async def test_an_answer_the_provider_stopped_is_a_refusal(ask: Any) -> None:
    async with AnthropicServer([[]]) as server:
        server.stop_reason = "refusal"
        _, response = await ask(connect(server), request(user_message("do it"), stream=False))
    assert refusal_of(response.output[-1])


async def test_a_request_is_retried_when_the_provider_is_overloaded(
    streamed: bool, ask: Any, waits: Any
) -> None:
    busy = (529, _error("overloaded_error", "Overloaded"))
    async with AnthropicServer([busy, [{"type": "text", "text": "ok"}]]) as server:
        model = connect(server, retries=waits.policy())
        _, response = await ask(model, request(user_message("hi"), stream=streamed))
    assert text_of(response.output[0]) == "ok"
    assert len(waits.seconds) == 1


async def test_a_wrong_key_names_the_variable_to_set_and_shows_no_key(
    ask: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = "sk-canary-0123456789"
    wrong = (401, _error("authentication_error", f"invalid key {key}"))
    async with AnthropicServer([wrong]) as server:
        model = resolve_model(f"anthropic:{MODEL}", base_url=server.origin, api_key=key)
        with pytest.raises(ModelError, match=r"invalid key \*\*\*.*set ANTHROPIC_API_KEY") as info:
            await ask(model, request(user_message("hi"), stream=False))
    assert info.value.status == 401
    assert server.keys == [f"Bearer {key}"]
    assert key not in caplog.text + "".join(traceback.format_exception(info.value))
