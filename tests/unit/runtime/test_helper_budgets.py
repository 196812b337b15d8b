"""Limits that are reached while others work for a run, and what calls cost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from ekiden import (
    Agent,
    AgentTask,
    Budget,
    Limits,
    ModelResponse,
    Price,
    QueryFailed,
    RunConfig,
    Runner,
    Session,
    Supervisor,
    TaskDecomposition,
    Team,
    Usage,
    UserError,
    cost_report,
    function_tool,
)
from ekiden.core.conversation.model import ModelEvent, ModelRequest, assistant_message
from ekiden.core.runs import Done, OutOfBudget
from ekiden.engine import Worker, submit
from ekiden.runtime import CodeContext
from ekiden.storage.base import Claim, Commit, MessageFilter
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say


@function_tool
def search(words: str) -> str:
    """Look something up."""
    return "nothing"


def tokens(count: int) -> Usage:
    return Usage(requests=1, input_tokens=count, total_tokens=count)


def limited(count: int) -> RunConfig:
    return RunConfig(limits=Limits(tokens=count))


def helper(name: str = "helper") -> Agent[Any]:
    steps = [*(call("search", words=word) for word in "abc"), say("found")]
    return Agent(name, model=ScriptedModel(steps, usage=tokens(100)), tools=[search])


async def asks(ctx: CodeContext) -> str:
    return f"{ctx.agent.name} {await ctx.ask(ctx.agent.description or '', 'x')}"


class Both:
    async def decompose(self, *given: Any, **options: Any) -> TaskDecomposition:
        tasks = (AgentTask(agent="h1", description="x"), AgentTask(agent="h2", description="y"))
        return TaskDecomposition(tasks=tasks)


def asking() -> Team:
    return Team(Agent("desk", run=asks, description="helper"), helper())


def nested() -> Team:
    middle = Agent("middle", run=asks, description="helper")
    return Team(Agent("desk", run=asks, description="middle"), middle, helper())


def as_tool() -> Agent[Any]:
    steps = [call("helper", input="x"), say("desk found")]
    return Agent("desk", model=ScriptedModel(steps), tools=[helper().as_tool()])


def supervised() -> Agent[Any]:
    return Supervisor("desk", agents=[helper("h1"), helper("h2")], decomposer=Both())


@pytest.mark.parametrize(
    ("make", "answer", "calls"),
    [
        (asking, "desk found", 4),
        (nested, "desk middle found", 4),
        (as_tool, "desk found", 6),
        (supervised, "## h1\n\nfound\n\n## h2\n\nfound", 8),
    ],
    ids=["ask", "nested", "as_tool", "supervisor"],
)
async def test_agent_tools_continue_where_they_stopped_after_a_limit_is_raised(
    make: Any, answer: str, calls: int
) -> None:
    team, session = make(), Session("s", store=MemoryStore())
    result = await Runner.run(team, "x", session=session, run_config=limited(250))
    assert result.outcome == OutOfBudget("tokens", 250, 300)
    assert result.usage.tokens == 300

    again = await Runner.resume(team, session, run_config=limited(250))
    assert again.outcome == result.outcome

    result = await Runner.resume(team, session, run_config=limited(2000))
    assert result.outcome == Done(answer)
    assert result.usage.requests == calls


async def test_with_workers_a_limit_of_a_helper_ends_the_run_and_can_be_raised() -> None:
    team, store = asking(), MemoryStore()
    session = Session("s", store=store)
    await submit(team, "x", session=session)
    await Worker(store, team, run_config=limited(250)).run(until_idle=True)
    assert (await session.row()).outcome == "out_of_budget"

    result = await Runner.resume(team, session, run_config=limited(2000))
    assert (result.final_output, result.usage.requests) == ("desk found", 4)


class LateStore(MemoryStore):
    """The first commit with a question returns when the asked session has ended."""

    async def commit(self, claim: Claim, commit: Commit) -> None:
        await super().commit(claim, commit)
        if claim.session_id == "s" and commit.messages:
            where = MessageFilter(states={"failed"})
            while not await self.find_messages(where, limit=1):
                await self.wait_for_change(1.0)


async def test_a_helper_that_uses_up_its_own_budget_before_the_asker_waits_has_failed() -> None:
    async def careful(ctx: CodeContext) -> str:
        try:
            return await asks(ctx)
        except QueryFailed as exc:
            return str(exc)

    desk = Agent("desk", run=careful, description="helper")
    team, store = Team(desk, replace(helper(), budget=Budget(tokens=150))), LateStore()
    session = Session("s", store=store)
    await submit(team, "x", session=session)
    await Worker(store, team).run(until_idle=True)

    row = await session.row()
    assert (row.status, row.outcome) == ("idle", "done")
    assert "the limit of 150 tokens was reached" in str((await session.get_items())[-1])


class OwnModel:
    """A model of the user's, whose answers do not say what it is called."""

    name = "house"

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield ModelResponse(output=[assistant_message("hi")], usage=tokens(1_000_000))


@pytest.mark.parametrize("priced", ["house", "mine:house"])
async def test_usage_and_cost_report_agree_on_the_cost_of_a_custom_model(
    priced: str,
) -> None:
    session, prices = Session("s", store=MemoryStore()), {priced: Price(input=2.0, output=1.0)}
    config = RunConfig(prices=prices)
    result = await Runner.run(Agent("a", model=OwnModel()), "x", session=session, run_config=config)
    report = cost_report(await session.events(), prices)
    assert result.usage.cost == report.total.cost == 2.0
    assert report.lines[0].key == {"agent": "a", "model": "house"}


async def test_a_model_without_a_name_is_refused_with_advice_on_pricing() -> None:
    class Nameless:
        async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            yield ModelResponse(output=[assistant_message("x")], usage=Usage(requests=1))

    config = RunConfig(limits=Limits(money=5.0), prices={"Nameless": Price(input=1.0, output=1.0)})
    with pytest.raises(UserError, match="give Nameless a `name`, and add that"):
        await Runner.run(Agent("a", model=Nameless()), "x", run_config=config)


@pytest.mark.parametrize("kind", ["ask", "as_tool", "supervisor"])
async def test_an_unknown_price_in_a_helper_is_a_user_error(
    kind: str,
) -> None:
    helping = Agent("helper", model=OwnModel())
    model = ScriptedModel([call("helper", input="x")])
    team: Any = {
        "ask": Team(Agent("desk", run=asks, description="helper"), helping),
        "as_tool": Agent("desk", model=model, tools=[helping.as_tool()]),
        "supervisor": Supervisor("desk", agents=[helping]),
    }[kind]
    prices = {"scripted": Price(input=1.0, output=1.0)}
    config = RunConfig(prices=prices, limits=Limits(money=5.0))
    with pytest.raises(UserError, match="no price for 'house'"):
        await Runner.run(team, "x", run_config=config)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, "9", True])
def test_infinite_or_negative_limits_and_prices_are_refused(value: Any) -> None:
    for name in ("turns", "depth", "tokens", "seconds", "money", "calls"):
        with pytest.raises(UserError, match=name):
            Limits(**{name: value})
    for name in ("input", "output", "cached_input"):
        with pytest.raises(UserError, match=name):
            Price(**{"input": 1.0, "output": 1.0, name: value})
    with pytest.raises(UserError, match="prices"):
        RunConfig(prices={"m": value})
