"""The server for tests refuses what the real API refuses, and complains about its script."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from ekiden.core.errors import UserError
from ekiden.testing import UnexpectedModelCall, UnusedSteps, call, fail, hang, say, transfer
from ekiden.testing.servers.openai import OpenAIServer, cut

STRICT = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "1"}
CHAT_CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
USER = {"role": "user", "content": "hi"}


async def post(
    server: OpenAIServer, path: str, body: Any, key: str | None = "k"
) -> tuple[int, dict[str, Any]]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{server.base_url}/{path}", json=body, headers=headers)
    return answer.status_code, answer.json()


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ([], "expected an object"),
        ({"input": "hi"}, "Missing required parameter: 'model'"),
        ({"model": "m"}, "Missing required parameter: 'input'"),
        ({"model": "m", "input": []}, "Missing required parameter: 'input'"),
        ({"model": "m", "input": "hi", "messages": []}, "Unknown parameter: 'messages'"),
        ({"model": "m", "input": "hi", "temperature": 3}, "Invalid 'temperature'"),
        ({"model": "m", "input": "hi", "max_output_tokens": 1}, "Invalid 'max_output_tokens'"),
        ({"model": "m", "input": "hi", "tool_choice": "auto"}, "only allowed when 'tools'"),
        ({"model": "m", "input": [{"role": "robot", "content": "x"}]}, "Invalid value: 'robot'"),
        ({"model": "m", "input": [{**USER, "name": "x"}]}, r"Unknown parameter: 'input\[0\].name'"),
        (
            {"model": "m", "input": [{"role": "user", "content": 1}]},
            "expected a string or an array",
        ),
        (
            {"model": "m", "input": [{"role": "user", "content": [{"type": "output_text"}]}]},
            "Invalid value: 'output_text'",
        ),
        ({"model": "m", "input": [{"type": "magic"}]}, "Invalid value: 'magic'"),
        ({"model": "m", "input": [{**CALL, "name": ""}, OUTPUT]}, "'input.0..name'"),
        ({"model": "m", "input": [OUTPUT]}, "No tool call found for function call output"),
        ({"model": "m", "input": [CALL]}, "No tool output found for function call c"),
        (
            {"model": "m", "input": [{"type": "reasoning", "id": "rs_1", "summary": []}]},
            "without its required following item",
        ),
        ({"model": "m", "input": [{"type": "reasoning", "id": "rs_1"}, USER]}, "summary"),
        (
            {
                "model": "m",
                "input": "hi",
                "text": {"format": {"type": "json_schema", "name": "a b"}},
            },
            "Invalid 'text.format.name'",
        ),
        (
            {"model": "m", "input": "hi", "text": {"format": {"type": "json_schema", "name": "a"}}},
            "Missing required parameter: 'text.format.schema'",
        ),
    ],
)
async def test_an_invalid_responses_request_is_refused(body: Any, complaint: str) -> None:
    async with OpenAIServer() as server:
        status, answer = await post(server, "responses", body)
    assert status == 400
    assert answer["error"]["type"] == "invalid_request_error"
    with pytest.raises(ValueError, match=complaint):
        raise ValueError(answer["error"]["message"])


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "Missing required parameter: 'messages'"),
        ([{"role": "robot", "content": "x"}], "Invalid value: 'robot'"),
        ([{"role": "assistant", "content": None}], "expected a string or an array"),
        ([{**USER, "provider_details": {}}], "Unknown parameter"),
        ([{"role": "tool", "tool_call_id": "c", "content": "1"}], "must be a response to"),
        ([CHAT_CALL], "must be followed by tool messages"),
        ([CHAT_CALL, USER], "must be followed by tool messages"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "x"}]}], "'input_text'"),
    ],
)
async def test_an_invalid_chat_request_is_refused(messages: Any, complaint: str) -> None:
    async with OpenAIServer() as server:
        status, answer = await post(
            server, "chat/completions", {"model": "m", "messages": messages}
        )
    assert status == 400
    assert complaint in answer["error"]["message"]


@pytest.mark.parametrize(
    ("tool", "complaint"),
    [
        ({"name": "a b", "parameters": STRICT}, "does not match"),
        ({"name": "f"}, "schema must have type 'object'"),
        ({"name": "f", "parameters": {"type": "object"}, "strict": True}, "additionalProperties"),
        (
            {
                "name": "f",
                "parameters": {**STRICT, "properties": {"a": {"type": "string"}}},
                "strict": True,
            },
            "Missing 'a'",
        ),
        (
            {
                "name": "f",
                "parameters": {
                    **STRICT,
                    "properties": {"a": {"type": "array", "items": {"type": "object"}}},
                    "required": ["a"],
                },
                "strict": True,
            },
            "additionalProperties",
        ),
    ],
)
@pytest.mark.parametrize("path", ["responses", "chat/completions"])
async def test_an_invalid_tool_is_refused(path: str, tool: Any, complaint: str) -> None:
    if path == "responses":
        body = {"model": "m", "input": "hi", "tools": [{"type": "function", **tool}]}
    else:
        body = {"model": "m", "messages": [USER], "tools": [{"type": "function", "function": tool}]}
    async with OpenAIServer() as server:
        status, answer = await post(server, path, body)
    assert status == 400
    assert complaint in answer["error"]["message"]


@pytest.mark.parametrize(
    ("choice", "names", "complaint"),
    [
        ("maybe", ["f"], "Invalid value: 'maybe'"),
        ({"type": "function", "name": "g"}, ["f"], "'g' not found in 'tools'"),
        ("auto", ["f", "f"], "must be unique"),
    ],
)
async def test_an_invalid_tool_choice_is_refused(choice: Any, names: Any, complaint: str) -> None:
    tools = [{"type": "function", "name": name, "parameters": STRICT} for name in names]
    async with OpenAIServer() as server:
        body = {"model": "m", "input": "hi", "tools": tools, "tool_choice": choice}
        status, answer = await post(server, "responses", body)
    assert status == 400
    assert complaint in answer["error"]["message"]


async def test_an_item_without_its_reasoning_item_is_refused() -> None:
    thought = {"type": "reasoning", "summary": []}
    async with OpenAIServer([[thought, call("f")]]) as server:
        _, answer = await post(server, "responses", {"model": "m", "input": "hi"})
        _, called = answer["output"]
        output = {**OUTPUT, "call_id": called["call_id"]}
        torn = {"model": "m", "input": [USER, called, output]}
        status, refused = await post(server, "responses", torn)
    assert status == 400
    assert "without its required 'reasoning' item: 'rs_1_0'" in refused["error"]["message"]


async def test_the_server_checks_keys_and_paths() -> None:
    async with OpenAIServer(api_key="right") as server:
        assert (await post(server, "responses", {}, key=None))[0] == 401
        assert (await post(server, "responses", {}, key="wrong"))[0] == 401
        assert (await post(server, "embeddings", {}, key="right"))[0] == 404
        assert (await post(server, "responses", {}, key="right"))[0] == 400
    assert server.requests == []


async def test_a_body_that_is_not_json_is_refused() -> None:
    async with OpenAIServer() as server, httpx2.AsyncClient(timeout=60) as client:
        answer = await client.post(
            f"{server.base_url}/responses", content="{", headers={"authorization": "Bearer k"}
        )
    assert answer.status_code == 400


async def test_unused_steps_are_an_error() -> None:
    with pytest.raises(UnusedSteps, match="1 of 1 scripted steps were not used"):
        async with OpenAIServer([say("never")]):
            pass


async def test_a_request_beyond_the_script_is_an_error() -> None:
    with pytest.raises(UnexpectedModelCall, match="all 0 steps were used"):
        async with OpenAIServer() as server:
            status, _ = await post(server, "responses", {"model": "m", "input": "hi"})
            assert status == 400


async def test_a_transfer_names_the_tool_of_the_agent() -> None:
    tools = [{"type": "function", "name": "transfer_to_billing", "parameters": STRICT}]
    async with OpenAIServer([transfer("billing")]) as server:
        body = {"model": "m", "input": "hi", "tools": tools}
        _, answer = await post(server, "responses", body)
    assert answer["output"][0]["name"] == "transfer_to_billing"


async def test_a_step_the_server_cannot_play_is_refused() -> None:
    with pytest.raises(UserError, match="only an answer can be cut"):
        cut(hang(), after=1)
    with pytest.raises(UserError, match="a server cannot play"):
        OpenAIServer([fail(ValueError("x"))])
