"""Sessions that wait: for which questions, and how another process ended them."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.questions import Ask
from ekiden.inbox import Inbox
from ekiden.project.run_tasks import finished_run
from ekiden.project.stored_runs import questions_to_people
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.sessions import Session
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


async def suspended(store: MemoryStore, config: RunConfig | None = None) -> Session:
    """A session that waits for two people, through agents that it asked."""
    session = Session("s", store=store)
    await Runner.run(TEAM, "go", session=session, run_config=config)
    return session


async def test_questions_are_found_through_the_asked_agents() -> None:
    store = MemoryStore()
    await suspended(store)
    first, second = await questions_to_people(store, "s")
    assert {first.subject, second.subject} == {"a discount?", "the contract?"}
    await Inbox(store).answer(first.id, choice=first.options[0], by="mira")
    assert [item.id for item in await questions_to_people(store, "s")] == [second.id]


async def test_a_session_that_waits_for_nothing_has_no_questions() -> None:
    store = MemoryStore()

    async def greet(ctx: CodeContext[Any]) -> str:
        return "hello"

    await Runner.run(Agent("clerk", run=greet), "go", session=Session("s", store=store))
    assert await questions_to_people(store, "s") == []
    assert await questions_to_people(store, "nobody") == []


async def test_an_expired_question_is_no_longer_listed() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    await suspended(store, RunConfig(clock=clock))
    clock.advance(61)
    assert [item.subject for item in await questions_to_people(store, "s")] == ["a discount?"]


async def test_a_run_continued_by_another_process_has_a_result() -> None:
    store = MemoryStore()
    session = await suspended(store)
    for item in await questions_to_people(store, "s"):
        await Inbox(store).answer(item.id, choice=item.options[0], by="mira")
    await Runner.wait(TEAM, session)
    result = await finished_run(TEAM, session, await session.row(), config=RunConfig())
    assert result.to_json()["output"] == "discount: yes and contract: approve"
    assert result.chain == ["user", "pm"]
