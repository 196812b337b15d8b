"""Branching off at places of every kind: people, requests, rollbacks, what older versions wrote."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.audit import verify_audit
from ekiden.core.agent import Agent, Team
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import UserError
from ekiden.core.handoffs import Actor, HandoffTrigger
from ekiden.core.roles import Assignment
from ekiden.handoff import handoff
from ekiden.runtime import CodeContext, HandoffController, Runner
from ekiden.runtime.history.fork import fork_session, rewind_session
from ekiden.runtime.history.session_document import export_session, import_session
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from ekiden.tools import function_tool
from tests.unit.runtime.findable import findable

ADA = Actor(kind="person", name="ada")


async def points(store: MemoryStore, session_id: str = "s") -> list[tuple[str, str]]:
    """Who has each branch, and what is due there."""
    found = []
    for event in await store.events(session_id):
        branch = await fork_session(store, session_id, at_seq=event.seq)
        row = await branch.row()
        found.append((row.agent, row.cursor.get("p", "end")))
    assert (await verify_audit(store)).ok
    return found


async def test_a_run_that_began_with_a_request_can_be_branched() -> None:
    store = MemoryStore()
    b = Agent("b", model=ScriptedModel(respond=lambda request: say("b here")))
    a = Agent("a", model=ScriptedModel(["a here"]), handoffs=[handoff(b)])
    session = Session("s", store=store)
    await Runner.run(a, "hello", session=session)
    await HandoffController(Team(a), store).start("s", to="b", by=ADA)
    assert (await session.row()).agent == "b"
    found = await points(store)
    assert found[3] == ("a", "end")
    assert found[4] == ("b", "think")
    assert found[-1] == ("b", "end")
    branch = await fork_session(store, "s", at_seq=5)
    assert (await Runner.resume(Team(a), branch)).final_output == "b here"


async def test_a_session_can_be_branched_at_a_return_by_a_person() -> None:
    store = MemoryStore()
    people = Agent("people", person="staff")
    door = Agent(
        "door",
        model=ScriptedModel(
            respond=lambda r: transfer("people") if r.step.endswith(".1.m") else say("thanks")
        ),
        handoffs=[people],
    )
    await Runner.run(door, "help", session=Session("s", store=store))
    controller = HandoffController(Team(door), store)
    result = await controller.answer("s", "Ada says yes", by="ada", give_back=True)
    assert result.last_agent.name == "door"
    assert {"people", "door"} == {agent for agent, _ in await points(store)}
    whole = await Session("s", store=store).get_items()
    back = next(e.seq for e in await store.events("s") if (e.details or {}).get("to") == "door")
    await rewind_session(store, "s", to_seq=back)
    again = await Runner.resume(door, Session("s", store=store))
    assert again.last_agent.name == "door"
    assert again.final_output == "thanks"
    assert len(await Session("s", store=store).get_items()) == len(whole)


async def test_a_rollback_is_one_place() -> None:
    store, undone = MemoryStore(), []
    unbook = findable(lambda: undone.append(1))

    @function_tool
    async def book(ctx: RunContextWrapper[Any]) -> str:
        """Book."""
        await ctx.on_rollback(unbook, key="book")
        return "booked"

    b = Agent(
        "b",
        model=ScriptedModel([call("book"), *[fail(ConnectionError("away"))] * 9]),
        tools=[book],
    )
    a = Agent(
        "a",
        model=ScriptedModel([transfer("b"), say("never mind")]),
        handoffs=[handoff(b, completes="result")],
    )
    result = await Runner.run(a, "go", session=Session("s", store=store))
    assert (result.final_output, undone) == ("never mind", [1])
    events = list(await store.events("s"))
    first = next(e.seq for e in events if "compensation" in (e.details or {}))
    branch = await fork_session(store, "s", at_seq=first)
    row = await branch.row()
    assert (row.agent, row.cursor["p"]) == ("a", "think")
    assert row.meta["forked_at"] > first
    assert undone == [1]


async def test_a_refused_trigger_does_not_fire_again_in_a_branch() -> None:
    store = MemoryStore()
    b = Agent("b", model=ScriptedModel(respond=lambda r: say("b")), available=False)

    @function_tool
    async def shout(ctx: RunContextWrapper[Any]) -> str:
        """Shout."""
        ctx.publish("fire", {"where": "here"})
        return "shouted"

    edge = handoff(b, trigger=HandoffTrigger(type="event", event="fire"))
    model = ScriptedModel(respond=lambda r: say("a") if r.step.endswith(".2.m") else call("shout"))
    a = Agent("a", model=model, tools=[shout], handoffs=[edge])
    await Runner.run(a, "go", session=Session("s", store=store))
    refused = next(e for e in await store.events("s") if e.type == "handoff")
    assert (refused.details or {})["place"] == 0
    branch = await fork_session(store, "s", at_seq=refused.seq)
    assert (await branch.row()).cursor["fi"] == [0]
    assert (await Runner.resume(a, branch)).final_output == "a"
    assert sum(e.type == "handoff" for e in await branch.events()) == 1


async def test_the_event_that_closes_open_calls_belongs_to_the_next_message() -> None:
    store = MemoryStore()

    @function_tool
    async def wait() -> str:
        """Wait."""
        raise KeyboardInterrupt

    b = Agent("b", model=ScriptedModel([call("wait"), say("b")]), tools=[wait])
    a = Agent("a", model=ScriptedModel([transfer("b")]), handoffs=[handoff(b, completes="result")])
    session = Session("s", store=store)
    with pytest.raises(KeyboardInterrupt):
        await Runner.run(a, "go", session=session)
    await Runner.run(a, "still there?", session=session)
    closing = next(e.seq for e in await session.events() if "closes" in (e.details or {}))
    branch = await fork_session(store, "s", at_seq=closing)
    assert (await branch.row()).meta["forked_at"] == closing + 1
    before = await fork_session(store, "s", before_seq=closing + 1)
    assert (await before.row()).meta["forked_at"] == closing + 1
    assert len(await before.get_items()) < len(await branch.get_items())


async def test_rewinding_an_import_that_lacks_needed_state_is_refused() -> None:
    store = MemoryStore()
    b = Agent("b", model=ScriptedModel(respond=lambda r: say("b")))
    edge = handoff(b, restrict_tools=True)
    a = Agent("a", model=ScriptedModel([transfer("b")]), handoffs=[edge])
    await Runner.run(a, "go", session=Session("s", store=store))
    document = await export_session(store, "s")
    for event in document["events"]:
        event.get("details", {}).pop("tools", None)
    old = MemoryStore()
    await import_session(old, document, new_id="old")
    with pytest.raises(UserError, match="older Ekiden"):
        await fork_session(old, "old", at_seq=2)
    assert (await (await fork_session(store, "s", at_seq=2)).row()).seq == 2
    document["session"]["variables"] = {"x": 1}
    await import_session(old, document, new_id="changed")
    with pytest.raises(UserError, match="older Ekiden"):
        await rewind_session(old, "changed", to_seq=2)


async def test_a_session_assigned_by_a_router_can_be_branched() -> None:
    store = MemoryStore()

    class Desk:
        async def assign(self, text: str, **_: Any) -> Assignment:
            if "b" in text.split():
                return Assignment(agent="b", details={"agent": "b", "cause": "new"})
            return Assignment(agent=None, details={"agent": None, "cause": "new"}, reply="Whom?")

        async def keep(self, text: str, *, agent: str) -> Assignment:
            return Assignment(agent=agent, details={"agent": agent, "cause": "kept"})

    router = Agent("router-agent", scope="system", router=Desk())
    team = Team(router, Agent("b", model=ScriptedModel(respond=lambda r: say("b here"))))
    for text in ("somebody", "b please", "and again"):
        await Runner.run(team, text, session=Session("s", store=store))
    assert {agent for agent, _ in await points(store)} == {"router-agent", "b"}
    given = [e.seq for e in await store.events("s") if (e.details or {}).get("agent") == "b"]
    branch = await fork_session(store, "s", at_seq=given[0])
    assert (await branch.row()).agent == "b"
    assert (await Runner.resume(team, branch)).final_output == "b here"
    first = await fork_session(store, "s", at_seq=1)
    assert (await Runner.resume(team, first)).final_output == "Whom?"


async def test_an_agent_that_was_asked_can_be_branched_without_answering_anybody() -> None:
    store = MemoryStore()

    async def asking(ctx: CodeContext[Any]) -> str:
        return str(await ctx.ask("b", "what is it?"))

    b = Agent("b", model=ScriptedModel(respond=lambda r: say("tea")))
    a = Agent("a", run=asking, handoffs=[b])
    await Runner.run(Team(a, b), "go", session=Session("s", store=store))
    [asked] = [row for row in (await store.list()).sessions if row.id != "s"]
    assert "answers" in asked.meta
    branch = await fork_session(store, asked.id, at_seq=1)
    row = await branch.row()
    assert "answers" not in row.meta
    assert row.cursor["rc"]["from"] == "a"
    assert (await Runner.resume(Team(a, b), branch)).final_output == "tea"
