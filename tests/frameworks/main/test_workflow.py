"""Workflows of the Microsoft Agent Framework: supersteps, requests to people, a kill."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import agent_framework as af
import pytest

from ekiden import Inbox, MemoryStore, RunConfig, Runner, Session, foreign_agent
from ekiden.integrations.agent_framework import AgentFrameworkWorkflow
from ekiden.project.stores import open_store
from tests.frameworks.effects import done, effect
from tests.frameworks.main.members import framework_agent

CONFIG = RunConfig(approver="inbox", lease_s=6.0, on_busy="wait", busy_timeout_s=60.0)


@dataclass
class Price:
    """What a person has to agree to."""

    amount: int


class Quote(af.Executor):
    """Has an effect in its superstep."""

    @af.handler
    async def quote(self, text: str, ctx: af.WorkflowContext[int]) -> None:
        effect("quote")
        await ctx.send_message(len(text))


class Pay(af.Executor):
    """Asks a person, and counts what it paid."""

    def __init__(self) -> None:
        super().__init__(id="pay")
        self.paid = 0

    async def on_checkpoint_save(self) -> dict[str, Any]:
        return {"paid": self.paid}

    async def on_checkpoint_restore(self, state: dict[str, Any]) -> None:
        self.paid = state["paid"]

    @af.handler
    async def ask(self, amount: int, ctx: af.WorkflowContext[str]) -> None:
        effect("ask")
        await ctx.request_info(Price(amount), bool)

    @af.response_handler
    async def answered(self, price: Price, yes: bool, ctx: af.WorkflowContext[str, str]) -> None:
        self.paid += price.amount if yes else 0
        await ctx.yield_output(f"paid {self.paid}")


def build() -> af.Workflow:
    quote, pay = Quote(id="quote"), Pay()
    return af.WorkflowBuilder(start_executor=quote).add_edge(quote, pay).build()


def member(given: Any) -> Any:
    return foreign_agent(AgentFrameworkWorkflow(given, types=[Price]), "flow")


@pytest.fixture(autouse=True)
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    monkeypatch.delenv("KILL", raising=False)


async def say_yes(store: Any) -> Any:
    [item] = (await Inbox(store).list()).items
    await Inbox(store).answer(item.id, choice="yes", by="ann")
    return item


@pytest.mark.parametrize("is_shared", [True, False])
async def test_a_workflow_asks_people_remembers_and_separates_sessions(is_shared: bool) -> None:
    agent = member(build() if is_shared else build)
    assert (agent.kind, agent.implementation.durability) == ("agent_framework", "superstep")
    store = MemoryStore()
    for name, text, paid in (("s", "four", 4), ("s", "seven77", 11), ("t", "two", 3)):
        session = Session(name, store=store)
        await Runner.run(agent, text, session=session, run_config=CONFIG)
        item = await say_yes(store)
        assert item.context == {"amount": len(text)}
        result = await Runner.resume(agent, session=session, run_config=CONFIG)
        assert result.final_output == f"paid {paid}"


def test_a_workflow_killed_in_a_superstep_repeats_only_that_superstep(tmp_path: Path) -> None:
    url = str(tmp_path / "s.db")

    async def run(resumes: bool) -> Any:
        async with open_store(url) as store:
            session = Session("s", store=store)
            if resumes:
                return await Runner.resume(member(build), session=session, run_config=CONFIG)
            return await Runner.run(member(build), "four", session=session, run_config=CONFIG)

    def life() -> None:
        os.environ["KILL"] = "ask:after"
        asyncio.run(run(False))

    victim = get_context("fork").Process(target=life)
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    asyncio.run(run(True))
    made = done(tmp_path / "effects")
    assert [name for name, _ in made] == ["quote", "ask", "ask"]
    assert len(set(made)) == 2


async def test_an_agent_in_a_workflow_asks_before_its_tool(tmp_path: Path) -> None:
    inner = framework_agent(approval=True)
    workflow = af.WorkflowBuilder(start_executor=inner).build()
    agent, store = foreign_agent(workflow, "flow"), MemoryStore()
    session = Session("s", store=store)
    await Runner.run(agent, "please book", session=session, run_config=CONFIG)
    [item] = (await Inbox(store).list()).items
    assert (item.tool, item.arguments) == ("book", '{"what": "maf"}')
    await Inbox(store).answer(item.id, choice="approve", by="ann")
    result = await Runner.resume(agent, session=session, run_config=CONFIG)
    assert result.final_output == "maf done"
    assert len(done(tmp_path / "effects")) == 1
