"""Priorities of sessions: who gives them, and who has them from others."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.bus import Bus
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.errors import UserError
from ekiden.core.errors.stored_data import SessionImportInvalid
from ekiden.engine import BusServer, Worker, submit
from ekiden.runtime import CodeContext, Runner
from ekiden.runtime.history.fork import fork_session
from ekiden.runtime.history.session_document import export_session, import_session
from ekiden.sessions import Session
from ekiden.storage.base import SessionRow
from ekiden.storage.memory import MemoryStore
from tests.support.cases import each_case
from tests.unit.runtime.asking.desks import answers, session_of, team_of


@pytest.mark.parametrize(("given", "number"), [("low", 1), ("urgent", 4), (3, 3)])
async def test_a_session_is_made_with_its_priority(given: int | str, number: int) -> None:
    store = MemoryStore()
    team = team_of(desk=answers)
    await Runner.run(team, "go", session=Session("s", store=store, priority=given))
    assert (await store.get("s")).priority == number
    await Runner.run(team, "again", session=Session("s", store=store))
    assert (await store.get("s")).priority == number, "a later message does not change it"


@each_case("given", ["soon", 0, 5, True, "", 3.0])
def test_an_invalid_priority_is_refused(given: Any) -> None:
    with pytest.raises(UserError, match="is not a priority: low"):
        Session("s", store=MemoryStore(), priority=given)


@pytest.mark.parametrize(
    ("own", "question", "expected"),
    [("high", {}, 3), ("low", {}, 1), ("low", {"priority": "urgent"}, 4), ("normal", {}, 2)],
)
async def test_an_asked_session_takes_the_priority_of_the_question_or_the_asker(
    own: str, question: dict[str, Any], expected: int
) -> None:
    async def pm(ctx: CodeContext[Any]) -> Any:
        await ctx.tell("clerk", "a note")
        return await ctx.ask("sales", "?", **question)

    store = MemoryStore()
    team = team_of(pm=pm, sales=answers, clerk=answers)
    await submit(team, "go", session=Session("s", store=store, priority=own))
    await Worker(store, team).run(until_idle=True)
    assert (await session_of(store, "sales")).priority == expected
    assert (await session_of(store, "clerk")).priority == (await store.get("s")).priority


async def test_a_session_for_a_bus_message_takes_its_priority() -> None:
    store = MemoryStore()
    async with Bus(store) as bus, BusServer(bus, store, team_of(desk=answers)):
        message = AgentMessage(from_agent="crm", to_agent="desk", subject="hello", priority=4)
        await bus.send(message)
        row = await _opened(store)
    assert (row.agent, row.priority) == ("desk", 4)


async def _opened(store: MemoryStore) -> SessionRow:
    while not (found := (await store.list()).sessions):
        await store.wait_for_change(1.0)
    return found[0]


async def test_branches_and_copies_keep_the_priority() -> None:
    store, elsewhere = MemoryStore(), MemoryStore()
    session = Session("s", store=store, priority="high")
    await Runner.run(team_of(desk=answers), "go", session=session)
    branch = await fork_session(store, "s", at_seq=1)
    assert (await branch.row()).priority == 3
    document = await export_session(store, "s")
    assert document["session"]["priority"] == 3
    assert (await (await import_session(elsewhere, document)).row()).priority == 3


async def test_an_import_without_a_priority_is_normal_and_an_invalid_one_is_refused() -> None:
    store = MemoryStore()
    await Runner.run(team_of(desk=answers), "go", session=Session("s", store=store))
    document = await export_session(store, "s")
    for odd in (0, "high", None, True, 2.0):
        document["session"]["priority"] = odd
        with pytest.raises(SessionImportInvalid, match=r"session\.priority"):
            await import_session(MemoryStore(), document)
    del document["session"]["priority"]
    assert (await (await import_session(MemoryStore(), document)).row()).priority == 2
