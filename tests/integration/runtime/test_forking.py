"""Going back to an earlier message: a branch that knows nothing of what came later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import text_of
from ekiden.core.errors import SessionExists, SessionNotFound, StoreUnavailable, UserError
from ekiden.handoff import handoff, remove_all_tools
from ekiden.runtime import Runner
from ekiden.runtime.history.fork import fork_session, messages_to
from ekiden.sessions import Session
from ekiden.storage.base import Claim, Commit, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call, fail, hang, transfer
from ekiden.tools import function_tool

SAID = ("a ticket please", "make it first class", "how much is it?", "thank you")


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


class Desk:
    """A team with a filter at one handoff, none at the other, a tool, and a variable."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[Any]]] = []

        @function_tool
        def note(ctx: ToolContext[Any], what: str) -> str:
            ctx.variables["notes"] = [*ctx.variables.get("notes", []), what]
            return f"noted {what}"

        model = ScriptedModel(respond=self.answer)
        clerk = Agent("clerk", model=model, instructions="Sell.", tools=[note])
        cashier = Agent("cashier", model=model, tools=[note])
        clerk.handoffs.append(cashier)
        cashier.handoffs.append(handoff(clerk, input_filter=remove_all_tools))
        door = Agent("door", model=model, handoffs=[handoff(clerk, input_filter=remove_all_tools)])
        self.team = Team(door)

    def answer(self, request: Any) -> Any:
        self.asked.append((request.agent, list(request.input)))
        last = request.input[-1]
        text = text_of(last)
        if request.agent == "door":
            return transfer("clerk", reason="tickets")
        if "how much" in text and request.agent == "clerk":
            return transfer("cashier", reason="money", context="first class")
        if "thank" in text and request.agent == "cashier":
            return transfer("clerk")
        if last.get("role") == "user":
            return call("note", what=text)
        return f"{request.agent} heard it"


async def _talk(store: Store, said: tuple[str, ...], session_id: str = "s") -> Desk:
    desk = Desk()
    for text in said:
        await Runner.run(desk.team, text, session=Session(session_id, store=store))
    return desk


@pytest.mark.parametrize("kept", range(len(SAID)))
async def test_a_branch_continues_as_if_later_messages_never_happened(
    store: Store, kept: int
) -> None:
    await _talk(store, SAID)
    plain = await _talk(store, SAID[:kept], "never")
    places = messages_to(await store.events("s"))

    branch = await fork_session(store, "s", before_seq=places[kept].seq, new_id="branch")
    desk = Desk()
    went_on = await Runner.run(desk.team, "something else", session=branch)
    plain.asked.clear()
    expected = await Runner.run(plain.team, "something else", session=Session("never", store=store))

    assert desk.asked == plain.asked
    assert went_on.chain == expected.chain
    mine, theirs = await store.get("branch"), await store.get("never")
    assert (mine.agent, mine.variables, mine.seq) == (theirs.agent, theirs.variables, theirs.seq)
    assert _comparable(mine.cursor) == _comparable(theirs.cursor)


def _comparable(cursor: Any) -> dict[str, Any]:
    return {name: value for name, value in cursor.items() if name not in ("sp", "si", "hd")}


async def test_branching_leaves_the_original_session_unchanged(store: Store) -> None:
    await _talk(store, SAID)
    before = await store.get("s"), [each.to_json() for each in await store.events("s")]
    places = messages_to(await store.events("s"))
    branch = await fork_session(store, "s", before_seq=places[2].seq)
    await Runner.run(Desk().team, "something else", session=branch)
    assert (await store.get("s"), [each.to_json() for each in await store.events("s")]) == before


async def test_a_branch_names_its_origin_and_keeps_its_history(store: Store) -> None:
    await _talk(store, SAID)
    places = messages_to(await store.events("s"))
    branch = await fork_session(store, "s", before_seq=places[1].seq)
    row = await branch.row()
    assert row.meta["forked_from"] == "s"
    assert row.meta["forked_at"] == places[1].seq
    assert (row.status, row.outcome) == ("idle", "done")
    old = await store.events("s", limit=places[1].seq - 1)
    assert [(each.type, each.at_us, each.items, each.step) for each in await branch.events()] == [
        (each.type, each.at_us, each.items, each.step) for each in old
    ]
    assert {each.session_id for each in await branch.events()} == {branch.session_id}


async def test_a_branch_can_be_branched_again(store: Store) -> None:
    await _talk(store, SAID)
    places = messages_to(await store.events("s"))
    branch = await fork_session(store, "s", before_seq=places[3].seq)
    again = await fork_session(store, branch.session_id, before_seq=places[2].seq)
    desk = Desk()
    await Runner.run(desk.team, "how much is it?", session=again)
    assert [who for who, _ in desk.asked] == ["clerk", "cashier"]


async def test_branching_before_the_first_message_starts_a_new_conversation(store: Store) -> None:
    desk = Desk()
    first = Session("s", store=store, user_id="u1", title="tickets")
    await Runner.run(desk.team, SAID[0], session=first)
    branch = await fork_session(store, "s", before_seq=1)
    with pytest.raises(SessionNotFound):
        await branch.row()
    await Runner.run(desk.team, "hello", session=branch)
    row = await branch.row()
    assert row.user_id == "u1"
    assert row.meta == {"title": "tickets", "forked_from": "s", "forked_at": 1}
    assert len(messages_to(await branch.events())) == 1


async def test_a_cancelled_turn_can_be_resumed_in_the_branch(store: Store) -> None:
    steps: list[Any] = ["hi", call("slow"), "done after all"]
    started = asyncio.Event()

    @function_tool
    async def slow() -> str:
        started.set()
        if len(model.calls) == 2 and not resumed:
            await asyncio.Event().wait()
        return "ok"

    resumed = False
    model = ScriptedModel(steps)
    agent = Agent("clerk", model=model, tools=[slow])
    session = Session("s", store=store)
    await Runner.run(agent, "one", session=session)
    running = asyncio.create_task(Runner.run(agent, "two", session=session))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    model.enqueue("never mind")
    resumed = True
    stopped_at = (await session.row()).seq
    model2 = ScriptedModel(["never mind"])
    await Runner.run(agent.clone(model=model2), "three", session=session)
    places = messages_to(await session.events())
    assert places[-1].seq == stopped_at + 1

    branch = await fork_session(store, "s", before_seq=places[-1].seq)
    result = await Runner.resume(agent, branch)
    assert result.final_output == "done after all"


async def test_open_calls_of_a_cancelled_turn_are_closed_in_the_branch(
    store: Store,
) -> None:
    model = ScriptedModel([call("slow")])
    started = asyncio.Event()

    @function_tool
    async def slow() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    agent = Agent("clerk", model=model, tools=[slow])
    session = Session("s", store=store)
    running = asyncio.create_task(Runner.run(agent, "one", session=session))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    after = ScriptedModel(["fine", "fine"])
    await Runner.run(agent.clone(model=after), "two", session=session)
    places = messages_to(await session.events())
    branch = await fork_session(store, "s", before_seq=places[1].seq)
    await Runner.run(agent.clone(model=after), "two", session=branch)
    first, second = (list(each.request.input) for each in after.calls)
    assert first == second


async def test_a_running_session_can_be_branched(store: Store) -> None:
    model = ScriptedModel(["one", hang()])
    agent = Agent("clerk", model=model)
    session = Session("s", store=store)
    await Runner.run(agent, "first", session=session)
    running = asyncio.create_task(Runner.run(agent, "second", session=session))
    await model.until_called(2)
    places = messages_to(await session.events())
    branch = await fork_session(store, "s", before_seq=places[1].seq)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    other = ScriptedModel(["other"])
    await Runner.run(agent.clone(model=other), "second", session=branch)
    assert [text_of(item) for item in other.calls[0].request.input] == ["first", "one", "second"]


@pytest.mark.parametrize("seq", [-1, 0, 2, 99])
async def test_only_messages_can_be_branched_at(store: Store, seq: int) -> None:
    await _talk(store, SAID[:1])
    with pytest.raises(UserError, match="is not a message to it"):
        await fork_session(store, "s", before_seq=seq)
    assert len((await store.list()).sessions) == 1


async def test_an_unknown_session_cannot_be_branched(store: Store) -> None:
    with pytest.raises(SessionNotFound):
        await fork_session(store, "nobody", before_seq=1)


async def test_an_id_that_is_taken_is_refused(store: Store) -> None:
    await _talk(store, SAID[:2])
    await _talk(store, SAID[:1], "other")
    places = messages_to(await store.events("s"))
    kept = await store.events("other")
    with pytest.raises(SessionExists):
        await fork_session(store, "s", before_seq=places[1].seq, new_id="other")
    assert [each.to_json() for each in await store.events("other")] == [
        each.to_json() for each in kept
    ]


async def test_a_session_of_an_older_version_is_refused_with_advice() -> None:
    class Forgetful(MemoryStore):
        async def steps(self, session_id: str, *, prefix: str = "") -> Any:
            return {}

    store = Forgetful()
    agent = Agent("clerk", model=ScriptedModel(["a", "b"]))
    session = Session("s", store=store)
    await Runner.run(agent, "one", session=session)
    await Runner.run(agent, "two", session=session)
    places = messages_to(await session.events())
    with pytest.raises(UserError, match="older Ekiden"):
        await fork_session(store, "s", before_seq=places[1].seq)


@pytest.mark.parametrize("failing", ["claim", "commit"])
async def test_a_branch_that_cannot_be_stored_leaves_no_session(failing: str) -> None:
    class Broken(MemoryStore):
        broken = False

        async def commit(self, claim: Claim, commit: Commit) -> None:
            if self.broken and failing == "commit":
                raise StoreUnavailable("the disk is full")
            await super().commit(claim, commit)

        async def claim(self, *args: Any, **options: Any) -> Any:
            if self.broken and failing == "claim":
                raise StoreUnavailable("the disk is full")
            return await super().claim(*args, **options)

    store = Broken()
    await _talk(store, SAID[:2])
    places = messages_to(await store.events("s"))
    store.broken = True
    with pytest.raises(StoreUnavailable):
        await fork_session(store, "s", before_seq=places[1].seq)
    assert [row.id for row in (await store.list()).sessions] == ["s"]


async def test_a_rolled_back_handoff_is_rolled_back_in_the_branch(store: Store) -> None:
    bad = Agent("bad", model=ScriptedModel([fail(RuntimeError("no line"))]))
    model = ScriptedModel([transfer("bad"), "I stay", "again", "branch"])
    door = Agent("door", model=model, handoffs=[bad])
    session = Session("s", store=store)
    for text in ("one", "two"):
        await Runner.run(door, text, session=session)
    places = messages_to(await session.events())
    branch = await fork_session(store, "s", before_seq=places[1].seq)
    await Runner.run(door, "two", session=branch)
    second, third = (list(model.calls[at].request.input) for at in (2, 3))
    assert second == third
