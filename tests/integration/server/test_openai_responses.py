"""`/v1/responses` with the official client, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from fastapi import FastAPI
from openai.types.responses import Response

from ekiden.project.service import TenantService
from tests.support.openai_clients import openai_client
from tests.support.relay_team import REFUNDS, relay_team
from tests.support.serving import application, served


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[FastAPI]:
    REFUNDS.clear()
    async with application(tmp_path, team=relay_team(), store=str(tmp_path / "s.db")) as app:
        yield app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        served(app) as url,
        openai_client(url) as client,
    ):
        yield client


async def ask(client: openai.AsyncOpenAI, given: Any, *, stream: bool = False, **more: Any) -> Any:
    """The response; of a stream the last event's, with its events in order."""
    if not stream:
        return await client.responses.create(model="ekiden", input=given, **more)
    streamed = await client.responses.create(model="ekiden", input=given, stream=True, **more)
    events: list[Any] = [event async for event in streamed]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type == "response.completed"
    told = {event.output_index: event.item for event in events if event.type.endswith("item.done")}
    assert list(told.values()) == events[-1].response.output
    return events[-1].response


async def read(client: openai.AsyncOpenAI, response: Response) -> Response:
    return await client.responses.retrieve(response.id)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_responses_conversation_includes_a_handoff_and_an_approval(
    client: openai.AsyncOpenAI, stream: bool
) -> None:
    hello = await ask(client, "hello", stream=stream)
    assert hello.output_text == "you said: hello"
    assert hello.metadata["agent"] == "desk"
    waits = await ask(client, "refund it", stream=stream, previous_response_id=hello.id)
    assert waits.previous_response_id == hello.id
    [request] = waits.output
    assert (request.type, request.name, request.server_label) == (
        "mcp_approval_request",
        "refund",
        "ekiden",
    )
    assert request.arguments == '{"order":"1042"}'
    assert REFUNDS == []
    verdict = {
        "type": "mcp_approval_response",
        "approval_request_id": request.id,
        "approve": True,
    }
    done = await ask(client, [verdict], stream=stream, previous_response_id=waits.id)
    assert done.output_text == "1042 is paid back"
    assert REFUNDS == ["1042"]
    assert done.id != waits.id
    thanks = await ask(client, "thanks", stream=stream, previous_response_id=done.id)
    assert thanks.output_text == "you said: thanks"
    assert thanks.conversation is not None
    assert thanks.conversation.id == hello.metadata["session_id"]
    for each in (hello, done, thanks):
        assert (await read(client, each)).output == each.output


async def test_a_rejection_is_accepted_and_may_be_repeated(
    client: openai.AsyncOpenAI,
) -> None:
    waits = await ask(client, "refund it")
    verdict = {
        "type": "mcp_approval_response",
        "approval_request_id": waits.output[0].id,
        "approve": False,
        "reason": "不行",
    }
    first = await ask(client, [*waits.output, verdict])
    assert "the person refused: 不行" in first.output_text
    again = await ask(client, [verdict], previous_response_id=waits.id)
    assert again.output_text == first.output_text
    with pytest.raises(openai.ConflictError):
        await ask(client, [{**verdict, "approve": True}], previous_response_id=waits.id)
    assert REFUNDS == []


async def test_an_approval_of_another_conversation_is_refused(
    client: openai.AsyncOpenAI,
) -> None:
    waits = await ask(client, "refund it")
    other = await ask(client, "hello")
    verdict = {
        "type": "mcp_approval_response",
        "approval_request_id": waits.output[0].id,
        "approve": True,
    }
    with pytest.raises(openai.BadRequestError, match="was not asked in session"):
        await ask(client, [verdict], previous_response_id=other.id)
    assert REFUNDS == []


async def test_a_streamed_text_arrives_in_chunks(
    client: openai.AsyncOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    pieces = []
    async with client.responses.stream(model="ekiden", input="hold:go now") as stream:
        async for event in stream:
            if event.type == "response.in_progress":
                (tmp_path / "go").touch()  # Of an answer that is over only the whole is shown.
            elif event.type == "response.output_text.delta":
                pieces.append(event.delta)
        final = await stream.get_final_response()
    assert pieces == ["you ", "said: ", "hold:go ", "now"]
    assert final.output_text == "you said: hold:go now"


async def test_a_new_message_withdraws_the_pending_approval(client: openai.AsyncOpenAI) -> None:
    waits = await ask(client, "refund it")
    told = await ask(client, "no, wait", previous_response_id=waits.id)
    assert told.output_text == "you said: no, wait"
    with pytest.raises(openai.BadRequestError, match="continued after this response"):
        await ask(client, "again", previous_response_id=waits.id)


async def test_a_background_response_is_read_later_or_cancelled(
    client: openai.AsyncOpenAI, app: FastAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    begun = await ask(client, "hold:go", background=True)
    other = await ask(client, "hold:never", background=True)
    assert begun.status in ("queued", "in_progress")
    (tmp_path / "go").touch()
    desk: TenantService = await app.state.service.tenant_service()
    await desk.runs.wait(begun.metadata["run_id"], timeout_s=60)
    assert (await read(client, begun)).output_text == "you said: hold:go"
    cancelled = await client.responses.cancel(other.id)
    assert cancelled.status == "cancelled"


async def test_tool_calls_are_shown_on_request(client: openai.AsyncOpenAI) -> None:
    shown = {"X-Ekiden-Show": "tools,handoffs"}
    waits = await ask(client, "refund it", extra_headers=shown, stream=True)
    assert [item.type for item in waits.output] == ["mcp_call", "mcp_approval_request"]
    assert waits.output[0].name == "transfer_to_desk"
    verdict = {
        "type": "mcp_approval_response",
        "approval_request_id": waits.output[1].id,
        "approve": True,
    }
    done = await ask(client, [verdict], previous_response_id=waits.id, extra_headers=shown)
    assert [item.type for item in done.output] == ["mcp_call", "message"]
    whole: Any = await client.responses.retrieve(waits.id, extra_headers=shown)
    assert [item.type for item in whole.output] == ["mcp_call", "mcp_call", "message"]
    assert whole.output[1].output == "1042 is paid back"


async def test_a_conversation_is_a_session(client: openai.AsyncOpenAI) -> None:
    first = await ask(client, "one", conversation="mine", metadata={"order": "7"})
    assert first.metadata["run_id"] == "mine:1"
    assert first.metadata["order"] == "7"
    second = await ask(client, "two", conversation={"id": "mine"}, instructions="be brief")
    assert second.metadata["run_id"] == "mine:2"
    with pytest.raises(openai.ConflictError, match="api/v1/sessions/mine"):
        await client.responses.delete(second.id)


async def test_a_response_without_successor_can_be_deleted(client: openai.AsyncOpenAI) -> None:
    told = await ask(client, "hello")
    await client.responses.delete(told.id)
    with pytest.raises(openai.NotFoundError):
        await read(client, told)
    with pytest.raises(openai.NotFoundError, match="no response is called"):
        await ask(client, "hello", previous_response_id=told.id)


async def test_parallel_streams_do_not_mix(client: openai.AsyncOpenAI) -> None:
    told = await asyncio.gather(*(ask(client, f"number {n}", stream=True) for n in range(20)))
    assert [each.output_text for each in told] == [f"you said: number {n}" for n in range(20)]
