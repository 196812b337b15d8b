"""A live session: requests, interruptions, readers, and how it is closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden import ToolContext, UserError, function_tool
from ekiden.integrations.realtime import (
    RealtimeAgent,
    RealtimeClosed,
    RealtimeModelSettings,
    RealtimeRunner,
    RealtimeWebSocketModel,
    realtime_handoff,
)
from ekiden.testing import RealtimeServer, call, delay, say
from ekiden.testing.servers.openai import cut, garbled
from ekiden.testing.servers.realtime import heard
from tests.integration.realtime.conftest import outputs, talking

SPOKEN = RealtimeModelSettings(turn_detection={"type": "server_vad"})


@function_tool
def clock(ctx: ToolContext[Any]) -> str:
    """What time it is."""
    return f"noon for {ctx.context}, {ctx.tool_call_id}"


async def test_the_answer_continues_while_a_tool_runs() -> None:
    release = asyncio.Event()

    @function_tool
    async def wait() -> str:
        """Wait."""
        await release.wait()
        return "done"

    desk = RealtimeAgent("desk", tools=[wait])
    steps = [call("wait"), say("Meanwhile."), say("It is done.")]
    async with talking(steps, desk) as (server, live):
        await live.session.send_message("Start")
        await live.until_type("tool_start")
        await live.session.send_message("Are you there?")
        await live.until_said("Meanwhile.")
        release.set()
        await live.until_said("It is done.")
    assert outputs(server) == ["done"]


async def test_a_request_during_an_answer_waits_for_its_end() -> None:
    gate = asyncio.Event()
    steps = [delay(gate, say("First.")), say("Second.")]
    async with talking(steps, RealtimeAgent("desk")) as (server, live):
        await live.session.send_message("One")
        await live.until_type("agent_start")
        await live.session.send_message("Two")
        await live.session.send_message("Three")
        await server.until("conversation.item.create", 3)
        assert server.kinds.count("response.create") == 1
        gate.set()
        await live.until_said("Second.")
    assert server.kinds.count("response.create") == 2
    assert server.complaints == []


async def test_a_request_refused_because_of_an_active_answer_is_repeated() -> None:
    busy = {"code": "conversation_already_has_active_response", "message": "busy"}
    async with talking([say("Twice.")], RealtimeAgent("desk")) as (server, live):
        await server.push({"type": "response.created", "response": {"id": "r0"}})
        await live.until_type("agent_start")
        await server.push({"type": "error", "error": busy})
        await server.push(
            {"type": "response.done", "response": {"id": "r0", "status": "completed"}}
        )
        await live.until_said("Twice.")
    assert live.of("error") == []


async def test_an_interruption_stops_the_answer_and_the_playback() -> None:
    gate = asyncio.Event()
    desk = RealtimeAgent("desk")
    steps = [say("A long story."), delay(gate, say("More.")), say("Yes?")]
    async with talking(steps, desk, settings=RealtimeModelSettings()) as (server, live):
        await live.session.interrupt()
        await live.session.send_message("Tell me")
        await live.until_said("A long story.")
        await live.session.send_message("And then?")
        await live.until_type("agent_start")
        await live.session.interrupt(played_ms=120)
        await live.until_type("audio_interrupted")
        await live.until_type("agent_end")
        await live.session.send_message("Hello?")
        await live.until_said("Yes?")
    assert server.kinds.count("response.cancel") == 1
    [truncated] = server.sent("conversation.item.truncate")
    assert truncated["audio_end_ms"] == 120
    assert live.of("error") == []


async def test_user_speech_stops_the_playback() -> None:
    desk = RealtimeAgent("desk")
    steps = [heard("hello"), say("Hi there."), heard("stop"), say("Ok.")]
    async with talking(steps, desk, settings=SPOKEN) as (_, live):
        await live.session.send_audio(b"\x00\x01")
        await live.until_said("Hi there.")
        await live.session.send_audio(bytearray(b"\x00\x01"))
        stopped = await live.until_type("audio_interrupted")
        await live.until_said("Ok.")
    assert stopped.item_id == live.of("audio")[0].item_id
    assert live.of("audio_end")[0].item_id == stopped.item_id


async def test_calls_of_an_interrupted_answer_are_not_made() -> None:
    desk = RealtimeAgent("desk", tools=[clock])
    called = {"type": "function_call", "id": "i1", "call_id": "c1", "name": "clock"}
    async with talking([], desk) as (server, live):
        await server.push({"type": "response.created", "response": {"id": "r1"}})
        item = {**called, "status": "completed", "arguments": "{}"}
        done = {"type": "response.output_item.done", "response_id": "r1", "item": item}
        await server.push({**done, "output_index": 0})
        stopped = {"id": "r1", "status": "cancelled", "output": [item]}
        await server.push({"type": "response.done", "response": stopped})
        await live.until_type("error")
    assert live.of("tool_start") == []
    assert server.complaints == ["Tool call ID 'c1' not found in conversation."]


async def test_calls_of_an_interrupted_answer_are_answered_before_the_next_request() -> None:
    desk = RealtimeAgent("desk", tools=[clock])
    async with talking([cut(call("clock"), after=6, how="hang"), say("Ok.")], desk) as (
        server,
        live,
    ):
        await live.session.send_message("What time is it?")
        await live.until(lambda event: getattr(event, "data", event).type == "function_call")
        await live.session.send_message("Never mind.")
        await live.session.interrupt()
        await live.until_said("Ok.")
    stopped = server.kinds.index("response.cancel")
    assert server.kinds[stopped:] == [
        "response.cancel",
        "conversation.item.create",
        "response.create",
    ]


async def test_audio_that_arrives_after_an_interruption_is_dropped() -> None:
    audio = {"type": "response.output_audio.delta", "content_index": 0, "delta": "AAAA"}
    async with talking([], RealtimeAgent("desk")) as (server, live):
        for answer in ("r1", "r2"):
            await server.push({"type": "response.created", "response": {"id": answer}})
            where = {"response_id": answer, "item_id": f"of {answer}"}
            await server.push({**audio, **where})
            await live.until_type("audio")
            if answer == "r1":
                await live.session.interrupt()
                await server.push({**audio, **where})
                done = {"id": answer, "status": "cancelled"}
                await server.push({"type": "response.done", "response": done})
    assert [event.item_id for event in live.of("audio")] == ["of r1", "of r2"]


async def test_unknown_frames_are_passed_on_and_ignored() -> None:
    rare = {"type": "conversation.item.added", "item": {"type": "mcp_call", "id": "x"}}
    async with talking([garbled('{"type": "rate_limits.updated"}')], RealtimeAgent("a")) as (
        s,
        live,
    ):
        await s.push(rare)
        await live.session.send_message("Hi")
        await live.until_type("agent_end")
    others = [
        event.data.data["type"]
        for event in live.of("raw_model_event")
        if event.data.type == "other"
    ]
    assert {"session.created", "rate_limits.updated", "conversation.item.added"} <= set(others)
    assert live.session.history[0].text == "Hi"


async def test_an_item_deleted_by_the_provider_is_removed() -> None:
    async with talking([say("Hi.")], RealtimeAgent("desk")) as (server, live):
        await live.session.send_message("Hello")
        await live.until_said("Hi.")
        await server.push({"type": "conversation.item.deleted", "item_id": "nobody knows it"})
        gone = live.session.history[0].item_id
        await server.push({"type": "conversation.item.deleted", "item_id": gone})
        updated = await live.until_type("history_updated")
    assert [item.text for item in updated.history] == ["Hi."]


async def test_closing_cancels_running_tools_and_ends_the_iteration() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @function_tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    desk = RealtimeAgent("desk", tools=[wait])
    async with talking([call("wait")], desk) as (_, live):
        await live.session.send_message("Hi")
        await begun.wait()
        await live.session.close()
        assert cancelled.is_set()
        await live.rest()
        await live.session.close()
        with pytest.raises(RealtimeClosed, match="async with"):
            await live.session.interrupt()
        with pytest.raises(RealtimeClosed):
            await live.session.enter()


async def test_a_cancelled_caller_leaves_no_task_or_connection(triage: RealtimeAgent[Any]) -> None:
    entered = asyncio.Event()

    async def hold(server: RealtimeServer) -> None:
        model = RealtimeWebSocketModel(url=server.url)
        async with await RealtimeRunner(triage, model=model).run() as session:
            entered.set()
            async for _ in session:
                pass

    async with RealtimeServer() as server:
        task = asyncio.create_task(hold(server))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert others == set()


async def test_a_closed_session_refuses_further_use(
    triage: RealtimeAgent[Any],
) -> None:
    async with talking([], triage) as (server, live):
        await live.session.close()
        await live.rest()
    assert server.kinds in ([], ["session.update"])
    unused = await RealtimeRunner(triage, model=RealtimeWebSocketModel(url="ws://localhost")).run()
    await unused.close()
    with pytest.raises(RealtimeClosed):
        await unused.send_message("Hi")
    with pytest.raises(RealtimeClosed, match="entered once"):
        await unused.enter()


async def test_a_slow_reader_slows_the_model_and_misses_nothing() -> None:
    desk = RealtimeAgent("desk")
    async with talking([say("x" * 50)], desk, max_waiting_events=2) as (server, live):
        await live.session.send_message("Hi")
        for number in range(20):
            await server.push({"type": "filler", "number": number})
        numbers: list[int] = []
        while len(numbers) < 20:
            event = await live.until_type("raw_model_event")
            if event.data.type == "other" and event.data.data["type"] == "filler":
                numbers.append(event.data.data["number"])
    assert numbers == list(range(20))


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("  ", "must not be empty"),
        ({"content": []}, "must not be empty"),
        ({"role": "user"}, "a message is a text"),
        ({"content": ["hi"]}, "a message is a text"),
        ({"content": [{"type": "input_text", "text": 5}]}, "a message is a text"),
        ({"content": [{"type": "input_audio", "audio": b"not JSON"}]}, "a message is a text"),
        (5, "a message is a text"),
    ],
)
async def test_an_invalid_message_is_refused_before_anything_is_sent(
    message: Any, problem: str
) -> None:
    async with talking([], RealtimeAgent("desk")) as (server, live):
        with pytest.raises(UserError, match=problem):
            await live.session.send_message(message)
        with pytest.raises(UserError, match="audio must be bytes"):
            await live.session.send_audio("hi")  # type: ignore[arg-type]
        with pytest.raises(UserError, match="needs a RealtimeAgent"):
            await live.session.update_agent("billing")  # type: ignore[arg-type]
    assert server.kinds in ([], ["session.update"])


async def test_content_parts_and_lone_surrogates_are_sent_unchanged() -> None:
    parts = [
        {"type": "input_text", "text": "\ud83d"},
        {"type": "input_image", "image_url": "data:"},
    ]
    async with talking([say("I see.")], RealtimeAgent("desk")) as (server, live):
        await live.session.send_message({"type": "message", "role": "user", "content": parts})
        await live.until_said("I see.")
    assert server.frames[1]["item"]["content"] == parts


async def test_duplicate_tool_names_are_refused_before_connecting() -> None:
    other = RealtimeAgent("other")
    edge = realtime_handoff(other, tool_name_override="clock")
    desk = RealtimeAgent("desk", tools=[clock], handoffs=[edge])
    with pytest.raises(UserError, match="`clock` is also the name of the handoff"):
        async with talking([], desk):
            pass


async def test_a_transcript_before_its_item_is_added_to_the_history() -> None:
    async with talking([], RealtimeAgent("desk")) as (server, live):
        said = {"item_id": "i1", "content_index": 0, "transcript": "hello"}
        kind = "conversation.item.input_audio_transcription.completed"
        await server.push({"type": kind, **said})
        added = await live.until_type("history_added")
    assert (added.item.role, added.item.text) == ("user", "hello")


async def test_settings_prepared_for_the_previous_agent_are_dropped() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()
    slow = False

    async def instructions(ctx: Any, agent: Any) -> str:
        if slow:
            asked.set()
            await answer.wait()
        return "I am the desk."

    other = RealtimeAgent("other")
    desk = RealtimeAgent("desk", instructions=instructions, handoffs=[other])
    async with talking([say("Other.")], desk) as (server, live):
        slow = True
        async with asyncio.TaskGroup() as group:
            group.create_task(live.session.send_message("Hi"))
            await asked.wait()
            await live.session.update_agent(other)
            answer.set()
        await live.until_said("Other.")
    assert server.session["instructions"].startswith("# What you were handed")
