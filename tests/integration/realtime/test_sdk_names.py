"""Live sessions with the SDK's names, over a WebSocket that checks every frame."""

from __future__ import annotations

from typing import Any

from ekiden.compat.agents import function_tool
from ekiden.compat.agents.realtime import (
    RealtimeAgent,
    RealtimePlaybackTracker,
    RealtimeRunner,
    realtime_handoff,
)
from ekiden.testing import RealtimeServer, call, say
from ekiden.testing.servers.openai import cut
from tests.integration.realtime.conftest import outputs, tool_names


@function_tool(needs_approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


async def test_an_unchanged_sdk_program_talks_hands_off_and_asks_for_approval() -> None:
    billing: RealtimeAgent[Any] = RealtimeAgent(name="Billing", instructions="Bill.", tools=[pay])
    triage: RealtimeAgent[Any] = RealtimeAgent(
        name="Triage", instructions="Sort.", handoffs=[realtime_handoff(billing)]
    )
    steps = [call("transfer_to_billing"), call("pay", cents=5), say("It is paid.")]
    async with RealtimeServer(steps) as server:
        runner = RealtimeRunner(triage, config={"model_settings": {"modalities": ["text"]}})
        options: Any = {"url": server.url, "api_key": "key"}
        async with await runner.run(model_config=options) as session:
            await session.send_message("Pay 5 cents")
            text, usage = "", 0
            async for event in session:
                if event.type == "tool_approval_required":
                    await session.approve_tool_call(event.call_id)
                elif event.type == "raw_model_event":
                    text += event.data.delta if event.data.type == "output_text_delta" else ""
                    usage += event.data.type == "usage"
                elif event.type == "agent_end" and text:
                    break
    assert (text, usage) == ("It is paid.", 3)
    assert event.agent is billing
    assert event.info.context.usage.requests == 3
    assert outputs(server) == ['{"assistant": "Billing"}', "paid 5"]
    first, second = server.sent("session.update")
    assert first["session"]["instructions"] == "Sort."
    assert (tool_names(first), tool_names(second)) == (["transfer_to_billing"], ["pay"])


async def test_speech_cancels_the_answer_if_the_server_does_not() -> None:
    agent: RealtimeAgent[Any] = RealtimeAgent(name="Desk")
    detection = {"type": "server_vad", "interrupt_response": False}
    async with RealtimeServer([cut(say("A long story."), after=4, how="hang")]) as server:
        options: Any = {
            "url": server.url,
            "api_key": "key",
            "initial_model_settings": {"turn_detection": detection},
        }
        async with await RealtimeRunner(agent).run(model_config=options) as session:
            await session.send_message("Tell me")
            async for event in session:
                if event.type == "audio":
                    await server.push({"type": "input_audio_buffer.speech_started"})
                elif event.type == "agent_end":
                    break
        assert server.kinds.count("response.cancel") == 1


async def test_an_interrupted_answer_is_truncated_where_it_was_heard() -> None:
    agent: RealtimeAgent[Any] = RealtimeAgent(name="Desk")
    async with RealtimeServer([say("A long story that nobody hears to its end.")]) as server:
        tracker = RealtimePlaybackTracker()
        options: Any = {
            "url": server.url,
            "api_key": "key",
            "playback_tracker": tracker,
            "initial_model_settings": {"output_audio_format": "g711_ulaw"},
        }
        async with await RealtimeRunner(agent).run(model_config=options) as session:
            await session.send_message("Tell me")
            async for event in session:
                if event.type == "audio":
                    tracker.on_play_bytes(event.item_id, event.content_index, b"x" * 8)
                    await session.interrupt()
                elif event.type == "audio_interrupted":
                    break
        [cut] = server.sent("conversation.item.truncate")
    assert cut["item_id"] == event.item_id
    assert cut["audio_end_ms"] == 1
