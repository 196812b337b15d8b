"""Branches, steps back and documents on every store, and from one store to another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.audit import verify_audit
from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import text_of
from ekiden.core.errors import SessionExists, StoreUnavailable
from ekiden.handoff import handoff, remove_all_tools
from ekiden.runtime import Runner
from ekiden.runtime.history.fork import fork_session, rewind_session
from ekiden.runtime.history.session_document import export_session, import_session
from ekiden.sessions import Session, variables_at
from ekiden.storage.base import Claim, Commit, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tools import function_tool


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def unopened(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    match request.param:
        case "postgres":
            return PostgresStore(request.getfixturevalue("postgres_url"))
        case "sqlite":
            return SqliteStore(tmp_path / "s.db")
    return MemoryStore()


@pytest.fixture
async def store(unopened: Store) -> AsyncIterator[Store]:
    async with unopened:
        yield unopened


def desk() -> Agent[Any]:
    @function_tool
    def note(ctx: ToolContext[Any], what: str) -> str:
        ctx.variables[what] = True
        return "noted"

    def answer(request: Any) -> Any:
        if request.agent == "door":
            return transfer("clerk", reason="票 🎫")
        if request.input[-1].get("output") == "noted":
            return say("done")
        asked = [text_of(item) for item in request.input if item.get("role") == "user"]
        return [call("note", what=asked[-1]), call("note", what=f"{asked[-1]} again")]

    model = ScriptedModel(respond=answer)
    clerk = Agent("clerk", model=model, tools=[note])
    return Agent("door", model=model, handoffs=[handoff(clerk, input_filter=remove_all_tools)])


async def talked(store: Store) -> Session:
    session = Session("s", store=store, user_id="ada", title="tea")
    for text in ("one", "two"):
        await Runner.run(desk(), text, session=session)
    return session


async def test_every_event_can_be_branched_at_and_rewound_to(store: Store) -> None:
    session = await talked(store)
    last = (await session.row()).seq
    whole = await session.get_items()
    for seq in range(last, 0, -1):
        branch = await fork_session(store, "s", at_seq=seq)
        back = await rewind_session(store, "s", to_seq=seq)
        ours, theirs = await session.row(), await branch.row()
        assert back.to_seq == theirs.meta["forked_at"]
        assert (ours.agent, ours.outcome, ours.variables) == (
            theirs.agent,
            theirs.outcome,
            theirs.variables,
        )
        assert await session.get_items() == await branch.get_items()
        events = await session.events()
        assert variables_at(events, ours.seq) == ours.variables
        if ours.cursor["p"] != "end":
            assert (await Runner.resume(desk(), branch)).final_output == "done"
    assert (await verify_audit(store)).ok
    await rewind_session(store, "s", to_seq=last)
    assert await session.get_items() == whole


async def test_a_session_can_be_moved_between_any_two_stores(store: Store, tmp_path: Path) -> None:
    session = await talked(store)
    await rewind_session(store, "s", to_seq=(await session.row()).seq - 2)
    document = await export_session(store, "s")
    async with SqliteStore(tmp_path / "other.db") as other:
        moved = await import_session(other, document)
        assert await export_session(other, "s") == {
            **document,
            "session": {
                **document["session"],
                "created_at": (await moved.row()).created_at_us / 1e6,
                "updated_at": (await moved.row()).updated_at_us / 1e6,
            },
        }
        back = await import_session(store, await export_session(other, "s"), new_id="back")
    assert await back.get_items() == await session.get_items()
    assert (await verify_audit(store)).ok
    with pytest.raises(SessionExists):
        await import_session(store, document)
    assert (await Runner.resume(desk(), back)).final_output == "done"
    assert (await Runner.resume(desk(), session)).final_output == "done"
    assert (await back.row()).variables == (await session.row()).variables


@pytest.mark.parametrize("failing", ["claim", "commit"])
async def test_a_failed_import_stores_no_session(failing: str) -> None:
    class Broken(MemoryStore):
        async def claim(self, *args: Any, **kwargs: Any) -> Any:
            if failing == "claim":
                raise StoreUnavailable("away")
            return await super().claim(*args, **kwargs)

        async def commit(self, claim: Claim, commit: Commit) -> None:
            raise StoreUnavailable("away")

    healthy = MemoryStore()
    await talked(healthy)
    broken = Broken()
    with pytest.raises(StoreUnavailable):
        await import_session(broken, await export_session(healthy, "s"))
    assert not (await broken.list()).sessions
