"""The scripted realtime server speaks as the provider's own types say, and checks what it gets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.realtime import RealtimeClientEvent, RealtimeServerEvent
from pydantic import TypeAdapter
from websockets.asyncio.client import ClientConnection, connect

from ekiden import UserError, function_tool
from ekiden.integrations.realtime import RealtimeAgent, RealtimeModelSettings
from ekiden.testing import (
    ManualClock,
    RealtimeServer,
    UnexpectedModelCall,
    UnusedSteps,
    call,
    crash,
    delay,
    say,
    stream,
    transfer,
)
from ekiden.testing.servers.openai import cut
from ekiden.testing.servers.realtime import fail_turn, heard
from tests.integration.realtime.conftest import talking

UPDATE = {"type": "session.update", "session": {"type": "realtime"}}


@function_tool
def lookup(order: int) -> str:
    """Look an order up."""
    return "on its way"


async def told(socket: ClientConnection, last: str) -> list[dict[str, Any]]:
    """What the server says up to a frame of the type `last`."""
    frames = []
    while not frames or frames[-1]["type"] != last:
        frames.append(json.loads(await socket.recv()))
    return frames


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
async def test_frames_of_the_test_server_match_the_providers_types() -> None:
    reader: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
    steps = [heard("hi"), [say("Hello."), call("lookup", order=1)], fail_turn("no"), say("x")]
    said = []
    async with RealtimeServer(steps) as server, connect(server.url, proxy=None) as socket:
        listens = {"transcription": {"model": "w"}}
        session = {"type": "realtime", "audio": {"input": listens}}
        await socket.send(json.dumps({"type": "session.update", "session": session}))
        await socket.send('{"type": "input_audio_buffer.append", "audio": "AAAA"}')
        said += await told(socket, "response.done")
        for _ in range(2):
            await socket.send('{"type": "response.create"}')
            said += await told(socket, "response.done")
        await socket.send('{"type": "response.cancel"}')
        said += await told(socket, "error")
    for frame in said:
        assert reader.validate_python(frame).type == frame["type"]
    assert len({frame["type"] for frame in said}) > 15
    assert len({frame["event_id"] for frame in said}) == len(said)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
async def test_frames_of_a_session_match_the_providers_types() -> None:
    reader: TypeAdapter[Any] = TypeAdapter(RealtimeClientEvent)
    settings = RealtimeModelSettings(
        voice="marin",
        speed=1.1,
        input_audio_format="pcm16",
        output_audio_format="g711_ulaw",
        input_audio_transcription={"model": "whisper-1"},
        input_audio_noise_reduction={"type": "near_field"},
        turn_detection={"type": "server_vad", "silence_duration_ms": 300},
        tool_choice="lookup",
        max_output_tokens="inf",
        extra={"tracing": "auto"},
    )
    desk = RealtimeAgent("desk", tools=[lookup], handoffs=[RealtimeAgent("other")])
    steps = [heard("a"), [call("lookup", order=1), transfer("other")], say("Ok."), say("Bye.")]
    async with talking(steps, desk, settings=settings) as (server, live):
        await live.session.send_audio(b"\x00\x01")
        await live.until_said("Ok.")
        await live.session.interrupt(played_ms=5)
        await live.session.send_message("Bye")
        await live.until_said("Bye.")
    assert server.complaints == ["No active response found."]
    assert live.of("error") == []
    for frame in server.frames:
        assert reader.validate_python(frame).type == frame["type"]
    assert server.frames[0]["session"] == {
        "type": "realtime",
        "instructions": "",
        "tools": server.frames[0]["session"]["tools"],
        "tool_choice": {"type": "function", "name": "lookup"},
        "max_output_tokens": "inf",
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "transcription": {"model": "whisper-1"},
                "noise_reduction": {"type": "near_field"},
                "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
            },
            "output": {"format": {"type": "audio/pcmu"}, "voice": "marin", "speed": 1.1},
        },
        "tracing": "auto",
    }
    assert server.queries == ["/v1/realtime?model=gpt-realtime"]


def tool(**changes: Any) -> dict[str, Any]:
    """A ``session.update`` with one tool."""
    made = {"type": "function", "name": "t", "parameters": {"type": "object"}, **changes}
    return {"type": "session.update", "session": {"type": "realtime", "tools": [made]}}


def item(**fields: Any) -> dict[str, Any]:
    """A ``conversation.item.create``."""
    return {"type": "conversation.item.create", "item": fields}


@pytest.mark.parametrize(
    "frame",
    [
        "{",
        "[]",
        '{"type": "response.fly"}',
        {"type": "session.update", "session": {}},
        {"type": "session.update", "session": {"type": "realtime", "instructions": 5}},
        tool(name="not a name"),
        tool(type="magic"),
        tool(parameters={"type": "string"}),
        {"type": "session.update", "session": {"type": "realtime", "tools": [
            {"type": "function", "name": "t", "parameters": {"type": "object"}}] * 2}},
        {"type": "conversation.item.create"},
        item(type="message", role="robot"),
        item(type="message", role="assistant", content=[{"type": "input_text"}]),
        item(type="message", role="user", id="x" * 33),
        item(type="function_call_output", call_id="c", output={"not": "text"}),
        item(type="function_call_output", call_id="unknown", output="text"),
        {"type": "input_audio_buffer.append", "audio": "***"},
        {"type": "conversation.item.truncate", "item_id": "i"},
        {"type": "conversation.item.truncate", "item_id": "i", "content_index": 0,
         "audio_end_ms": 1},
        {"type": "response.cancel"},
    ],
)  # fmt: skip
async def test_frames_the_api_would_refuse_are_refused(frame: Any) -> None:
    async with RealtimeServer() as server, connect(server.url, proxy=None) as socket:
        await socket.send(frame if isinstance(frame, str) else json.dumps(frame))
        error = (await told(socket, "error"))[-1]["error"]
    assert error["message"] == server.complaints[0]
    assert server.frames == []


async def test_duplicate_items_and_overlapping_responses_are_refused() -> None:
    once = item(type="message", role="user", id="m1", content=[])
    clock = ManualClock()
    steps = [delay(5, stream(say("Hello."), chunks=1), clock=clock)]
    async with RealtimeServer(steps) as server, connect(server.url, proxy=None) as socket:
        await socket.send(json.dumps(once))
        await socket.send(json.dumps(once))
        await socket.send('{"type": "input_audio_buffer.clear"}')
        await socket.send('{"type": "response.create"}')
        await socket.send('{"type": "response.create", "event_id": "mine"}')
        await server.until("response.create")
        await told(socket, "error")
        refused = (await told(socket, "error"))[-1]["error"]
        await clock.until_sleeping()
        clock.advance(5)
        await told(socket, "response.done")
    assert refused["code"] == "conversation_already_has_active_response"
    assert refused["event_id"] == "mine"
    assert server.complaints[0] == "Item with ID m1 already exists."


async def test_unused_and_missing_steps_are_errors() -> None:
    with pytest.raises(UnusedSteps, match="1 of 1 scripted steps"):
        async with RealtimeServer([say("never")]):
            pass
    for frame in ("response.create", "input_audio_buffer.commit"):
        with pytest.raises(UnexpectedModelCall, match="all steps were used"):
            async with RealtimeServer() as server, connect(server.url, proxy=None) as socket:
                await socket.send(json.dumps({"type": frame}))
                await server.until(frame)
                await socket.close()
    with pytest.raises(UnexpectedModelCall, match="the next step is say"):
        async with RealtimeServer([say("hm")]) as server, connect(server.url, proxy=None) as socket:
            await socket.send('{"type": "input_audio_buffer.commit"}')
            await server.until("input_audio_buffer.commit")
    with pytest.raises(UserError, match="a server cannot play crash"):
        RealtimeServer([crash()])


@pytest.mark.parametrize("how", ["end", "hang"])
async def test_a_server_can_stop_responding_or_end_early(how: Any) -> None:
    step = cut(say("Hello."), after=2, how=how)
    async with RealtimeServer([step]) as server, connect(server.url, proxy=None) as socket:
        await socket.send('{"type": "response.create"}')
        await told(socket, "conversation.item.added")
        if how == "end":
            await socket.wait_closed()
            assert socket.close_code == 1000
