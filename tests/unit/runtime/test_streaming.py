"""Watching a run while it happens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.model import ModelDelta
from ekiden.runtime import Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, delay, fail, hang, say, stream, transfer
from ekiden.tools import function_tool


@function_tool
async def look() -> str:
    """Look."""
    return "seen"


async def test_deltas_items_and_changes_of_agent_are_shown_in_order() -> None:
    model = ScriptedModel([[call("look")], transfer("b"), stream(say("all well"), chunks=2)])
    b = Agent("b", model=model)
    a = Agent("a", model=model, tools=[look], handoffs=[b])
    streaming = Runner.run_streamed(a, "hi")
    shown: list[Any] = []
    async for event in streaming.stream_events():
        match event.type:
            case "raw_response_event":
                if event.data.kind == "text":
                    shown.append(event.data.text)
            case "agent_updated_stream_event":
                shown.append(event.new_agent.name)
            case "run_item_stream_event":
                shown.append(event.name)
    assert shown == [
        "a",
        "tool_called",
        "tool_output",
        "handoff_requested",
        "handoff_occured",
        "b",
        "all ",
        "well",
        "message_output_created",
    ]
    assert streaming.is_complete
    assert streaming.final_output == "all well"
    assert streaming.result.chain == ["user", "a", "b"]


async def test_a_delta_is_shown_before_the_answer_is_complete() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([stream(delay(gate, say("ab")), chunks=["a"])])
    streaming = Runner.run_streamed(Agent("a", model=model), "hi")
    seen: list[str] = []
    async for event in streaming.events():
        if isinstance(event, ModelDelta):
            seen.append(event.text)
            gate.set()
    assert seen == ["a"]
    assert streaming.final_output == "ab"


async def test_a_streamed_run_is_stored_like_a_plain_one() -> None:
    plain, streamed = Session("p", store=MemoryStore()), Session("s", store=MemoryStore())
    for session in (plain, streamed):
        model = ScriptedModel([call("look", call_id="c1"), say("ok")])
        agent = Agent("a", model=model, tools=[look])
        if session is plain:
            await Runner.run(agent, "hi", session=session)
        else:
            async for _ in Runner.run_streamed(agent, "hi", session=session).events():
                pass
    first = [(event.type, event.items) for event in await plain.events()]
    assert first == [(event.type, event.items) for event in await streamed.events()]


async def test_leaving_the_loop_early_cancels_the_run_and_keeps_the_session() -> None:
    session = Session(store=MemoryStore())
    model = ScriptedModel([hang(), say("ok")])
    agent = Agent("a", model=model)
    events = Runner.run_streamed(agent, "hi", session=session).events()
    async for event in events:
        if isinstance(event, Event) and event.type == "agent_start":
            break
    await events.aclose()  # type: ignore[attr-defined]
    row = await session.row()
    assert (row.owner, row.status) == (None, "idle")
    assert (await Runner.resume(agent, session)).final_output == "ok"


async def test_cancel_stops_after_the_step_under_way() -> None:
    session = Session(store=MemoryStore())
    model = ScriptedModel([call("look"), say("ok")])
    agent = Agent("a", model=model, tools=[look])
    streaming = Runner.run_streamed(agent, "hi", session=session)
    async for event in streaming.events():
        if isinstance(event, Event) and event.type == "tool_call":
            streaming.cancel()
    assert not streaming.is_complete
    assert streaming.final_output is None
    assert (await session.row()).owner is None
    assert (await Runner.resume(agent, session)).final_output == "ok"


async def test_a_failure_is_raised_where_the_stream_is_read() -> None:
    agent = Agent("a", model=ScriptedModel([fail(ValueError("boom"))]))
    shown: list[str] = []
    with pytest.raises(ValueError, match="boom"):
        async for event in Runner.run_streamed(agent, "hi").events():
            assert isinstance(event, Event)
            shown.append(event.type)
    assert shown[-1] == "agent_error"


async def test_a_stream_can_be_read_once() -> None:
    streaming = Runner.run_streamed(Agent("a", model=ScriptedModel([say("ok")])), "hi")
    with pytest.raises(UserError, match="not over yet"):
        _ = streaming.result
    async for _ in streaming.events():
        pass
    with pytest.raises(UserError, match="can be read once"):
        async for _ in streaming.events():
            pass


async def test_a_code_agents_tool_calls_are_shown_while_it_works() -> None:
    gate = asyncio.Event()

    async def code(ctx: Any) -> str:
        await ctx.call("look")
        await gate.wait()
        return "ok"

    agent = Agent("code", run=code, tools=[look])
    async for event in Runner.run_streamed(agent, "hi").events():
        if isinstance(event, Event) and event.type == "tool_call":
            gate.set()
    assert gate.is_set()
