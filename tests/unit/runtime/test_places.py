"""Agents that are run in one place and not in another: the session goes where its agent is run."""

from __future__ import annotations

from collections.abc import Container

from ekiden import Agent, Session, Team, function_tool, handoff
from ekiden.runtime import RunConfig, RunOptions, advance, resumed_run, submit
from ekiden.runtime.state.state import RunState
from ekiden.storage.base import SessionRow
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel
from ekiden.testing.steps import call, fail, say, transfer


async def _work(store: MemoryStore, team: Team, serves: Container[str] | None) -> RunState:
    options = RunOptions(
        root=team, config=RunConfig(), status_on_cancel="ready", drives=False, serves=serves
    )
    claimed = await store.claim_next(owner="me", lease_s=30)
    assert claimed is not None
    async with resumed_run(options, store, *claimed) as run:
        async for _ in advance(run):
            pass
    return run


async def _submitted(team: Team) -> MemoryStore:
    store = MemoryStore()
    options = RunOptions(root=team, config=RunConfig())
    await submit(options, "Render the film.", Session("s1", store=store))
    return store


def _free(row: SessionRow) -> tuple[str, str, str | None, str | None]:
    return row.agent, row.status, row.outcome, row.owner


async def test_a_session_handed_to_an_agent_of_another_worker_stays_ready() -> None:
    renderer = Agent(name="renderer", model=ScriptedModel([say("Rendered.")]))
    desk = Agent(name="desk", handoffs=[renderer], model=ScriptedModel([transfer("renderer")]))
    team = Team(desk)
    store = await _submitted(team)
    here = await _work(store, team, {"desk"})
    assert here.outcome is None
    assert here.is_free
    assert _free(await store.get("s1")) == ("renderer", "ready", None, None)
    before = [event.type for event in await store.events("s1")]
    there = await _work(store, team, {"renderer"})
    assert there.outcome is not None
    assert _free(await store.get("s1")) == ("renderer", "idle", "done", None)
    types = [event.type for event in await store.events("s1")]
    assert types[: len(before)] == before
    assert "cancelled" not in str([event.details for event in await store.events("s1")])


async def test_a_failure_in_another_worker_returns_the_session_to_its_source() -> None:
    renderer = Agent(name="renderer", model=ScriptedModel([fail(RuntimeError("no card"))]))
    desk = Agent(
        name="desk",
        handoffs=[handoff(renderer)],
        model=ScriptedModel([transfer("renderer"), say("We cannot, today.")]),
    )
    team = Team(desk)
    store = await _submitted(team)
    await _work(store, team, {"desk"})
    back = await _work(store, team, {"renderer"})
    assert back.outcome is None
    assert _free(await store.get("s1")) == ("desk", "ready", None, None)
    done = await _work(store, team, {"desk"})
    assert done.outcome is not None
    assert done.outcome.kind == "done"


async def test_a_tool_runs_once_when_the_session_moves_between_workers() -> None:
    calls: list[str] = []

    async def note(what: str) -> str:
        calls.append(what)
        return "noted"

    renderer = Agent(name="renderer", model=ScriptedModel([say("Rendered.")]))
    desk = Agent(
        name="desk",
        tools=[function_tool(note)],
        handoffs=[renderer],
        model=ScriptedModel([call("note", what="film"), transfer("renderer")]),
    )
    team = Team(desk)
    store = await _submitted(team)
    await _work(store, team, {"desk"})
    await _work(store, team, {"renderer"})
    assert calls == ["film"]
