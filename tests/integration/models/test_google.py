"""Conversations in Google's wire format through the real client."""

from __future__ import annotations

import json
import logging
import traceback
from collections import deque
from collections.abc import Iterable
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
    text_of,
    user_message,
)
from ekiden.core.errors import ModelBehaviorError, ModelError
from ekiden.models import resolve_model
from ekiden.testing.servers.loopback import HttpReply, HttpRequest, LoopbackServer

# Compiling the package warns, which must not be an error of the test that imports it first.
pytest.importorskip("google.genai")

MODEL = "gemini-2.5-flash"
SIGNATURE = "c2lnbmVk"
WEATHER = ToolSpec(
    name="weather",
    description="Tells the weather.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)


class GoogleServer(LoopbackServer):
    """``:generateContent``: each answer is a list of parts, or a status with a message."""

    def __init__(self, answers: Iterable[list[Item] | tuple[int, str]]) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.finish_reason = "STOP"
        self._answers = deque(answers)

    async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
        path, _, method = request.path.partition(":")
        assert path in (f"/v1/models/{MODEL}", f"/v1beta/models/{MODEL}")
        self.bodies.append(request.json())
        self.keys.append(request.headers["x-goog-api-key"])
        answer = self._answers.popleft()
        if isinstance(answer, tuple):
            status, message = answer
            error = {"code": status, "message": message, "status": "FAILED"}
            await reply.json({"error": error}, status=status)
        elif method == "generateContent":
            await reply.json(self._chunk(answer, is_last=True))
        else:
            assert method == "streamGenerateContent"
            await reply.start_events()
            for index, part in enumerate(answer):
                is_last = index == len(answer) - 1
                await reply.event(json.dumps(self._chunk([part], is_last=is_last)))
            await reply.end_events()

    def _chunk(self, parts: list[Item], *, is_last: bool) -> dict[str, Any]:
        candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
        if is_last:
            candidate["finishReason"] = self.finish_reason
        usage = {
            "promptTokenCount": 20,
            "candidatesTokenCount": 7,
            "thoughtsTokenCount": 5,
            "cachedContentTokenCount": 4,
            "totalTokenCount": 32,
        }
        return {
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": MODEL,
            "responseId": "resp-1",
        }


def connect(server: GoogleServer, **options: Any) -> Any:
    return resolve_model(f"google:{MODEL}", base_url=server.origin, api_key="goog", **options)


def request(*items: Item, stream: bool, **options: Any) -> ModelRequest:
    return ModelRequest(instructions="Be brief.", input=items, stream=stream, **options)


async def test_a_text_request_and_its_answer_are_translated(streamed: bool, ask: Any) -> None:
    async with GoogleServer([[{"text": "Good "}, {"text": "morning."}]]) as server:
        deltas, response = await ask(connect(server), request(user_message("hi"), stream=streamed))
    assert "".join(map(text_of, response.output)) == "Good morning."
    assert "".join(delta.text for delta in deltas) == ("Good morning." if streamed else "")
    assert response.usage.input_tokens == 20
    assert response.usage.output_tokens == 12
    assert response.usage.cached_tokens == 4
    assert response.usage.reasoning_tokens == 5
    (body,) = server.bodies
    assert server.keys == ["goog"]
    assert "Be brief." in json.dumps(body["systemInstruction"])
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


async def test_a_tool_call_is_sent_with_its_output_in_the_next_request(
    streamed: bool, ask: Any
) -> None:
    called = {
        "functionCall": {"name": "weather", "args": {"city": "Oslo"}},
        "thoughtSignature": SIGNATURE,
    }
    async with GoogleServer([[called], [{"text": "Cold."}]]) as server:
        model = connect(server)
        asked = user_message("Oslo?")
        deltas, first = await ask(model, request(asked, tools=[WEATHER], stream=streamed))
        (call,) = first.output
        output = function_output(call["call_id"], "-3")
        _, second = await ask(model, request(asked, call, output, tools=[WEATHER], stream=streamed))
    assert call["name"] == "weather"
    assert json.loads(call["arguments"]) == {"city": "Oslo"}
    assert json.loads(json.dumps(call)) == call
    if streamed:
        assert [delta.kind for delta in deltas] == ["arguments"]
    assert text_of(second.output[0]) == "Cold."
    _, again, answered = server.bodies[1]["contents"]
    assert again["parts"][0]["functionCall"]["name"] == "weather"
    assert again["parts"][0]["thoughtSignature"] == SIGNATURE
    assert answered["parts"][0]["functionResponse"]["name"] == "weather"
    assert "-3" in json.dumps(answered["parts"][0]["functionResponse"]["response"])


async def test_thoughts_are_returned_as_reasoning(streamed: bool, ask: Any) -> None:
    async with GoogleServer([[{"text": "Hm.", "thought": True}, {"text": "Yes."}]]) as server:
        deltas, response = await ask(connect(server), request(user_message("hi"), stream=streamed))
    thought, said = response.output
    assert thought["summary"] == [{"type": "summary_text", "text": "Hm."}]
    assert said == assistant_message("Yes.")
    if streamed:
        assert [(delta.kind, delta.index) for delta in deltas] == [("reasoning", 0), ("text", 1)]


async def test_settings_and_output_type_reach_the_provider(ask: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "integer"}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    settings = ModelSettings(temperature=0.2, max_tokens=99, extra={"seed": 7})
    async with GoogleServer([[{"text": '{"answer":1}'}]]) as server:
        wish = request(
            user_message("1?"),
            stream=False,
            settings=settings,
            output=OutputSpec(name="sum", json_schema=schema),
        )
        _, response = await ask(connect(server), wish)
    config = server.bodies[0]["generationConfig"]
    assert config["temperature"] == 0.2
    assert config["maxOutputTokens"] == 99
    assert config["seed"] == 7
    assert '"answer"' in json.dumps(config)
    assert json.loads(text_of(response.output[0])) == {"answer": 1}


async def test_a_malformed_function_call_is_a_model_error(ask: Any) -> None:
    async with GoogleServer([[{"text": "x"}]]) as server:
        server.finish_reason = "MALFORMED_FUNCTION_CALL"
        with pytest.raises(ModelBehaviorError, match="MALFORMED_FUNCTION_CALL"):
            await ask(connect(server), request(user_message("hi"), stream=False))


async def test_a_request_is_retried_when_the_provider_is_overloaded(
    streamed: bool, ask: Any, waits: Any
) -> None:
    async with GoogleServer([(503, "overloaded"), [{"text": "ok"}]]) as server:
        model = connect(server, retries=waits.policy())
        _, response = await ask(model, request(user_message("hi"), stream=streamed))
    assert text_of(response.output[0]) == "ok"
    assert len(waits.seconds) == 1


async def test_a_wrong_key_names_the_variable_to_set_and_shows_no_key(
    ask: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = "sk-canary-0123456789"
    async with GoogleServer([(403, f"key {key} not valid")]) as server:
        model = resolve_model(f"google:{MODEL}", base_url=server.origin, api_key=key)
        with pytest.raises(ModelError, match=r"key \*\*\* not valid.*set GOOGLE_API_KEY") as info:
            await ask(model, request(user_message("hi"), stream=False))
    assert info.value.status == 403
    assert server.keys == [key]
    assert key not in caplog.text + "".join(traceback.format_exception(info.value))
