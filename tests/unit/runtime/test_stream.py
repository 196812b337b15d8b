"""Watching a run while it happens."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.roles import RemoteTask
from ekiden.runtime import CodeContext, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import (
    ScriptedModel,
    ScriptedRunner,
    call,
    delay,
    fail,
    hang,
    say,
    stream,
    transfer,
)
from ekiden.tools import function_tool


@function_tool
async def look() -> str:
    """Look."""
    return "seen"


async def test_a_stream_shows_deltas_items_and_agent_changes_in_order() -> None:
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


async def test_a_failure_is_raised_in_the_reader_of_the_stream() -> None:
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


async def test_published_progress_is_streamed_once_despite_a_replay() -> None:
    gate = asyncio.Event()

    async def answer(ctx: CodeContext) -> str:
        ctx.publish("half", 50)
        await gate.wait()
        return "yes"

    async def work(ctx: CodeContext) -> str:
        ctx.publish("begun")
        said = await ctx.ask("helper", "well?")
        ctx.publish("asked", said)
        return "done"

    store = MemoryStore()
    team = Team(Agent("worker", run=work), Agent("helper", run=answer))
    streaming = Runner.run_streamed(team, "go", session=Session("s1", store=store))
    seen, stored = [], []
    async for shown in streaming.events():
        if isinstance(shown, ModelDelta):
            seen.append((shown.text, shown.data, shown.session_id == "s1"))
            gate.set()
        elif shown.details and "published" in shown.details:
            stored.append(shown.details["published"])
            assert stored[-1] in [name for name, _, _ in seen]
    assert seen == [("begun", None, True), ("half", 50, False), ("asked", "yes", True)]
    assert stored == ["half", "begun", "asked"]


async def test_cancelling_now_cancels_the_remote_agent_and_keeps_the_session() -> None:
    began, ended = asyncio.Event(), []

    async def never(task: RemoteTask) -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return ""

    session = Session("s1", store=MemoryStore())
    with ScriptedRunner([never, "well"]) as runner:
        desk = Agent("desk", runner=runner)
        streaming = Runner.run_streamed(desk, "hi", session=session)
        with pytest.raises(UserError, match="later"):
            streaming.cancel("later")  # type: ignore[arg-type]

        async def read() -> list[str]:
            return [shown.type async for shown in streaming.events() if isinstance(shown, Event)]

        reading = asyncio.create_task(read())
        await began.wait()
        streaming.cancel("now")
        async with asyncio.timeout(60):
            assert await reading == ["message", "agent_start"]
        assert ended == ["cancelled"]
        assert (await Runner.resume(desk, session)).final_output == "well"


async def test_a_stream_ends_if_its_run_is_cancelled_before_the_first_step() -> None:
    streaming = Runner.run_streamed(Agent("a", model=ScriptedModel([])), "hi")

    async def read() -> list[str]:
        return [shown.type async for shown in streaming.events() if isinstance(shown, Event)]

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    streaming.cancel("now")
    async with asyncio.timeout(60):
        assert await reading == []
    assert not streaming.is_complete


@pytest.mark.parametrize("kind", ["events", "stream_events"])
def test_a_stream_reader_that_raises_leaves_no_warnings(
    kind: str,
    tmp_path: Path,
    recwarn: pytest.WarningsRecorder,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def read(store: SqliteStore, session_id: str) -> None:
        session = Session(session_id, store=store)
        agent = Agent("a", model=ScriptedModel([hang()]))
        async for _ in getattr(Runner.run_streamed(agent, "hi", session=session), kind)():
            raise LookupError(kind)

    async def caught() -> None:
        async with SqliteStore(tmp_path / "a.db") as store:
            with pytest.raises(LookupError):
                await read(store, "s")
            async with asyncio.timeout(60):
                while (await store.get("s")).owner is not None:
                    await store.wait_for_change(1)

    async def not_caught() -> None:
        async with SqliteStore(tmp_path / "a.db") as store:
            await read(store, "another")

    asyncio.run(caught())
    with pytest.raises(LookupError):
        asyncio.run(not_caught())
    gc.collect()
    assert not caplog.records
    assert not recwarn.list
