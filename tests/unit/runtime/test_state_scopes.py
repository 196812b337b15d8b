"""Variables of a run, a session, a user and an app: who sees them, and for how long."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import UserError
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call, say
from ekiden.tools import function_tool
from tests.unit.runtime.state_tools import SHOP, CountingStore, do, of


@pytest.fixture(params=["memory", "sqlite"])
def store(request: Any, tmp_path: Path) -> Any:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")


async def test_each_variable_scope_is_visible_only_to_its_owner(store: Any) -> None:
    def write(ctx: CodeContext[Any]) -> None:
        for name in ("plain", "run:r", "temp:t", "user:u", "app:a"):
            ctx.set(name, name)

    def read(ctx: CodeContext[Any]) -> list[Any]:
        return [ctx.get(name) for name in ("plain", "run:r", "run:t", "user:u", "app:a")]

    async with store:
        await do(write, of(store, "s1", "ada"))
        assert await do(read, of(store, "s1", "ada")) == ["plain", None, None, "user:u", "app:a"]
        assert await do(read, of(store, "s2", "ada")) == [None, None, None, "user:u", "app:a"]
        assert await do(read, of(store, "s3", "bob")) == [None, None, None, None, "app:a"]
        assert await do(read, of(store, "s4", None)) == [None, None, None, None, "app:a"]
        elsewhere = RunConfig(app="bank")
        assert await do(read, of(store, "s5", "ada"), elsewhere) == [None] * 3 + ["user:u", None]


async def test_variables_of_all_scopes_are_listed_under_their_full_names(store: Any) -> None:
    def write(ctx: CodeContext[Any]) -> dict[str, Any]:
        ctx.variables.update({"x": 1, "temp:y": 2, "user:z": 3, "app:w": 4})
        assert "temp:y" in ctx.variables
        assert "run:y" in ctx.variables
        assert 7 not in ctx.variables
        assert len(ctx.variables) == 4
        return dict(ctx.variables)

    async with store:
        seen = await do(write, of(store, "s", "ada"))
        assert seen == {"x": 1, "run:y": 2, "user:z": 3, "app:w": 4}
        assert (await of(store, "s", None).row()).variables == {"x": 1, "run:y": 2}


async def test_a_deleted_user_variable_is_gone_in_all_sessions(store: Any) -> None:
    async with store:
        await do(lambda ctx: ctx.set("user:x", [1]), of(store, "s1", "ada"))
        await do(lambda ctx: ctx.delete("user:x"), of(store, "s2", "ada"))
        await do(lambda ctx: ctx.delete("user:never"), of(store, "s2", "ada"))
        assert await do(lambda ctx: ctx.get("user:x", "none"), of(store, "s1", "ada")) == "none"


async def test_user_and_app_variables_need_a_user_and_an_app() -> None:
    def try_it(ctx: CodeContext[Any]) -> list[str]:
        problems = []
        for name in ("user:x", "app:x"):
            assert ctx.get(name, "default") == "default"
            with pytest.raises(UserError) as caught:
                ctx.set(name, 1)
            problems.append(str(caught.value))
            ctx.delete(name)
        return problems

    problems = await do(try_it, of(MemoryStore(), "s", None), RunConfig())
    assert "give it one with Session(…, user_id=…)" in problems[0]
    assert "give it one with RunConfig(app=…)" in problems[1]


async def test_runs_without_user_and_app_read_no_documents_for_them() -> None:
    store = CountingStore()
    await do(lambda ctx: ctx.set("x", 1), of(store, "s", None), RunConfig())
    await do(lambda ctx: ctx.set("x", 2), of(store, "s", None), RunConfig())
    assert store.listed == []
    await do(lambda ctx: None, of(store, "t", "ada"), RunConfig())
    assert len(store.listed) == 1


@pytest.mark.parametrize(
    "name", ["User:x", "users:x", " user:x", "user：x", "http://x", "userx", "app", "USER:x", ":x"]
)
async def test_only_the_exact_prefixes_have_a_meaning(name: str) -> None:
    session = of(MemoryStore(), "s", None)
    await do(lambda ctx: ctx.set(name, 1), session, RunConfig())
    assert (await session.row()).variables == {name: 1}


@pytest.mark.parametrize("name", ["user:", "app:", "run:", "temp:", "x" * 201, 7, "user:\x00"])
async def test_invalid_variable_names_are_refused(name: Any) -> None:
    def try_it(ctx: CodeContext[Any]) -> None:
        with pytest.raises(UserError):
            ctx.set(name, 1)

    await do(try_it, of(MemoryStore(), "s", "ada"))


async def test_a_value_beyond_the_size_limit_is_refused_and_nothing_changes() -> None:
    def try_it(ctx: CodeContext[Any]) -> None:
        with pytest.raises(UserError, match="the maximum is 1,000,000"):
            ctx.set("big", "x" * 1_000_000)
        with pytest.raises(UserError, match="not JSON"):
            ctx.set("user:set", {1, 2})
        circle: list[Any] = []
        circle.append(circle)
        with pytest.raises(UserError, match="not JSON"):
            ctx.set("circle", circle)
        for number in range(1000):
            ctx.set(f"user:{number}", number)
        with pytest.raises(UserError, match="its user has 1,000 variables already"):
            ctx.set("user:one more", 1)
        ctx.set("user:7", "changed")

    session = of(MemoryStore(), "s", "ada")
    await do(try_it, session)
    assert (await session.row()).variables == {}
    assert await do(lambda ctx: ctx.get("user:7"), session) == "changed"


async def test_changing_a_value_after_get_or_set_does_not_change_the_state() -> None:
    def try_it(ctx: CodeContext[Any]) -> None:
        cart = ["apple"]
        for name in ("cart", "user:cart", "run:cart"):
            ctx.set(name, cart)
            cart.append("pear")
            ctx.get(name).append("plum")
            ctx.variables[name].append("fig")
            assert ctx.get(name) == ["apple"]
            cart.pop()

    session = of(MemoryStore(), "s", "ada")
    await do(try_it, session)
    assert (await session.row()).variables == {"cart": ["apple"], "run:cart": ["apple"]}
    assert await do(lambda ctx: ctx.get("user:cart"), session) == ["apple"]


async def test_parallel_tools_can_use_all_variable_scopes() -> None:
    @function_tool
    async def keep(ctx: RunContextWrapper[Any], name: str) -> str:
        ctx.set(f"user:{name}", [name])
        ctx.get(f"user:{name}").append("not kept")
        ctx.set(f"temp:{name}", 1)
        assert ctx.get(f"run:{name}") == 1
        ctx.delete("user:old")
        assert "user:old" not in ctx.variables
        assert {f"user:{name}", f"run:{name}"} <= set(ctx.variables)
        assert len(ctx.variables) == len(set(ctx.variables))
        with pytest.raises(KeyError):
            del ctx.variables["user:old"]
        with pytest.raises(KeyError):
            ctx.variables["user:old"]
        with pytest.raises(UserError):
            ctx.set("app:x", 1)
        return "kept"

    store = MemoryStore()
    await do(lambda ctx: ctx.set("user:old", 1), of(store, "s0", "ada"))
    model = ScriptedModel([[call("keep", name="a"), call("keep", name="b")], say("done")])
    agent = Agent("a", model=model, tools=[keep])
    await Runner.run(agent, "hi", session=of(store, "s", "ada"))
    assert (await of(store, "s", None).row()).variables == {"run:a": 1, "run:b": 1}
    kept = await do(lambda ctx: dict(ctx.variables), of(store, "s2", "ada"), RunConfig())
    assert kept == {"user:a": ["a"], "user:b": ["b"]}


async def test_the_last_writer_wins_even_with_an_old_value() -> None:
    store = MemoryStore()
    await do(lambda ctx: ctx.set("user:x", "old"), of(store, "s", "ada"))
    seen = asyncio.Event()
    go_on = asyncio.Event()

    async def slow(ctx: CodeContext[Any]) -> str:
        seen.set()
        await go_on.wait()
        ctx.set("user:x", ctx.get("user:x"))
        return "done"

    running = asyncio.create_task(
        Runner.run(Agent("a", run=slow), "hi", session=of(store, "s", "ada"))
    )
    await seen.wait()
    await do(lambda ctx: ctx.set("user:x", "new"), of(store, "t", "ada"))
    go_on.set()
    await running
    assert await do(lambda ctx: ctx.get("user:x"), of(store, "u", "ada")) == "old"


async def test_variable_changes_of_a_failed_step_are_discarded() -> None:
    store = MemoryStore()
    session = of(store, "s", "ada")
    await do(lambda ctx: ctx.set("user:x", "kept"), session)

    async def code(ctx: CodeContext[Any]) -> str:
        ctx.set("user:x", "lost")
        ctx.set("user:y", "lost")
        ctx.set("z", "lost")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await Runner.run(Agent("a", run=code), "hi", session=session, run_config=SHOP)
    assert await do(lambda ctx: dict(ctx.variables), session) == {"user:x": "kept"}


async def test_run_variables_survive_a_crash_and_end_with_the_run() -> None:
    store, tries = MemoryStore(), []

    @function_tool
    def note(ctx: RunContextWrapper[Any]) -> str:
        ctx.set("run:step", 1)
        return "noted"

    class Dies(BaseException):
        pass

    def answer(request: Any) -> Any:
        if len(request.input) == 1:
            return call("note")
        if not tries:
            tries.append(1)
            raise Dies
        return say("done")

    agent = Agent(
        "a",
        model=ScriptedModel(respond=answer),
        tools=[note],
    )
    session = of(store, "s", None)
    with pytest.raises(Dies):
        await Runner.run(agent, "hi", session=session)
    assert (await session.row()).variables == {"run:step": 1}
    await Runner.resume(agent, session=session)
    assert (await session.row()).variables == {"run:step": 1}
    await do(lambda ctx: ctx.set("x", dict(ctx.variables)), session)
    assert (await session.row()).variables == {"x": {}}


async def test_an_asked_session_shares_the_users_variables() -> None:
    store = MemoryStore()

    async def helper(ctx: CodeContext[Any]) -> str:
        ctx.set("user:from helper", ctx.get("user:from desk"))
        ctx.set("plain", "the helper's own")
        return "helped"

    async def desk(ctx: CodeContext[Any]) -> str:
        await ctx.ask("helper", "help")
        return str([ctx.get("user:from helper"), ctx.get("plain")])

    await do(lambda ctx: ctx.set("user:from desk", 7), of(store, "s0", "ada"))
    team = Team(Agent("desk", run=desk), Agent("helper", run=helper))
    result = await Runner.run(team, "hi", session=of(store, "s", "ada"), run_config=SHOP)
    assert result.final_output == "[7, None]"
    assert await do(lambda ctx: dict(ctx.variables), of(store, "t", "bob")) == {}
