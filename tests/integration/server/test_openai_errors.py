"""Errors under `/v1` as the official client sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from starlette.requests import HTTPConnection

from ekiden import Agent, Team
from ekiden.core.conversation.model import Usage
from ekiden.core.errors import ModelError
from ekiden.core.errors.server import TooManyRequests, Unauthenticated
from ekiden.server.access import Authorizer, Caller, Scope
from ekiden.testing import ScriptedModel, fail, say, stream
from tests.support.openai_clients import openai_client
from tests.support.relay_team import relay_team
from tests.support.serving import application, served


class KeyTable:
    """Accepts a caller whose key is a list of scopes."""

    async def caller(self, connection: HTTPConnection) -> Caller:
        key = connection.headers.get("authorization", "").removeprefix("Bearer ")
        if key == "busy":
            raise TooManyRequests("too fast", retry_after_s=7)
        if key == "none":
            raise Unauthenticated("the API key is not known")
        known: tuple[Scope, ...] = ("read", "run", "answer")
        scopes = frozenset(scope for scope in known if scope in key.split("-"))
        return Caller(name="mira", scopes=scopes, key_id="k")

    async def recheck(self, caller: Caller) -> None:
        """A key stays good."""


@asynccontextmanager
async def talking(
    root: Path, *, team: Team | None = None, key: str = "read-run-answer", retries: int = 0
) -> AsyncIterator[openai.AsyncOpenAI]:
    gate: Authorizer = KeyTable()
    async with (
        application(root, team=team or relay_team(), gate=gate) as app,
        served(app) as url,
        openai_client(url, key=key, retries=retries) as client,
    ):
        yield client


async def chat(client: openai.AsyncOpenAI, text: Any = "hello", **more: Any) -> Any:
    model = more.pop("model", "ekiden")
    messages = more.pop("messages", [{"role": "user", "content": text}])
    return await client.chat.completions.create(model=model, messages=messages, **more)


async def test_a_request_without_a_valid_key_is_an_authentication_error(tmp_path: Path) -> None:
    async with talking(tmp_path, key="none") as client:
        with pytest.raises(openai.AuthenticationError) as raised:
            await client.models.list()
        assert raised.value.code == "auth.required"
        assert raised.value.type == "authentication_error"


async def test_a_rate_limit_error_names_the_retry_time(tmp_path: Path) -> None:
    async with talking(tmp_path, key="busy") as client:
        with pytest.raises(openai.RateLimitError) as raised:
            await chat(client)
        assert raised.value.response.headers["retry-after"] == "7"
        assert raised.value.code == "request.too_many"


async def test_a_key_without_the_scope_cannot_run_or_answer(tmp_path: Path) -> None:
    async with talking(tmp_path, key="read") as client:
        assert [model.id async for model in client.models.list()]
        with pytest.raises(openai.PermissionDeniedError) as raised:
            await chat(client)
        assert raised.value.code == "auth.scope"
    async with talking(tmp_path, key="read-run") as client:
        waits = await client.responses.create(model="ekiden", input="refund it")
        verdict: Any = {
            "type": "mcp_approval_response",
            "approval_request_id": waits.output[0].id,
            "approve": True,
        }
        with pytest.raises(openai.PermissionDeniedError):
            await client.responses.create(
                model="ekiden", input=[verdict], previous_response_id=waits.id
            )
        named = {"session_id": (waits.metadata or {})["session_id"]}
        with pytest.raises(openai.PermissionDeniedError):
            await chat(client, "/approve", metadata=named)
        assert (await client.responses.retrieve(waits.id)).output == waits.output


REFUSED_CHATS: list[tuple[dict[str, Any], str, str | None]] = [
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools", None),
    ({"tool_choice": "required"}, "tool_choice", None),
    ({"n": 2}, "n", None),
    ({"logprobs": True}, "logprobs", None),
    ({"response_format": {"type": "json_object"}}, "response_format", None),
    ({"text": ""}, "messages", "invalid_value"),
    ({"messages": [{"role": "assistant", "content": "x"}]}, "messages", "invalid_value"),
    ({"messages": []}, "messages", "invalid_value"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role", "invalid_value"),
    ({"text": 7}, "messages.0.content", "invalid_value"),
    ({"text": [{"type": "video"}]}, "messages.0.content.0", "invalid_value"),
    (
        {"messages": [{"role": "tool", "content": "x", "tool_call_id": "c"}]},
        "messages.0",
        "unsupported_value",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]},
        "messages.0",
        "unsupported_value",
    ),
]


async def test_an_invalid_chat_request_is_refused(tmp_path: Path) -> None:
    async with talking(tmp_path) as client:
        for more, param, code in REFUSED_CHATS:
            with pytest.raises(openai.BadRequestError) as raised:
                await chat(client, **{**more})
            told = (raised.value.param, raised.value.code, raised.value.type)
            assert told == (param, code or "unsupported_parameter", "invalid_request_error")


REFUSED_RESPONSES: list[tuple[dict[str, Any], str]] = [
    ({"input": []}, "input"),
    ({"input": [{"type": {}, "content": "x"}]}, "input.0.type"),
    ({"input": [{"role": [], "content": "x"}]}, "input.0.role"),
    ({"input": "  "}, "input"),
    ({"input": [{"role": "user", "content": [{"text": 7}]}]}, "input.0.content"),
    ({"input": [{"role": "robot", "content": "x"}]}, "input.0.role"),
    (
        {"input": [{"type": "function_call_output", "call_id": "c", "output": ""}]},
        "input.0.type",
    ),
    ({"input": [{"type": "mcp_approval_response", "approve": "yes"}]}, "input.0"),
    (
        {
            "input": [
                {
                    "type": "mcp_approval_response",
                    "approval_request_id": "inb_1",
                    "approve": True,
                },
                {"role": "user", "content": "and more"},
            ]
        },
        "input",
    ),
    ({"tools": [{"type": "web_search"}]}, "tools"),
    ({"store": False}, "store"),
    ({"text": {"format": {"type": "json_object"}}}, "text.format"),
    ({"conversation": {"name": "x"}}, "conversation"),
    ({"conversation": "a", "previous_response_id": "resp_a:1"}, "previous_response_id"),
]


async def test_an_invalid_responses_request_is_refused(tmp_path: Path) -> None:
    async with talking(tmp_path) as client:
        for more, param in REFUSED_RESPONSES:
            with pytest.raises(openai.BadRequestError) as raised:
                await client.responses.create(**{"model": "ekiden", "input": "hello", **more})
            assert raised.value.param == param


async def test_an_unknown_response_or_session_is_not_found(tmp_path: Path) -> None:
    async with talking(tmp_path) as client:
        for nothing in ("resp_x", "resp_none:1", "x" * 20, "resp_a:1.x"):
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(nothing)
        with pytest.raises(openai.NotFoundError) as raised:
            await client.responses.create(
                model="ekiden", input="x", previous_response_id="resp_none:1"
            )
        assert raised.value.code == "previous_response_not_found"
        with pytest.raises(openai.NotFoundError) as raised:
            await chat(client, model="gpt-12")
        assert (raised.value.code, raised.value.param) == ("model_not_found", "model")
        verdict: Any = {
            "type": "mcp_approval_response",
            "approval_request_id": "inb_none",
            "approve": True,
        }
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="ekiden", input=[verdict])
        with pytest.raises(openai.BadRequestError):
            await chat(client, metadata={"session_id": "not an id"})


async def test_the_client_does_not_retry_a_failed_run(tmp_path: Path) -> None:
    model = ScriptedModel([fail(ModelError("the provider is down"))])
    async with talking(tmp_path, team=Team(Agent("one", model=model)), retries=2) as client:
        with pytest.raises(openai.InternalServerError, match="provider is down") as raised:
            await chat(client)
        assert (raised.value.status_code, raised.value.code) == (502, "model.failed")
    assert len(model.calls) == 1


async def test_a_broken_off_stream_reports_the_reason(tmp_path: Path) -> None:
    broken = stream(fail(ModelError("the provider is down")), chunks=["half an ans"])
    model = ScriptedModel([broken, broken, fail(ModelError("still down"))])
    async with talking(tmp_path, team=Team(Agent("one", model=model))) as client:
        text = ""
        with pytest.raises(openai.APIError, match="provider is down"):
            async for chunk in await chat(client, stream=True):
                text += chunk.choices[0].delta.content or ""
        assert text == "half an ans"
        streamed = await client.responses.create(model="one", input="x", stream=True)
        events: list[Any] = [event async for event in streamed]
        last = events[-1]
        kinds = [event.type for event in events]
        assert kinds[-2:] == ["response.output_item.done", "response.failed"]
        assert last.response.output[0].status == "incomplete"
        assert "provider is down" in last.response.error.message
        failed = await client.responses.create(model="one", input="x")
        assert (failed.status, failed.output_text) == ("failed", "")


async def test_a_refusal_of_the_model_is_returned_as_a_refusal(tmp_path: Path) -> None:
    refusal = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "I must not"}],
    }
    model = ScriptedModel([[refusal]] * 4)
    async with talking(tmp_path, team=Team(Agent("one", model=model))) as client:
        told = await chat(client)
        assert told.choices[0].message.refusal == "I must not"
        assert told.choices[0].message.content is None
        parts = [chunk async for chunk in await chat(client, stream=True)]
        assert [chunk.choices[0].delta.refusal for chunk in parts][1:] == ["I must not", None]
        response: Any = await client.responses.create(model="one", input="x")
        assert response.output[0].content[0].refusal == "I must not"
        kinds = [
            event.type
            async for event in await client.responses.create(model="one", input="x", stream=True)
        ]
        assert "response.refusal.done" in kinds


async def test_token_usage_is_returned(tmp_path: Path) -> None:
    used = Usage(requests=1, input_tokens=7, output_tokens=3, total_tokens=10)
    model = ScriptedModel([say("a", usage=used), say("b", usage=used)])
    async with talking(tmp_path, team=Team(Agent("one", model=model))) as client:
        usage = (await chat(client)).usage
        assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (7, 3, 10)
        response = await client.responses.create(model="one", input="x")
        assert response.usage is not None
        assert response.usage.total_tokens == 10


async def test_malformed_bodies_are_refused_without_a_traceback(tmp_path: Path) -> None:
    async with talking(tmp_path) as client:
        raw = client._client
        for path in ("chat/completions", "responses"):
            for body in (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"model": 7}'):
                answer = await raw.post(
                    f"{client.base_url}{path}",
                    content=body,
                    headers={"Content-Type": "application/json", "Authorization": "Bearer run"},
                )
                assert answer.status_code == 400, (path, body, answer.text)
                assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


async def test_storage_errors_have_the_error_format_of_openai(
    tmp_path: Path,
) -> None:
    async with talking(tmp_path) as client:
        answer = await client._client.post(
            f"{client.base_url}chat/completions",
            content=b'{"model":"ekiden","messages":[{"role":"user","content":"a\\ud800b"}]}',
            headers={"Content-Type": "application/json", "Authorization": "Bearer run"},
        )
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "request.invalid"
        nowhere = await client._client.get(
            f"{client.base_url}nowhere", headers={"Authorization": "Bearer read"}
        )
        assert nowhere.status_code == 404
        assert nowhere.json()["error"]["type"] == "invalid_request_error"
