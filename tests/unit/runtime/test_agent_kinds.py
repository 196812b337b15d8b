"""Kinds of agents: those that a program registers take part like the built-in ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ekiden import (
    Agent,
    AgentKind,
    CapabilityMatcher,
    CodeContext,
    KindTraits,
    Router,
    Runner,
    Session,
    Team,
    UnknownAgent,
    UserError,
    person,
    register_agent_kind,
    run_code,
)
from ekiden.api.local.agents import summary_of
from ekiden.core.plan import PlanSettings
from ekiden.core.profile import BY_FIELD
from ekiden.handoff.records import records_of
from ekiden.project import load_settings
from ekiden.project.project import project_of
from ekiden.runtime import RunState
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, ScriptedRunner, say, transfer


@dataclass
class Graph:
    """An agent of some other framework: a function, and how often it was asked."""

    answer: Callable[[str], str]
    asked: int = 0

    async def invoke(self, text: str) -> str:
        self.asked += 1
        return self.answer(text)


class GraphKind(AgentKind):
    traits = KindTraits(name="test-graph")

    async def take_turn(self, run: RunState) -> None:
        await run_code(run, self.answer)

    async def answer(self, ctx: CodeContext) -> Any:
        answer = await ctx.agent.implementation.invoke(ctx.text)
        if answer.startswith("to "):
            return ctx.hand_off(answer.removeprefix("to "), reason="the graph says so")
        return answer


register_agent_kind(GraphKind())


def graph_agent(name: str, answer: Callable[[str], str], **options: Any) -> Agent[Any]:
    return Agent(name, kind="test-graph", implementation=Graph(answer), **options)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    found: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "k.db")
    yield found
    await found.close()


async def test_a_conversation_is_handed_off_to_and_from_a_registered_agent_kind(
    store: Store,
) -> None:
    model = ScriptedModel([transfer("research", reason="look it up"), say("Printed.")])
    editor = Agent("editor", model=model)
    research = graph_agent("research", lambda _: "to editor", handoffs=[editor])
    desk = Agent("desk", model=model, handoffs=[research])
    session = Session("s", store=store)
    result = await Runner.run(desk, "What is new?", session=session)
    assert result.final_output == "Printed."
    records = records_of(await session.events())
    assert [(each.source, each.target, each.status) for each in records] == [
        ("desk", "research", "completed"),
        ("research", "editor", "completed"),
    ]
    assert records[1].reason == "the graph says so"


async def test_a_registered_kinds_answer_is_stored_and_it_gets_the_next_message(
    store: Store,
) -> None:
    model = ScriptedModel([transfer("research")])
    research = graph_agent("research", str.upper)
    desk = Agent("desk", model=model, handoffs=[research])
    await Runner.run(desk, "one", session=Session("s", store=store))
    result = await Runner.run(desk, "two", session=Session("s", store=store))
    assert (result.final_output, result.last_agent) == ("TWO", research)
    assert research.implementation.asked == 2
    said = [item.get("content") for item in await Session("s", store=store).get_items()]
    assert said[-2] == "two"


async def test_a_handoff_to_a_failing_agent_of_a_registered_kind_is_rolled_back(
    store: Store,
) -> None:
    def fails(text: str) -> str:
        raise RuntimeError("the graph broke")

    model = ScriptedModel([transfer("research"), say("I could not look it up.")])
    desk = Agent("desk", model=model, handoffs=[graph_agent("research", fails)])
    session = Session("s", store=store)
    result = await Runner.run(desk, "What is new?", session=session)
    assert result.final_output == "I could not look it up."
    [record] = records_of(await session.events())
    assert record.status == "rolled_back"
    assert "the graph broke" in model.calls[-1].input[-1]["output"]


async def test_the_traits_of_a_kind_decide_where_it_is_listed() -> None:
    class CouncilKind(GraphKind):
        traits = KindTraits(name="test-council", is_human=True)

    class SwitchKind(GraphKind):
        traits = KindTraits(name="test-switch", is_router=True)

    register_agent_kind(CouncilKind())
    register_agent_kind(SwitchKind())
    graph = graph_agent("graph", str)
    council = Agent("council", kind="test-council")
    switch = Agent("switch", kind="test-switch")
    team = Team(graph, council, switch)
    router = Router(team)
    assert router.named("graph").agent == "graph"
    for name in ("council", "switch"):
        with pytest.raises(UnknownAgent):
            router.named(name)
    assert CapabilityMatcher.of(team).agents == ("council", "graph")
    project = project_of(team, load_settings())
    assert set(project.agents) == {"graph", "council"}
    assert summary_of(project, graph).kind == "test-graph"
    assert summary_of(project, council).origin == "people"


def test_each_agent_field_that_selects_a_kind_names_that_kind() -> None:
    async def code(ctx: CodeContext) -> str:
        return ""

    team = (Agent("a"),)
    made = {
        "model": Agent("m", instructions="x"),
        "code": Agent("c", run=code),
        "person": person("support"),
        "runner": Agent("r", runner=ScriptedRunner([])),
        "supervisor": Agent("s", plan=PlanSettings(members=team)),
        "router": Router(Team(*team)).agent,
    }
    assert {name: agent.traits.name for name, agent in made.items()} == {
        name: name for name in made
    }
    assert {traits.name for _, traits in BY_FIELD} == set(made) - {"model"}
    assert [name for name, agent in made.items() if agent.traits.uses_model] == ["model"]


def test_a_kind_that_is_not_registered_is_refused() -> None:
    with pytest.raises(UserError, match="no kind of agent is registered as 'grahp'"):
        Agent("research", kind="grahp")


@pytest.mark.parametrize("name", ["model", "code", "person", " "])
def test_the_name_of_a_registered_kind_is_its_own(name: str) -> None:
    class Named(GraphKind):
        traits = KindTraits(name=name)

    with pytest.raises(UserError, match="kind"):
        register_agent_kind(Named())


def test_an_agent_is_of_one_kind() -> None:
    with pytest.raises(UserError, match="has both `kind` and `person`"):
        Agent("research", kind="test-graph", person="support")
    with pytest.raises(UserError, match="has both `plan` and `kind`"):
        Agent("research", kind="test-graph", plan=PlanSettings(members=(Agent("a"),)))
    with pytest.raises(UserError, match="no `kind` to read it"):
        Agent("research", implementation=Graph(str))


class LazyKind(AgentKind):
    traits = KindTraits(name="test-lazy")

    async def take_turn(self, run: RunState) -> None:
        return None


async def test_a_turn_that_records_nothing_fails_the_run() -> None:
    register_agent_kind(LazyKind())
    with pytest.raises(UserError, match="ended its turn without a result"):
        await Runner.run(Agent("lazy", kind="test-lazy"), "hi")


class NoTurn:
    traits = KindTraits(name="test-no-turn")


@pytest.mark.parametrize(("kind", "words"), [(1, "has `traits`"), (NoTurn(), "no `take_turn`")])
def test_registering_an_invalid_kind_is_refused(kind: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        register_agent_kind(kind)
