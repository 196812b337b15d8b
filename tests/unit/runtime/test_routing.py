"""Teams with a router: who gets a message, and what is recorded of that."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import Usage
from ekiden.core.errors import NoRoute, UnknownAgent, UserError
from ekiden.core.events import Event
from ekiden.core.roles import Assignment, RouteCause
from ekiden.engine import Worker, submit
from ekiden.runtime import Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, fail, say, transfer


class Desk:
    """A router that gives a text to the agent it names, and remembers what it was asked."""

    def __init__(self, *, reply: str | None = "Whom do you want?", switch: bool = False) -> None:
        self.asked: list[tuple[str, str, frozenset[str], Any]] = []
        self._reply = reply
        self._switch = switch

    async def assign(
        self,
        text: str,
        *,
        cause: RouteCause,
        excluded: Collection[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Assignment:
        self.asked.append((text, cause, frozenset(excluded), options))
        for name in ("a", "b", "ghost", "router-agent"):
            if name in text.split() and name not in excluded:
                return Assignment(agent=name, details={"agent": name, "cause": cause})
        details = {"agent": None, "cause": cause, "reason": "nothing matches"}
        return Assignment(agent=None, details=details, reply=self._reply)

    async def keep(self, text: str, *, agent: str) -> Assignment:
        if self._switch and "b" in text.split():
            return Assignment(agent="b", details={"agent": "b", "cause": "switched"})
        return Assignment(agent=agent, details={"agent": agent, "cause": "kept"})


def team_of(desk: Desk, model: ScriptedModel) -> Team:
    router = Agent("router-agent", scope="system", router=desk)
    a = Agent("a", model=model, handoffs=[router])
    return Team(router, a, Agent("b", model=model))


def routes(events: list[Event]) -> list[Mapping[str, Any]]:
    return [
        {k: value for k, value in (event.details or {}).items() if k not in ("hash", "made_by")}
        for event in events
        if event.type == "route"
    ]


async def test_a_new_conversation_goes_to_the_agent_chosen_by_the_router() -> None:
    desk = Desk()
    with ScriptedModel([say("a here")]) as model:
        result = await Runner.run(team_of(desk, model), "to a please")
    assert result.final_output == "a here"
    assert result.chain == ["user", "a"]
    assert desk.asked == [("to a please", "new", frozenset(), None)]
    assert [event.type for event in result.events] == [
        "message", "route", "agent_start", "llm_call", "agent_complete",
    ]  # fmt: skip
    assert model.calls[0].input == [{"role": "user", "content": "to a please"}]
    assert result.handoffs == []


async def test_a_conversation_stays_with_its_agent() -> None:
    desk = Desk()
    session = Session("s", store=MemoryStore())
    with ScriptedModel([say("a here"), say("a again")]) as model:
        team = team_of(desk, model)
        await Runner.run(team, "to a", session=session)
        result = await Runner.run(team, "and b ?", session=session)
    assert result.last_agent.name == "a"
    assert routes(result.events) == [{"agent": "a", "cause": "kept"}]
    assert len(desk.asked) == 1
    assert result.input == [{"role": "user", "content": "and b ?"}]


async def test_a_router_may_switch_to_the_agent_that_fits_a_message_best() -> None:
    session = Session("s", store=MemoryStore())
    with ScriptedModel([say("a here"), say("b here")]) as model:
        team = team_of(Desk(switch=True), model)
        await Runner.run(team, "to a", session=session)
        result = await Runner.run(team, "and b ?", session=session)
    assert result.last_agent.name == "b"
    assert result.chain == ["user", "b"]
    assert (await session.row()).agent == "b"


async def test_a_user_may_name_the_agent() -> None:
    session = Session("s", store=MemoryStore())
    with ScriptedModel([say("a here"), say("b here")]) as model:
        team = team_of(Desk(), model)
        await Runner.run(team, "to a", session=session)
        result = await Runner.run(team, "hello", session=session, to="b")
    assert result.chain == ["user", "b"]
    [named] = routes(result.events)
    assert named is not None
    assert (named["agent"], named["method"], named["cause"]) == ("b", "named", "named")
    assert (await session.row()).agent == "b"
    assert len(model.calls[1].input) == 3, "the conversation goes along"


async def test_a_user_may_ask_for_the_router_again() -> None:
    desk = Desk()
    session = Session("s", store=MemoryStore())
    with ScriptedModel([say("a here"), say("b here")]) as model:
        team = team_of(desk, model)
        await Runner.run(team, "to a", session=session)
        result = await Runner.run(team, "rather b", session=session, to="auto")
    assert result.chain == ["user", "b"]
    assert desk.asked[1][1] == "asked"


async def test_naming_the_router_asks_the_router() -> None:
    desk = Desk()
    with ScriptedModel([say("b here")]) as model:
        result = await Runner.run(team_of(desk, model), "b", to="router-agent")
    assert result.last_agent.name == "b"
    assert desk.asked[0][1] == "asked"


async def test_an_agent_that_gives_up_is_excluded_from_the_next_choice() -> None:
    desk = Desk()
    with ScriptedModel([transfer("router-agent", reason="not mine"), say("b here")]) as model:
        result = await Runner.run(team_of(desk, model), "a or b")
    assert result.chain == ["user", "a", "b"]
    assert desk.asked[1][1:3] == ("gave_up", frozenset({"a"}))
    assert model.calls[1].system_instructions is not None
    assert "not mine" in model.calls[1].system_instructions


async def test_the_agent_that_gave_up_continues_when_the_next_one_fails() -> None:
    script = [
        transfer("router-agent", reason="not mine"),
        fail(RuntimeError("b is down")),
        say("then I try"),
    ]
    with ScriptedModel(script) as model:
        result = await Runner.run(team_of(Desk(), model), "a or b")
    assert result.final_output == "then I try"
    assert result.chain == ["user", "a"]


async def test_without_a_match_the_router_replies_and_keeps_the_session() -> None:
    desk = Desk()
    session = Session("s", store=MemoryStore())
    with ScriptedModel([say("b here")]) as model:
        team = team_of(desk, model)
        result = await Runner.run(team, "hm", session=session)
        assert result.final_output == "Whom do you want?"
        assert result.last_agent.name == "router-agent"
        result = await Runner.run(team, "b", session=session)
    assert result.final_output == "b here"
    assert [asked[1] for asked in desk.asked] == ["new", "new"]


async def test_without_a_match_and_a_reply_the_run_fails_with_the_reason() -> None:
    session = Session("s", store=MemoryStore())
    with ScriptedModel() as model, pytest.raises(NoRoute, match="nothing matches; name an agent"):
        await Runner.run(team_of(Desk(reply=None), model), "hm", session=session)
    assert (await session.row()).outcome == "failed"


async def test_a_router_that_chooses_an_unknown_agent_fails_the_run() -> None:
    with ScriptedModel() as model, pytest.raises(UnknownAgent, match="ghost"):
        await Runner.run(team_of(Desk(), model), "ghost")


async def test_a_router_cannot_choose_a_router() -> None:
    with ScriptedModel() as model, pytest.raises(UserError, match="is a router itself"):
        await Runner.run(team_of(Desk(), model), "router-agent")


async def test_routing_to_auto_needs_a_router_in_the_team() -> None:
    with ScriptedModel() as model, pytest.raises(UserError, match="this team has no router"):
        await Runner.run(Team(Agent("a", model=model)), "hi", to="auto")


async def test_an_unknown_agent_name_is_refused_with_the_nearest_match() -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    with ScriptedModel() as model, pytest.raises(UnknownAgent, match="did you mean 'router-agent'"):
        await Runner.run(team_of(Desk(), model), "hi", session=session, to="router_agnt")
    assert (await store.list()).sessions == []


async def test_a_session_whose_agent_was_removed_goes_to_the_router() -> None:
    desk = Desk()
    session = Session("s", store=MemoryStore())
    with ScriptedModel([say("old"), say("b here")]) as model:
        await Runner.run(Agent("gone", model=model), "hi", session=session)
        result = await Runner.run(team_of(desk, model), "b", session=session)
    assert result.chain == ["user", "b"]


async def test_a_router_that_is_not_the_entry_routes_only_on_request() -> None:
    desk = Desk()
    session = Session("s", store=MemoryStore())
    with ScriptedModel([say("a here"), say("b here")]) as model:
        router = Agent("router-agent", scope="system", router=desk)
        team = Team(Agent("a", model=model), Agent("b", model=model), router)
        first = await Runner.run(team, "b", session=session)
        assert first.last_agent.name == "a"
        second = await Runner.run(team, "b", session=session, to="auto")
    assert routes(first.events) == []
    assert second.last_agent.name == "b"


async def test_a_worker_routes_a_submitted_message() -> None:
    desk, store = Desk(), MemoryStore()
    session = Session("s", store=store)
    with ScriptedModel([say("b here")]) as model:
        team = team_of(desk, model)
        await submit(team, "b", session=session)
        assert desk.asked == [], "whoever submits does not wait for the router"
        await Worker(store, team).run(until_idle=True)
    assert (await session.row()).agent == "b"


async def test_a_stream_shows_the_route_before_the_agent_starts() -> None:
    with ScriptedModel([say("a here")]) as model:
        stream = Runner.run_streamed(team_of(Desk(), model), "a")
        shown = [event async for event in stream.events()]
    types = [event.type for event in shown if isinstance(event, Event)]
    assert types.index("route") < types.index("agent_start")


async def test_the_routers_usage_counts_for_the_run() -> None:
    class Paid(Desk):
        async def assign(self, text: str, **options: Any) -> Assignment:
            spent = Usage(requests=1, input_tokens=7, total_tokens=7)
            return Assignment(agent="a", details={"agent": "a"}, usage=spent)

    with ScriptedModel([say("a here")]) as model:
        result = await Runner.run(team_of(Paid(), model), "hi")
    assert result.usage.input_tokens == 7
