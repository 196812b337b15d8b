"""Code that is run again and calls something else: one idempotency key is one effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.errors import CallChanged
from ekiden.core.events import Event
from ekiden.core.runs import Waiting
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, HandoffController, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.tools import function_tool

Effects = list[tuple[str, int]]
Code = Callable[[CodeContext[Any]], Any]


def bank(effects: Effects, *, dies_first: bool = True) -> Callable[[Code], Agent[Any]]:
    """An agent with a tool whose effect is seen, but whose process dies in the first call."""

    @function_tool
    async def wire(ctx: ToolContext[Any], cents: int) -> str:
        effects.append((ctx.idempotency_key.rpartition(":")[2], cents))
        if dies_first and len(effects) == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        return f"wired {cents}"

    @function_tool
    async def note(ctx: ToolContext[Any], text: str) -> str:
        return text

    return lambda code: Agent("bank", run=code, tools=[wire, note])


def wires(cents: int) -> Code:
    async def code(ctx: CodeContext[Any]) -> Any:
        return await ctx.call("wire", cents=cents)

    return code


async def notes(ctx: CodeContext[Any]) -> Any:
    return await ctx.call("note", text="nothing to wire")


async def idle(ctx: CodeContext[Any]) -> Any:
    return "nothing to do"


async def interrupted(agent: Agent[Any], session: Session) -> None:
    running = asyncio.create_task(Runner.run(agent, "Pay.", session=session))
    with pytest.raises(asyncio.CancelledError):
        await running


async def changed(agent: Agent[Any], session: Session, choice: str) -> Any:
    """The new code is stopped by name; a person decides, and the run goes on."""
    with pytest.raises(CallChanged, match=r"wire\(") as stopped:
        await Runner.resume(agent, session)
    assert stopped.value.code == "run.call_changed"
    [item] = (await Inbox(session.store).list()).items
    assert item.id == stopped.value.item
    assert item.options == ("repeat", "enter a result", "abandon")
    assert isinstance((await Runner.resume(agent, session)).outcome, Waiting)
    await Inbox(session.store).answer(item.id, choice=choice, by="anna")
    return (await Runner.resume(agent, session)).final_output


def _declines(request: Any) -> bool:
    return False


@pytest.mark.parametrize(
    ("code", "choice", "output", "later"),
    [
        (wires(250), "repeat", "wired 100", [("1.1.c1", 100)]),
        (wires(250), "abandon", "wired 250", [("1.1.c1r1", 250)]),
        (notes, "repeat", "wired 100", [("1.1.c1", 100)]),
        (notes, "abandon", "nothing to wire", []),
        (idle, "repeat", "nothing to do", [("1.1.c1", 100)]),
        (idle, "abandon", "nothing to do", []),
    ],
)
async def test_a_person_decides_about_an_unfinished_call_that_changed(
    code: Code, choice: str, output: str, later: Effects
) -> None:
    effects: Effects = []
    team, session = bank(effects), Session("s", store=MemoryStore())
    await interrupted(team(wires(100)), session)
    assert await changed(team(code), session, choice) == output
    assert effects == [("1.1.c1", 100), *later]


async def test_an_unchanged_unfinished_call_is_repeated_with_the_same_key() -> None:
    effects: Effects = []
    team, session = bank(effects), Session("s", store=MemoryStore())
    await interrupted(team(wires(100)), session)
    assert (await Runner.resume(team(wires(100)), session)).final_output == "wired 100"
    assert effects == [("1.1.c1", 100)] * 2


@pytest.mark.parametrize(
    ("choice", "output", "later"),
    [("repeat", "wired 100", []), ("abandon", "wired 250", [("1.1.c1r1", 250)])],
)
async def test_a_person_decides_about_a_stored_call_that_changed(
    choice: str, output: str, later: Effects
) -> None:
    effects: Effects = []
    team, session = bank(effects, dies_first=False), Session("s", store=MemoryStore())

    async def fails(ctx: CodeContext[Any]) -> Any:
        await ctx.call("wire", cents=100)
        raise ConnectionError("the printer is off")

    with pytest.raises(ConnectionError):
        await Runner.run(team(fails), "Pay.", session=session)
    assert await changed(team(wires(250)), session, choice) == output
    assert effects == [("1.1.c1", 100), *later]


async def test_a_person_decides_about_a_stored_call_that_the_code_drops() -> None:
    effects: Effects = []
    team, session = bank(effects, dies_first=False), Session("s", store=MemoryStore())

    async def fails(ctx: CodeContext[Any]) -> Any:
        await ctx.call("note", text="first")
        await ctx.call("wire", cents=100)
        raise ConnectionError("the printer is off")

    async def drops(ctx: CodeContext[Any]) -> Any:
        return await ctx.call("note", text="first")

    with pytest.raises(ConnectionError):
        await Runner.run(team(fails), "Pay.", session=session)
    assert await changed(team(drops), session, "repeat") == "first"
    assert effects == [("1.1.c2", 100)]


async def test_a_withdrawn_decision_about_a_changed_call_is_asked_again() -> None:
    effects: Effects = []
    team, session = bank(effects), Session("s", store=MemoryStore())
    await interrupted(team(wires(100)), session)
    with pytest.raises(CallChanged) as stopped:
        await Runner.resume(team(wires(250)), session)
    assert stopped.value.item is not None
    await Inbox(session.store).cancel(stopped.value.item, by="anna", reason="I do not know")
    assert await changed(team(wires(250)), session, "repeat") == "wired 100"
    assert effects == [("1.1.c1", 100)] * 2


async def message_of(session: Session, text: str) -> Event:
    [message] = [each for each in await session.events() if text in str(each.items)]
    return message


async def test_a_call_interrupted_by_a_new_message_is_recorded() -> None:
    effects: Effects = []
    team, session = bank(effects), Session("s", store=MemoryStore())
    await interrupted(team(wires(100)), session)
    await Runner.run(team(idle), "Never mind.", session=session)
    message = await message_of(session, "Never mind.")
    call, output, _ = message.items
    assert (call["name"], call["arguments"]) == ("wire", '{"cents":100}')
    assert output["call_id"] == call["call_id"]
    assert "may or may not have had an effect" in output["output"]
    assert message.details == {"unfinished": {call["call_id"]: "interrupted by a new message"}}


async def test_an_abandoned_call_is_not_recorded_as_interrupted() -> None:
    effects: Effects = []
    team, session = bank(effects), Session("s", store=MemoryStore())

    async def fails(ctx: CodeContext[Any]) -> Any:
        await ctx.call("note", text="nothing to wire")
        raise ConnectionError("the printer is off")

    await interrupted(team(wires(100)), session)
    with pytest.raises(ConnectionError):
        await changed(team(fails), session, "abandon")
    await Runner.run(team(idle), "Never mind.", session=session)
    assert (await message_of(session, "Never mind.")).details is None


async def test_a_refused_immediate_handoff_does_not_repeat_a_stored_call() -> None:
    effects: Effects = []
    refused = asyncio.Event()

    async def code(ctx: CodeContext[Any]) -> Any:
        wired = await ctx.call("wire", cents=100)
        waiting.set()
        await refused.wait()
        return wired

    waiting = asyncio.Event()
    agent = bank(effects, dies_first=False)(code)
    agent.handoffs.append(Agent("till", run=idle, accepts=_declines))
    session = Session("s", store=MemoryStore())
    running = asyncio.create_task(Runner.run(agent, "Pay.", session=session))
    await waiting.wait()
    controller = HandoffController(agent, session.store)
    assert (await controller.start("s", to="till", policy="immediate")).status == "failed"
    refused.set()
    assert (await running).final_output == "wired 100"
    assert effects == [("1.1.c1", 100)]


async def test_variables_that_code_set_before_an_interrupted_call_are_not_stored_with_it() -> None:
    effects: Effects = []
    team, session = bank(effects), Session("s", store=MemoryStore())

    async def counts(ctx: CodeContext[Any]) -> Any:
        ctx.set("tries", ctx.get("tries", 0) + 1)
        return await ctx.call("wire", cents=100)

    await interrupted(team(counts), session)
    await Runner.resume(team(counts), session)
    assert (await session.row()).variables["tries"] == 1
