"""Sessions that wait: for which questions, and until when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.app.parking import questions_to_people, until_it_moves
from ekiden.core.agent import Agent
from ekiden.core.asking import Ask
from ekiden.core.errors import SessionNotFound, StoreUnavailable
from ekiden.core.team import Team
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.base import SessionRow
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock


async def pm(ctx: CodeContext[Any]) -> str:
    answers = await ctx.ask_all(
        [Ask(agent="sales", subject="discount"), Ask(agent="legal", subject="contract")]
    )
    return " and ".join(answers)


async def sales(ctx: CodeContext[Any]) -> str:
    answer = await ctx.request_approval("a discount?", ("yes", "no"))
    return f"discount: {answer.choice}"


async def legal(ctx: CodeContext[Any]) -> str:
    answer = await ctx.request_approval("the contract?", deadline_s=60, default="reject")
    return f"contract: {answer.choice}"


TEAM = Team(Agent("pm", run=pm), Agent("sales", run=sales), Agent("legal", run=legal))


async def parked(store: MemoryStore, config: RunConfig | None = None) -> Session:
    """A session that waits for two people, through agents that it asked."""
    session = Session("s", store=store)
    await Runner.run(TEAM, "go", session=session, run_config=config)
    return session


async def test_questions_are_found_through_the_agents_that_were_asked() -> None:
    store = MemoryStore()
    await parked(store)
    first, second = await questions_to_people(store, "s")
    assert {first.subject, second.subject} == {"a discount?", "the contract?"}
    await Inbox(store).answer(first.id, choice=first.options[0], by="mira")
    assert [item.id for item in await questions_to_people(store, "s")] == [second.id]


async def test_a_session_that_waits_for_nobody_has_no_questions() -> None:
    store = MemoryStore()

    async def greet(ctx: CodeContext[Any]) -> str:
        return "hello"

    await Runner.run(Agent("clerk", run=greet), "go", session=Session("s", store=store))
    assert await questions_to_people(store, "s") == []
    assert await questions_to_people(store, "nobody") == []


async def test_an_answer_to_an_agent_that_was_asked_moves_the_session() -> None:
    store = MemoryStore()
    session = await parked(store)
    waiting = asyncio.create_task(until_it_moves(store, "s"))
    await asyncio.sleep(0)
    for item in await questions_to_people(store, "s"):
        assert not waiting.done()
        await Inbox(store).answer(item.id, choice=item.options[0], by="mira")
        break
    async with asyncio.timeout(30):
        assert await waiting
    result = await Runner.resume(TEAM, session)
    assert result.outcome.kind == "waiting", "the other one has not answered"


async def test_what_is_due_is_seen_to_meanwhile() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    await parked(store, RunConfig(clock=clock))
    clock.advance(61)
    async with asyncio.timeout(30):
        assert await until_it_moves(store, "s")
    assert [item.subject for item in await questions_to_people(store, "s")] == ["a discount?"]


async def test_somebody_else_may_end_the_run_meanwhile() -> None:
    store = MemoryStore()
    session = await parked(store)
    for item in await questions_to_people(store, "s"):
        await Inbox(store).answer(item.id, choice=item.options[0], by="mira")
    result = await Runner.wait(TEAM, session)
    assert result.final_output == "discount: yes and contract: approve"
    assert await until_it_moves(store, "s") is False


async def test_nobody_waits_longer_than_they_want_to() -> None:
    store = MemoryStore()
    await parked(store)
    with pytest.raises(TimeoutError):
        await until_it_moves(store, "s", timeout_s=0)
    with pytest.raises(SessionNotFound):
        await until_it_moves(store, "other")


async def test_a_store_that_is_away_is_waited_for_and_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Flaky(MemoryStore):
        outages = 0

        async def get(self, session_id: str) -> SessionRow:
            if self.outages:
                self.outages -= 1
                raise StoreUnavailable("the network is down")
            return await super().get(session_id)

    monkeypatch.setattr("ekiden.app.parking._LOOK_EVERY_S", 0.001)
    store = Flaky()
    session = await parked(store)
    for item in await questions_to_people(store, "s"):
        await Inbox(store).answer(item.id, choice=item.options[0], by="mira")
    told: list[str] = []
    store.outages = 2
    async with asyncio.timeout(30):
        moved = await until_it_moves(store, "s", on_outage=lambda exc: told.append(str(exc)))
    assert (moved, told) == (True, ["the network is down", "None"])
    assert (await Runner.resume(TEAM, session)).outcome.kind == "done"
