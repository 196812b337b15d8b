"""State that is read and changed from outside of runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.current_agent import acting_as
from ekiden.core.errors import SessionBusy, SessionNotFound, UserError
from ekiden.core.errors.stored_data import StaleState, StateRefused
from ekiden.handoff import handoff
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.runtime.history.session_state import shared_state, update_shared_state, update_state
from ekiden.sessions import Session, variables_at
from ekiden.sessions.state import collection_of
from ekiden.storage.base import DocumentWrite
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tools import function_tool
from tests.unit.runtime.state_tools import do, of


@pytest.fixture(params=["memory", "sqlite"])
def store(request: Any, tmp_path: Path) -> Any:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")


async def begun(store: Any) -> Session:
    session = of(store, "s", "ada")
    await do(lambda ctx: ctx.set("tier", "silver"), session)
    return session


async def test_a_change_is_stored_and_recorded_with_its_author(store: Any) -> None:
    async with store:
        session = await begun(store)
        version = await update_state(
            store, "s", {"tier": "gold", "temp:note": [1]}, delete=["nothing"], by="bob"
        )
        row = await session.row()
        assert row.variables == {"tier": "gold", "run:note": [1]}
        assert (row.seq, row.status, row.owner) == (version, "idle", None)
        last = (await session.events())[-1]
        assert last.details is not None
        assert last.details["by"] == "bob"
        assert last.details["state"]["set"] == {"tier": "gold", "run:note": [1]}
        assert variables_at(await session.events(), version - 1) == {"tier": "silver"}
        assert await do(lambda ctx: dict(ctx.variables), session) == {"tier": "gold"}


async def test_a_change_based_on_a_stale_version_is_refused(store: Any) -> None:
    async with store:
        session = await begun(store)
        seen = (await session.state()).version
        now = await update_state(store, "s", {"tier": "gold"}, expected_version=seen)
        with pytest.raises(StaleState) as caught:
            await update_state(store, "s", {"tier": "none"}, expected_version=seen)
        assert (caught.value.found, caught.value.expected) == (now, seen)
        assert caught.value.code == "state.stale"
        assert (await session.state()).variables == {"tier": "gold"}
        assert await update_state(store, "s", {}, delete=["tier"], expected_version=now) > now


async def test_messages_without_state_changes_do_not_make_a_version_stale() -> None:
    store = MemoryStore()
    session = await begun(store)
    seen = (await session.state()).version
    await do(lambda ctx: None, session)
    assert await update_state(store, "s", {"x": 1}, expected_version=seen) > seen


async def test_of_concurrent_changes_with_one_expected_version_one_succeeds() -> None:
    store = MemoryStore()
    session = await begun(store)
    seen = (await session.state()).version
    done = await asyncio.gather(
        *(update_state(store, "s", {"n": n}, expected_version=seen) for n in range(5)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, int) for each in done) == 1
    assert sum(isinstance(each, StaleState) for each in done) == 4


async def test_setting_an_equal_value_is_not_a_change() -> None:
    store = MemoryStore()
    session = await begun(store)
    state = await session.state()
    assert await update_state(store, "s", {"tier": "silver"}, delete=["x"]) == state.version
    assert (await session.row()).seq == state.seq
    assert (await session.row()).owner is None


async def test_a_change_waits_for_a_running_session_or_is_refused() -> None:
    store = MemoryStore()
    running, go_on = asyncio.Event(), asyncio.Event()

    async def slow(ctx: CodeContext[Any]) -> str:
        ctx.set("by run", 1)
        running.set()
        await go_on.wait()
        return "done"

    session = of(store, "s", None)
    run = asyncio.create_task(Runner.run(Agent("a", run=slow), "hi", session=session))
    await running.wait()
    with pytest.raises(SessionBusy):
        await update_state(store, "s", {"x": 1}, on_busy="refuse")
    waiting = asyncio.create_task(update_state(store, "s", {"x": 1}))
    go_on.set()
    await run
    await waiting
    assert (await session.row()).variables == {"by run": 1, "x": 1}


async def test_a_session_waiting_for_people_can_be_changed_and_keeps_waiting() -> None:
    store = MemoryStore()

    async def asks(ctx: CodeContext[Any]) -> str:
        await ctx.request_approval("may I?")
        return str(ctx.get("x"))

    session = of(store, "s", None)
    config = RunConfig(approver="inbox")
    await Runner.run(Agent("a", run=asks), "hi", session=session, run_config=config)
    await update_state(store, "s", {"x": 7})
    row = await session.row()
    assert (row.status, row.outcome, row.variables) == ("waiting", "waiting", {"x": 7})


@pytest.mark.parametrize(
    ("changes", "delete", "by"),
    [
        ({}, [], "me"),
        ({"user:x": 1}, [], "me"),
        ({}, ["app:x"], "me"),
        ({"x": {1}}, [], "me"),
        ({"x": 1}, ["x"], "me"),
        ({}, ["x", "x"], "me"),
        ({}, "xyz", "me"),
        ({}, None, "me"),
        (["x"], [], "me"),
        (None, ["x"], "me"),
        ({"run:": 1}, [], "me"),
        ({"x": "y" * 1_000_001}, [], "me"),
        ({1: 1}, [], "me"),
        ({"x": 1}, [], ""),
        ({"x": 1}, [], "b" * 201),
    ],
)
async def test_an_invalid_change_is_refused_and_nothing_changes(
    changes: Any, delete: list[str], by: str
) -> None:
    store = MemoryStore()
    session = await begun(store)
    before = await session.row()
    with pytest.raises(UserError):
        await update_state(store, "s", changes, delete=delete, by=by)
    assert await session.row() == before


async def test_too_many_variables_are_refused() -> None:
    store = MemoryStore()
    await begun(store)
    with pytest.raises(UserError, match="at most 1,000 fit"):
        await update_state(store, "s", {f"x{n}": n for n in range(1000)})


async def test_changing_an_unknown_session_raises_session_not_found() -> None:
    with pytest.raises(SessionNotFound):
        await update_state(MemoryStore(), "s", {"x": 1})


async def test_variables_changed_from_outside_survive_a_rollback() -> None:
    store = MemoryStore()

    @function_tool
    def change(ctx: RunContextWrapper[Any]) -> str:
        ctx.set("colour", "red")
        return "changed"

    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.call("change")
        arrived.set()
        await go_on.wait()
        raise RuntimeError("no")

    session = of(store, "s", None)
    b = Agent("b", run=code, tools=[change])
    model = ScriptedModel([transfer("b"), say("a does it")])
    a = Agent("a", model=model, handoffs=[handoff(b, completes="result")])
    await do(lambda ctx: ctx.set("colour", "blue"), session)
    running = asyncio.create_task(Runner.run(a, "hi", session=session))
    await arrived.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await session.row()).variables == {"colour": "red"}
    await update_state(store, "s", {"note": "by a person"})
    go_on.set()
    await Runner.resume(a, session=session)
    assert (await session.row()).variables == {"colour": "blue", "note": "by a person"}


async def test_user_variables_are_versioned_separately(store: Any) -> None:
    async with store:
        assert await shared_state(store, "user", "ada") == {}
        first = await update_shared_state(store, "user", "ada", {"a": 1, "b": 2}, by="bob")
        assert first == {"a": 1, "b": 1}
        second = await update_shared_state(
            store, "user", "ada", {"a": 2}, delete=["b"], expected={"a": 1, "b": 1}
        )
        assert second == {"a": 2, "b": 0}
        with pytest.raises(StaleState) as caught:
            await update_shared_state(store, "user", "ada", {"a": 3}, expected={"a": 1})
        assert caught.value.found == 2
        [(name, only)] = (await shared_state(store, "user", "ada")).items()
        assert (name, only.value, only.version, only.by) == ("a", 2, 2, "outside")
        assert only.updated_at > 0
        assert await shared_state(store, "app", "ada") == {}


async def test_a_recreated_variable_gets_a_new_version(store: Any) -> None:
    async with store:
        await update_shared_state(store, "app", "shop", {"x": "first"}, expected={"x": 0})
        await update_shared_state(store, "app", "shop", {}, delete=["x"])
        assert await update_shared_state(store, "app", "shop", {}, delete=["x"]) == {"x": 0}
        again = await update_shared_state(store, "app", "shop", {"x": "new"}, expected={"x": 0})
        assert again == {"x": 3}
        with pytest.raises(StaleState):
            await update_shared_state(store, "app", "shop", {"x": "?"}, expected={"x": 1})


async def test_writers_of_one_users_state_do_not_lose_each_others_variables() -> None:
    store = MemoryStore()
    await asyncio.gather(
        *(update_shared_state(store, "user", "ada", {f"v{n}": n, "all": n}) for n in range(10))
    )
    found = await shared_state(store, "user", "ada")
    assert len(found) == 11
    assert found["all"].version == 10


@pytest.mark.parametrize(
    ("scope", "owner", "changes"),
    [
        ("session", "s", {"x": 1}),
        ("user", "", {"x": 1}),
        ("user", None, {"x": 1}),
        ("user", "ada", {"": 1}),
        ("user", "ada", {"\x00": 1}),
        ("user", "ada", {"\ud800": 1}),
        ("user", "ada", {"user:x": 1}),
        ("user", "ada", {"app:x": 1}),
        ("app", "shop", {"run:x": 1}),
        ("app", "shop", {5: 1}),
        ("app", "shop", None),
        ("app", "shop", {}),
    ],
)
async def test_shared_state_that_cannot_be_is_refused(scope: Any, owner: Any, changes: Any) -> None:
    with pytest.raises(UserError):
        await update_shared_state(MemoryStore(), scope, owner, changes)


@pytest.mark.parametrize("expected", [[1], {"x": "1"}, {"x": -1}, {"user:x": 1}, {5: 1}])
async def test_versions_that_cannot_be_are_refused(expected: Any) -> None:
    store = MemoryStore()
    with pytest.raises(UserError):
        await update_shared_state(store, "user", "ada", {"x": 1}, expected=expected)
    assert await shared_state(store, "user", "ada") == {}


@pytest.mark.parametrize("expected", ["1", -1, 1.0, True])
async def test_a_version_of_a_session_that_cannot_be_is_refused(expected: Any) -> None:
    store = MemoryStore()
    await begun(store)
    with pytest.raises(UserError, match="version"):
        await update_state(store, "s", {"tier": "gold"}, expected_version=expected)


async def test_an_expected_version_that_never_existed_is_stale() -> None:
    store = MemoryStore()
    session = await begun(store)
    seen = (await session.state()).version
    for version in (seen + 1, seen - 1, 10**9):
        with pytest.raises(StaleState):
            await update_state(store, "s", {"tier": "gold"}, expected_version=version)
    await update_state(store, "s", {"tier": "gold"}, expected_version=seen)


async def test_a_user_with_the_maximum_number_of_variables_cannot_add_more() -> None:
    store = MemoryStore()
    many = {f"x{n}": n for n in range(1000)}
    await update_shared_state(store, "user", "ada", many)
    with pytest.raises(UserError, match="its user has 1,000 variables already"):
        await update_shared_state(store, "user", "ada", {"one more": 1})
    assert await do(lambda ctx: len(ctx.variables), of(store, "s", "ada")) == 1000


async def test_agent_code_cannot_change_state_from_outside_its_session() -> None:
    store = MemoryStore()
    await begun(store)
    with acting_as("spy"):
        with pytest.raises(StateRefused, match="'spy' may not do this"):
            await shared_state(store, "user", "ada")
        with pytest.raises(StateRefused):
            await update_shared_state(store, "user", "ada", {"x": 1})
        with pytest.raises(StateRefused):
            await update_state(store, "s", {"x": 1})


async def test_tools_cannot_read_another_users_state() -> None:
    store = MemoryStore()
    refused: list[str] = []

    @function_tool
    async def spy(ctx: RunContextWrapper[Any]) -> str:
        try:
            await shared_state(store, "user", "ada")
        except StateRefused as exc:
            refused.append(exc.agent)
        return "tried"

    await update_shared_state(store, "user", "ada", {"secret": 1})
    model = ScriptedModel([call("spy"), say("done")])
    await Runner.run(Agent("a", model=model, tools=[spy]), "hi", session=of(store, "s", "bob"))
    assert refused == ["a"]


async def test_a_document_that_is_not_a_variable_is_ignored() -> None:
    store = MemoryStore()
    collection = collection_of("user", "ada")
    await store.write_documents([DocumentWrite(collection=collection, key="odd", body=[1])])
    assert await shared_state(store, "user", "ada") == {}


class RacingStore(MemoryStore):
    """Another process writes between a read and the write that follows it, once."""

    def __init__(self, collection: str, name: str, session: str) -> None:
        super().__init__()
        self.race: DocumentWrite | None = DocumentWrite(
            collection=collection, key=name, body={"value": "theirs", "session": session}
        )
        self.is_armed = False

    async def write_documents(self, writes: Any, **options: Any) -> None:
        if self.is_armed and self.race is not None:
            race, self.race = self.race, None
            await super().write_documents([race])
        await super().write_documents(writes, **options)


async def test_a_concurrent_write_is_overwritten_without_an_expected_version() -> None:
    store = RacingStore(collection_of("user", "ada"), "x", "other")
    store.is_armed = True
    assert await update_shared_state(store, "user", "ada", {"x": "mine"}) == {"x": 2}
    assert (await shared_state(store, "user", "ada"))["x"].value == "mine"


async def test_a_concurrent_write_makes_the_expected_version_stale() -> None:
    store = RacingStore(collection_of("user", "ada"), "x", "other")
    store.is_armed = True
    with pytest.raises(StaleState):
        await update_shared_state(store, "user", "ada", {"x": "mine"}, expected={"x": 0})
    assert (await shared_state(store, "user", "ada"))["x"].value == "theirs"


@pytest.mark.parametrize(("writer", "left"), [("other", "theirs"), ("s", "old")])
async def test_a_rollback_keeps_a_value_that_another_writer_wrote_last(
    writer: str, left: str
) -> None:
    store = RacingStore(collection_of("user", "ada"), "x", writer)
    session = of(store, "s", "ada")
    await do(lambda ctx: ctx.set("user:x", "old"), session)

    @function_tool
    def change(ctx: RunContextWrapper[Any]) -> str:
        ctx.set("user:x", "mine")
        return "changed"

    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.call("change")
        store.is_armed = True
        raise RuntimeError("no")

    model = ScriptedModel([transfer("b"), say("a does it")])
    a = Agent("a", model=model, handoffs=[Agent("b", run=code, tools=[change])])
    await Runner.run(a, "hi", session=session)
    assert (await shared_state(store, "user", "ada"))["x"].value == left


async def test_more_than_a_page_of_variables_is_read() -> None:
    store = MemoryStore()
    await update_shared_state(store, "app", "shop", {f"x{n:03}": n for n in range(700)})
    await update_shared_state(store, "app", "shop", {}, delete=[f"x{n:03}" for n in range(650)])
    assert len(await shared_state(store, "app", "shop")) == 50
