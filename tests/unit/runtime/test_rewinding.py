"""Taking a session back where it stood: in place, on record, and again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.audit import verify_audit
from ekiden.cli.transcript import transcript
from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import text_of
from ekiden.core.errors import SessionBusy, SessionNotFound, UserError
from ekiden.core.profile import Budget
from ekiden.handoff import handoff, remove_all_tools
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, Runner
from ekiden.runtime.history.fork import fork_session, messages_to, rewind_session
from ekiden.sessions import Session, chain_of
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, hang, say, transfer
from ekiden.tools import function_tool


class Desk:
    """Notes what tools do."""

    def __init__(self, **terms: Any) -> None:
        self.done: list[str] = []

        @function_tool
        def note(ctx: ToolContext[Any], what: str) -> str:
            self.done.append(what)
            ctx.variables["notes"] = [*ctx.variables.get("notes", []), what]
            return f"noted {what}"

        @function_tool
        def count(ctx: ToolContext[Any]) -> str:
            ctx.variables["count"] = ctx.variables.get("count", 0) + 1
            return "counted"

        model = ScriptedModel(respond=self.answer)
        clerk = Agent("clerk", model=model, tools=[note, count])
        edge = handoff(clerk, **terms)
        self.team = Agent("door", model=model, tools=[note, count], handoffs=[edge])

    def answer(self, request: Any) -> Any:
        if request.agent == "door":
            return transfer("clerk", reason="tickets")
        if request.input[-1].get("output") == "counted":
            return say("done")
        asked = [text_of(item) for item in request.input if item.get("role") == "user"]
        return [call("note", what=asked[-1]), call("count")]


async def talked(store: MemoryStore, *texts: str) -> tuple[Session, Desk]:
    session, desk = Session("s", store=store, title="tea"), Desk()
    for text in texts:
        await Runner.run(desk.team, text, session=session)
    return session, desk


async def test_a_rewind_restores_the_session_and_is_recorded() -> None:
    store = MemoryStore()
    session, _ = await talked(store, "one", "two")
    before = list(await session.events())
    second = messages_to(before)[1].seq
    back = await rewind_session(store, "s", to_seq=second - 1)
    assert (back.to_seq, back.undone, back.agent) == (second - 1, len(before) - second + 1, "clerk")
    assert "are not rolled back" in str(back)
    row = await session.row()
    assert (row.status, row.outcome, row.agent) == ("idle", "done", "clerk")
    assert row.variables == {"notes": ["one"], "count": 1}
    after = await session.events()
    assert list(after[: len(before)]) == before
    assert after[-1].details is not None
    assert after[-1].details["undoes"] == [second, len(before)]
    assert (await verify_audit(store)).ok
    assert [text_of(event.items[0]) for event in messages_to(after)] == ["one"]
    shown = transcript(after)
    assert "two" not in [line.what for line in shown]
    assert shown[-1] == ("rewind", f"rewound to after event {second - 1}")
    desk = Desk()
    await Runner.run(desk.team, "three", session=session)
    assert desk.done == ["three"]
    assert (await session.row()).variables == {"notes": ["one", "three"], "count": 2}
    assert (await session.state()).variables == (await session.row()).variables
    branch = await fork_session(store, "s", before_seq=messages_to(await session.events())[1].seq)
    assert (await branch.row()).variables == {"notes": ["one"], "count": 1}


async def test_a_rewind_records_a_change_between_values_that_are_equal_in_python() -> None:
    async def flag(ctx: CodeContext) -> str:
        ctx.set("flag", True if ctx.text == "one" else 1)
        return "set"

    session = Session("s", store=MemoryStore())
    for text in ("one", "two"):
        await Runner.run(Agent("flags", run=flag), text, session=session)
    await rewind_session(session.store, "s", to_seq=messages_to(await session.events())[1].seq - 1)
    assert (await session.state()).variables["flag"] is True
    assert (await session.row()).variables["flag"] is True


async def test_a_rewind_can_be_undone() -> None:
    store = MemoryStore()
    session, _ = await talked(store, "one", "two")
    whole, last = await session.get_items(), (await session.row()).seq
    await rewind_session(store, "s", to_seq=4)
    assert await session.get_items() != whole
    back = await rewind_session(store, "s", to_seq=last)
    assert back.undone == (await session.row()).seq - 1 - last
    assert await session.get_items() == whole
    assert (await session.row()).variables == {"notes": ["one", "two"], "count": 2}
    nothing = await rewind_session(store, "s", to_seq=(await session.row()).seq)
    assert nothing.undone == 0
    assert "its last" in str(nothing)


async def test_handoffs_undone_by_a_rewind_do_not_count() -> None:
    store = MemoryStore()
    session, _ = await talked(store, "one")
    await rewind_session(store, "s", to_seq=2)
    [taken] = chain_of(await session.events())
    assert (taken["status"], taken["rewound"]) == ("rolled_back", True)
    assert (await session.row()).agent == "door"
    result = await Runner.resume(Desk().team, session)
    assert result.final_output == "done"
    assert [each["status"] for each in chain_of(await session.events())] == [
        "rolled_back",
        "completed",
    ]


async def test_a_rewind_to_open_calls_makes_the_calls_again() -> None:
    store = MemoryStore()
    session, first = await talked(store, "one")
    events = await session.events()
    asked = next(each.seq for each in events if each.type == "llm_call" and each.agent == "clerk")
    await rewind_session(store, "s", to_seq=asked)
    desk = Desk()
    await Runner.resume(desk.team, session)
    assert desk.done == first.done == ["one"]
    assert (await session.row()).variables == {"notes": ["one"], "count": 1}


async def test_a_turn_of_code_is_rewound_as_a_whole() -> None:
    store, made = MemoryStore(), []

    @function_tool
    def count() -> int:
        """Count."""
        made.append(len(made))
        return len(made)

    async def code(ctx: CodeContext[Any]) -> str:
        return f"{await ctx.call('count')} {await ctx.call('count')}"

    session = Session("s", store=store)
    agent = Agent("code", run=code, tools=[count])
    await Runner.run(agent, "go", session=session)
    calls = [event.seq for event in await session.events() if event.type == "tool_call"]
    branch = await fork_session(store, "s", at_seq=calls[0])
    assert (await Runner.resume(agent, branch)).final_output == "1 3"
    back = await rewind_session(store, "s", to_seq=calls[0])
    assert back.to_seq == calls[0] - 1
    assert (await Runner.resume(agent, session)).final_output == "4 5"


async def test_a_rewind_cancels_the_inbox_items_it_undoes() -> None:
    store = MemoryStore()
    people = Agent("people", person="staff")
    door = Agent("door", model=ScriptedModel([transfer("people")]), handoffs=[people])
    session = Session("s", store=store)
    await Runner.run(door, "help", session=session)
    [item] = (await Inbox(store).list()).items
    await rewind_session(store, "s", to_seq=2)
    assert (await Inbox(store).get(item.id)).status == "cancelled"
    row = await session.row()
    assert (row.agent, row.status, row.outcome) == ("door", "idle", None)
    branch = await fork_session(store, "s", at_seq=5)
    again = await Runner.resume(Agent("door", handoffs=[people]), branch)
    assert again.outcome.kind == "waiting"
    assert len((await Inbox(store).list()).items) == 1


async def test_a_running_session_cannot_be_rewound() -> None:
    store = MemoryStore()
    asked = asyncio.Event()

    def answer(request: Any) -> Any:
        asked.set()
        return hang()

    agent = Agent("a", model=ScriptedModel(respond=answer))
    session = Session("s", store=store)
    run = asyncio.create_task(Runner.run(agent, "go", session=session))
    await asked.wait()
    with pytest.raises(SessionBusy):
        await rewind_session(store, "s", to_seq=1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await rewind_session(store, "s", to_seq=1)
    assert (await session.row()).owner is None


@pytest.mark.parametrize("seq", [0, -1, 10**9, "3", None])
async def test_a_rewind_or_branch_to_an_unknown_event_is_refused(seq: Any) -> None:
    store = MemoryStore()
    session, _ = await talked(store, "one")
    with pytest.raises(UserError, match="no event"):
        await rewind_session(store, "s", to_seq=seq)
    if seq is not None:
        with pytest.raises(UserError, match="no event"):
            await fork_session(store, "s", at_seq=seq)
    assert (await session.row()).owner is None
    with pytest.raises(SessionNotFound):
        await rewind_session(store, "nobody", to_seq=1)


async def test_a_branch_needs_exactly_one_place() -> None:
    store = MemoryStore()
    await talked(store, "one")
    with pytest.raises(UserError, match="where to fork"):
        await fork_session(store, "s")
    with pytest.raises(UserError, match="where to fork"):
        await fork_session(store, "s", at_seq=1, before_seq=1)


async def test_a_branch_keeps_filter_tools_and_budget_of_a_handoff() -> None:
    store = MemoryStore()
    desk = Desk(input_filter=remove_all_tools, restrict_tools=True, budget=Budget(tokens=10_000))
    session = Session("s", store=store, title="tea")
    await Runner.run(desk.team, "one", session=session)
    moved = next(event.seq for event in await session.events() if event.type == "handoff")
    branch = await fork_session(store, "s", at_seq=moved)
    row = await branch.row()
    assert row.cursor["to"] == ["note", "count"]
    assert row.cursor["bu"]["tokens"] >= 10_000
    assert row.cursor["b"] == "1.1.filter"
    assert row.cursor["rc"] == {"from": "door", "reason": "tickets"}
    confirmed = (await branch.events())[-1].details or {}
    assert confirmed["status"] == "completed"
    assert row.meta == {"title": "tea", "forked_from": "s", "forked_at": moved}
