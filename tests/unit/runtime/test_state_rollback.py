"""Variables of users and apps under handoffs that are undone, and commits that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.current_agent import acting_as
from ekiden.core.errors import UserError
from ekiden.handoff import handoff
from ekiden.handoff.records import records_of
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.runtime.history.session_state import shared_state, update_shared_state
from ekiden.sessions import variables_at
from ekiden.storage.base import Commit
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tools import function_tool
from tests.unit.runtime.state_tools import SHOP, Code, CountingStore, do, of


@pytest.fixture(params=["memory", "sqlite"])
def store(request: Any, tmp_path: Path) -> Any:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")


def failing_target(effects: Code) -> Agent[Any]:
    @function_tool
    def change(ctx: RunContextWrapper[Any]) -> str:
        effects(ctx)  # type: ignore[arg-type]
        return "changed"

    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.call("change")
        raise RuntimeError("no")

    return Agent("b", run=code, tools=[change])


def relay(target: Agent[Any], **terms: Any) -> Agent[Any]:
    model = ScriptedModel([transfer(target.name), say("a does it")])
    return Agent("a", model=model, handoffs=[handoff(target, **terms)])


async def test_a_rollback_restores_user_and_app_variables(
    store: Any,
) -> None:
    def before(ctx: Any) -> None:
        ctx.set("user:colour", "blue")
        ctx.set("app:gone", "there")

    def effects(ctx: Any) -> None:
        ctx.set("user:colour", "red")
        ctx.set("user:new", 1)
        ctx.delete("app:gone")

    async with store:
        session = of(store, "s", "ada")
        await do(before, session)
        result = await Runner.run(
            relay(failing_target(effects)), "hi", session=session, run_config=SHOP
        )
        assert result.final_output == "a does it"
        after = await do(lambda ctx: dict(ctx.variables), session)
        assert after == {"user:colour": "blue", "app:gone": "there"}


async def test_a_rollback_keeps_later_writes_of_others_and_reports_them() -> None:
    store = MemoryStore()
    session = of(store, "s", "ada")
    await do(lambda ctx: ctx.set("user:x", "old"), session)

    @function_tool
    def change(ctx: RunContextWrapper[Any]) -> str:
        ctx.set("user:x", "mine")
        ctx.set("user:y", "mine")
        return "changed"

    @function_tool
    async def meanwhile() -> str:
        with acting_as(""):
            await update_shared_state(store, "user", "ada", {"x": "theirs"}, by="bob")
        return "changed"

    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.call("change")
        await ctx.call("meanwhile")
        raise RuntimeError("no")

    await Runner.run(relay(Agent("b", run=code, tools=[change, meanwhile])), "hi", session=session)
    [record] = [each for each in await session.events() if (each.details or {}).get("code")]
    assert record.details is not None
    assert record.details["not_restored"] == ["user:x"]
    kept = await shared_state(store, "user", "ada")
    assert {name: each.value for name, each in kept.items()} == {"x": "theirs"}
    [told] = records_of(await session.events())
    assert told.status == "rolled_back"


async def test_variables_set_by_callbacks_are_restored_with_the_handoff() -> None:
    store = MemoryStore()
    session = of(store, "s", "ada")
    await do(lambda ctx: ctx.set("user:x", "old"), session)

    def on_handoff(ctx: RunContextWrapper[Any]) -> None:
        ctx.set("user:x", "by the callback")
        ctx.set("own", "by the callback")

    async def code(ctx: CodeContext[Any]) -> str:
        raise RuntimeError("no")

    await Runner.run(relay(Agent("b", run=code), on_handoff=on_handoff), "hi", session=session)
    assert await do(lambda ctx: dict(ctx.variables), session) == {"user:x": "old"}

    def refuses(ctx: RunContextWrapper[Any]) -> None:
        on_handoff(ctx)
        raise RuntimeError("no")

    await Runner.run(relay(Agent("b", run=code), on_handoff=refuses), "hi", session=session)
    assert await do(lambda ctx: dict(ctx.variables), session) == {"user:x": "old"}


async def test_a_failed_commit_stores_nothing_and_a_retry_stores_everything() -> None:
    store = CountingStore()
    session = of(store, "s", "ada")

    @function_tool
    def keep(ctx: RunContextWrapper[Any]) -> str:
        ctx.set("x", 1)
        ctx.set("user:x", 1)
        store.fail_next = store.commits_fail > 0
        store.commits_fail -= 1
        return "kept"

    model = ScriptedModel([call("keep")])
    agent = Agent("a", model=model, tools=[keep])
    with pytest.raises(ConnectionError):
        await Runner.run(agent, "hi", session=session)
    assert (await session.row()).variables == {}
    assert await shared_state(store, "user", "ada") == {}
    model.extend([say("done")])
    await Runner.resume(agent, session=session)
    state = await session.state()
    assert state.variables == variables_at(await session.events(), state.seq) == {"x": 1}
    assert [each.value for each in (await shared_state(store, "user", "ada")).values()] == [1]


class Cut(BaseException):
    """Ends a run as a crash would."""


class CrashingStore(MemoryStore):
    """Breaks off at its n-th write, before or after storing it."""

    def __init__(self) -> None:
        super().__init__()
        self.left = -1
        self.after = False

    async def commit(self, claim: Any, commit: Commit) -> None:
        await self._write(super().commit(claim, commit))

    async def write_documents(self, writes: Any, **options: Any) -> None:
        await self._write(super().write_documents(writes, **options))

    async def _write(self, writing: Any) -> None:
        self.left -= 1
        if self.left == 0 and not self.after:
            writing.close()
            raise Cut
        await writing
        if self.left == 0:
            raise Cut


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("nth", range(1, 10))
async def test_an_interrupted_rollback_of_variables_is_finished_by_the_next_run(
    nth: int, after: bool
) -> None:
    def effects(ctx: Any) -> None:
        ctx.set("user:colour", "red")
        ctx.set("user:new", 1)
        ctx.set("own", "red")

    def answer(request: Any) -> Any:
        return say("a does it") if "output" in request.input[-1] else transfer("b")

    store = CrashingStore()
    session = of(store, "s", "ada")
    await do(lambda ctx: ctx.set("user:colour", "blue"), session)
    a = Agent("a", model=ScriptedModel(respond=answer), handoffs=[handoff(failing_target(effects))])
    store.left, store.after = nth, after
    try:
        result = await Runner.run(a, "hi", session=session)
    except Cut:
        try:
            result = await Runner.resume(a, session=session)
        except UserError:  # It died before anything was stored, or after all was.
            result = await Runner.run(a, "hi", session=session)
    store.left = -1
    assert result.final_output == "a does it"
    assert await do(lambda ctx: dict(ctx.variables), session) == {"user:colour": "blue"}


@pytest.mark.parametrize("app", ["shop", "other", None])
async def test_a_rollback_restores_app_variables_of_the_original_app(
    app: str | None,
) -> None:
    store = MemoryStore()
    session = of(store, "s", "ada")
    for each in ("shop", "other"):
        await update_shared_state(store, "app", each, {"key": f"old of {each}"})

    @function_tool
    def change(ctx: RunContextWrapper[Any]) -> str:
        ctx.set("app:key", "new")
        return "changed"

    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.call("change")
        await ctx.request_approval("may I?")
        raise RuntimeError("no")

    def team() -> Agent[Any]:
        return relay(Agent("b", run=code, tools=[change]), completes="result")

    await Runner.run(team(), "hi", session=session, run_config=SHOP)
    assert (await shared_state(store, "app", "shop"))["key"].value == "new"
    inbox = Inbox(store)
    [item] = (await inbox.list()).items
    await inbox.answer(item.id, choice="approve", by="ada")
    source = Agent("a", model=ScriptedModel([say("a does it")]), handoffs=team().handoffs)
    await Runner.resume(source, session=session, run_config=RunConfig(app=app))
    for each in ("shop", "other"):
        assert (await shared_state(store, "app", each))["key"].value == f"old of {each}"
