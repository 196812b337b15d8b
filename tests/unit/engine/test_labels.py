"""Agents that run only where what they need is."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import UnknownAgent, UserError
from ekiden.engine import Worker, submit
from ekiden.engine.registry import list_workers, needs_of, served_agents, unserved
from ekiden.runtime import CodeContext
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from tests.support.cases import each_case


async def echo(ctx: CodeContext[Any]) -> str:
    return f"{ctx.agent.name}: {ctx.text}"


def team_of(painter_needs: Any = frozenset({"gpu"})) -> Team:
    painter = Agent("painter", run=echo, runs_on=painter_needs)

    async def front(ctx: CodeContext[Any]) -> Any:
        if ctx.text == "ask":
            return await ctx.ask("painter", "draw")
        return ctx.hand_off("painter", reason="it can")

    return Team(Agent("front", run=front, handoffs=[painter], can_ask=["painter"]), painter)


@each_case(
    "odd", ["gpu", 7, None, {"a b"}, {""}, {"x" * 64}, {"-a"}, {"日本"}, {3}, ["a\ud800"], {"a\n"}]
)
def test_an_invalid_label_is_refused(odd: Any) -> None:
    with pytest.raises(UserError, match="runs_on"):
        Agent("a", run=echo, runs_on=odd)


def test_labels_become_a_set() -> None:
    agent = Agent("a", run=echo, runs_on=["gpu", "eu/west-1", "gpu"])  # type: ignore[arg-type]
    assert agent.runs_on == {"gpu", "eu/west-1"}
    assert agent.clone().runs_on == {"gpu", "eu/west-1"}


def test_a_worker_serves_agents_whose_labels_it_has() -> None:
    team = team_of({"gpu", "big"})
    assert served_agents(team) == {"front"}
    assert served_agents(team, labels=["gpu"]) == {"front"}
    assert served_agents(team, labels=["gpu", "big", "more"]) == {"front", "painter"}
    assert served_agents(team, labels=["gpu", "big"], agents=["painter"]) == {"painter"}
    assert needs_of(team, {"front"}) == {"painter": ["big", "gpu"]}


def test_a_worker_without_any_agent_to_serve_is_refused() -> None:
    team = team_of()
    with pytest.raises(UnknownAgent, match="did you mean 'painter'"):
        served_agents(team, agents=["pianter"])
    with pytest.raises(UserError, match="--label gpu"):
        served_agents(team, agents=["painter"])
    with pytest.raises(UserError, match="list of agents is empty"):
        served_agents(team, agents=[])
    with pytest.raises(UserError, match="no agent of the team runs here"):
        served_agents(Team(team["painter"]))
    with pytest.raises(UserError, match="labels of a worker"):
        Worker(MemoryStore(), team, labels=["g p u"])


@pytest.mark.parametrize("text", ["hand", "ask"])
async def test_an_agent_with_labels_runs_on_a_worker_with_them(text: str) -> None:
    store, team = MemoryStore(), team_of()
    await submit(team, text, session=Session("s", store=store))
    plain, strong = Worker(store, team), Worker(store, team, labels=["gpu"], agents=["painter"])
    await plain.run(until_idle=True)
    assert (await store.get("s")).status == ("ready" if text == "hand" else "waiting")
    await strong.run(until_idle=True)
    await plain.run(until_idle=True)
    row = await store.get("s")
    assert (row.status, row.outcome) == ("idle", "done")
    assert (row.agent, strong.finished) == ("painter" if text == "hand" else "front", 1)


async def test_an_agent_tool_runs_on_workers_with_its_own_labels() -> None:
    store = MemoryStore()
    painter = Agent("painter", run=echo, runs_on=frozenset({"gpu"}))

    async def front(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("painter", "draw")

    team = Team(Agent("front", run=front, can_ask=["painter"], tools=[painter.as_tool()]))
    await submit(team, "go", session=Session("s", store=store))
    await Worker(store, team).run(until_idle=True)
    assert (await store.get("s")).status == "waiting"
    await Worker(store, team, labels=["gpu"]).run(until_idle=True)
    assert (await store.get("s")).outcome == "done"


async def test_an_unserved_agent_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    store, team = MemoryStore(), team_of()
    await submit(team, "hand", session=Session("s", store=store))
    await Worker(store, team).run(until_idle=True)
    worker = Worker(store, team)
    with caplog.at_level(logging.WARNING, logger="ekiden.worker"):
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            while "no worker runs" not in caplog.text:
                await store.wait_for_change(0.05)
            [left] = await unserved(store, await list_workers(store))
            worker.stop()
    assert str(left) == "painter: 1 (it needs a worker with the label gpu)"
    assert (left.agent, left.sessions, left.needs) == ("painter", 1, ("gpu",))
    assert caplog.text.count("no worker runs: painter: 1") == 1
