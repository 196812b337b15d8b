"""Variables that are given together with a message."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.engine import Worker, submit
from ekiden.handoff import handoff
from ekiden.runtime import CodeContext, Runner
from ekiden.sessions import Session
from ekiden.sessions.state import MAX_VARIABLES
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tools import function_tool


@pytest.fixture(params=["memory", "sqlite"])
def store(request: Any, tmp_path: Path) -> Any:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")


async def _echo(ctx: CodeContext[Any]) -> str:
    return repr(dict(sorted(ctx.variables.items())))


ECHO: Agent[Any] = Agent("echo", run=_echo)


async def test_instructions_and_the_first_tool_see_given_variables() -> None:
    seen: list[Any] = []

    @function_tool
    def look(ctx: RunContextWrapper[Any]) -> str:
        seen.append((ctx.get("tier"), ctx.get("run:try")))
        return "looked"

    def instructions(ctx: RunContextWrapper[Any], agent: Agent[Any]) -> str:
        seen.append(ctx.get("tier"))
        return "Help."

    model = ScriptedModel([call("look"), say("ok")])
    desk: Agent[Any] = Agent("desk", model=model, tools=[look], instructions=instructions)
    await Runner.run(desk, "hi", variables={"tier": "gold", "temp:try": 1})
    assert seen == ["gold", ("gold", 1), "gold"]


async def test_given_variables_are_stored_in_the_messages_transaction(store: Any) -> None:
    async with store:
        session = Session("s", store=store)
        first = await Runner.run(ECHO, "hi", session=session, variables={"a": 1, "run:b": [2]})
        assert first.final_output == "{'a': 1, 'run:b': [2]}"
        message = (await session.events())[0]
        assert (message.type, message.details) == (
            "message", {"state": {"set": {"a": 1, "run:b": [2]}}},
        )  # fmt: skip
        second = await Runner.run(ECHO, "hi", session=session, variables={"c": 3, "a": 0})
        assert second.final_output == "{'a': 0, 'c': 3}"
        assert (await session.row()).variables == {"a": 0, "c": 3}


async def test_a_worker_sees_variables_submitted_with_the_message(store: Any) -> None:
    async with store:
        session = Session("s", store=store)
        await submit(ECHO, "hi", session=session, variables={"tier": "gold"})
        assert (await session.row()).variables == {"tier": "gold"}
        await Worker(store, ECHO).run(until_idle=True)
        assert (await session.get_items())[-1]["content"][0]["text"] == "{'tier': 'gold'}"


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"user:language": "fr"}, "is not the session's"),
        ({"app:orders": 1}, "is not the session's"),
        ({"run:": 1}, "has no name after its prefix"),
        ({"x": object()}, "it is not JSON"),
        ({"x" * 201: 1}, "at most 200 are stored"),
        ({"temp:x": 1, "run:x": 2}, "is given twice"),
        ({f"v{n}": n for n in range(MAX_VARIABLES + 1)}, "at most 1,000 fit"),
        (["tier"], "variables must be a mapping"),
    ],
)
async def test_invalid_given_variables_are_refused_before_anything_is_stored(
    variables: Any, said: str
) -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    with pytest.raises(UserError, match=said):
        await Runner.run(ECHO, "hi", session=session, variables=variables)
    with pytest.raises(UserError, match=said):
        await submit(ECHO, "hi", session=session, variables=variables)
    with pytest.raises(SessionNotFound):
        await store.get("s")


async def test_a_session_at_its_variable_limit_refuses_more_and_keeps_its_values() -> None:
    session = Session("s", store=MemoryStore())
    full = {f"v{n}": n for n in range(MAX_VARIABLES)}
    await Runner.run(ECHO, "hi", session=session, variables=full)
    before = await session.row()
    with pytest.raises(UserError, match="at most 1,000 fit"):
        await Runner.run(ECHO, "hi", session=session, variables={"v0": "new", "more": 1})
    after = await session.row()
    assert (after.seq, after.variables, after.owner) == (before.seq, full, None)


@pytest.mark.parametrize("sets", [True, False])
async def test_given_variables_survive_the_rollback_of_an_earlier_handoff(sets: bool) -> None:
    @function_tool
    def change(ctx: RunContextWrapper[Any]) -> str:
        ctx.set("colour", "red")
        return "changed"

    arrived = asyncio.Event()

    async def code(ctx: CodeContext[Any]) -> str:
        if ctx.text != "again":
            if sets:
                await ctx.call("change")
            arrived.set()
            await asyncio.Event().wait()
        raise RuntimeError("no")

    b = Agent("b", run=code, tools=[change])
    model = ScriptedModel([transfer("b"), say("a does it")])
    a = Agent("a", model=model, handoffs=[handoff(b, completes="result")])
    session = Session("s", store=MemoryStore())
    running = asyncio.create_task(
        Runner.run(a, "hi", session=session, variables={"colour": "blue"})
    )
    await arrived.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    result = await Runner.run(a, "again", session=session, variables={"note": "mine"})
    assert result.final_output == "a does it"
    assert (await session.row()).variables == {"colour": "blue", "note": "mine"}
