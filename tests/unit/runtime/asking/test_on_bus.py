"""Sessions and the bus: agents that are handlers are asked by sessions, and the other way round."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.bus import Bus
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.errors.messages import DeadlockError, QueryFailed, QueryTimeout
from ekiden.engine import BusServer, Worker, submit
from ekiden.runtime import CodeContext, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from tests.unit.runtime.asking.desks import open_waits, outcome, said, team_of, work


async def asks_price(ctx: CodeContext[Any]) -> str:
    return f"it costs {await ctx.ask('price', 'lamp', {'id': 1}, timeout_s=60)}"


async def price(message: AgentMessage) -> Any:
    assert (message.from_agent, message.subject) == ("desk", "lamp")
    return message.payload["id"] + 41


async def test_a_session_asks_an_agent_that_is_a_handler_on_the_bus() -> None:
    store = MemoryStore()
    async with Bus(store) as bus, await bus.serve("price", price):
        team = team_of(desk=asks_price)
        result = await Runner.run(team, "go", session=Session("one", store=store))
        assert result.final_output == "it costs 42"
        worker = Worker(store, team)
        await submit(team, "go", session=Session("two", store=store))
        running = asyncio.create_task(worker.run())
        while (await outcome(store, "two"))[1] != "done":
            await store.wait_for_change(1)
        worker.stop()
        await running
        assert await said(store, "two") == "it costs 42"
    assert await open_waits(store) == []


async def test_a_question_without_a_subject_has_no_subject_line() -> None:
    async def echo(ctx: CodeContext[Any]) -> str:
        return ctx.text.splitlines()[0]

    store, team = MemoryStore(), team_of(echo=echo)
    worker = Worker(store, team)
    async with Bus(store) as bus, BusServer(bus, store, team):
        running = asyncio.create_task(worker.run())
        answer = await bus.agent("desk").ask("echo", "", "how much?", timeout_s=60)
        worker.stop()
        await running
    assert answer == "The agent 'desk' has a question for you."


async def test_the_error_of_a_handler_reaches_the_session_that_asked() -> None:
    async def broken(message: AgentMessage) -> Any:
        raise ValueError("no prices today")

    store = MemoryStore()
    async with Bus(store) as bus, await bus.serve("price", broken):
        with pytest.raises(QueryFailed, match="no prices today"):
            await Runner.run(team_of(desk=asks_price), "go", session=Session("s", store=store))


async def test_a_handler_that_does_not_answer_is_a_timeout() -> None:
    async def silent(message: AgentMessage) -> Any:
        await asyncio.Event().wait()

    async def hurried(ctx: CodeContext[Any]) -> str:
        return str(await ctx.ask("price", "lamp", timeout_s=0.05))

    store = MemoryStore()
    async with Bus(store) as bus, await bus.serve("price", silent):
        with pytest.raises(QueryTimeout, match="within 0.05 s"):
            await Runner.run(team_of(desk=hurried), "go", session=Session("s", store=store))


async def test_agents_of_a_team_are_asked_on_the_bus() -> None:
    async def orders(ctx: CodeContext[Any]) -> Any:
        return {"order": 7, "for": ctx.received["from"]}

    store, team = MemoryStore(), team_of(orders=orders)
    worker = Worker(store, team)
    async with Bus(store) as bus, BusServer(bus, store, team):
        running = asyncio.create_task(worker.run())
        answers = await asyncio.gather(
            *(bus.agent(f"asker{n}").ask("orders", "state?", timeout_s=60) for n in range(5))
        )
        assert [answer["for"] for answer in answers] == [f"asker{n}" for n in range(5)]
        worker.stop()
        await running
    rows = (await store.list()).sessions
    assert [row.outcome for row in rows] == ["done"] * 5
    assert await open_waits(store) == []


async def test_a_message_to_an_agent_of_a_team_creates_a_session() -> None:
    heard: list[str] = []

    async def archive(ctx: CodeContext[Any]) -> str:
        heard.append(ctx.received["reason"])
        return "filed"

    store, team = MemoryStore(), team_of(archive=archive)
    async with Bus(store) as bus, BusServer(bus, store, team):
        await bus.agent("desk").send("archive", "order 7 is done")
        while not (await store.list()).sessions:
            await store.wait_for_change(1)
        await work(store, team)
    assert heard == ["order 7 is done"]


async def test_a_cycle_through_sessions_and_the_bus_is_detected() -> None:
    """desk (a session) asks price (a handler), whose handler asks desk."""
    told: list[DeadlockError] = []

    async def desk(ctx: CodeContext[Any]) -> str:
        if ctx.received:
            return "desk itself"
        try:
            return str(await ctx.ask("price", "lamp", timeout_s=60))
        except DeadlockError as exc:
            told.append(exc)
            return "gave up"

    store, team = MemoryStore(), team_of(desk=desk)
    worker = Worker(store, team)
    async with Bus(store) as bus:

        async def asks_back(message: AgentMessage) -> Any:
            return await bus.agent("price").ask("desk", "which lamp?", timeout_s=60)

        async with BusServer(bus, store, team), await bus.serve("price", asks_back):
            running = asyncio.create_task(worker.run())
            await submit(team, "go", session=Session("s", store=store))
            while (await outcome(store))[1] != "done":
                await store.wait_for_change(1)
            worker.stop()
            await running
    assert await said(store) == "gave up"
    assert sorted(told[0].cycle[:-1]) == ["desk", "price"]
