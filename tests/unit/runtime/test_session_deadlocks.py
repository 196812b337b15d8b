"""Runs that wait for sessions that wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ekiden.client import Ekiden
from ekiden.core.agent import Agent, Team
from ekiden.core.context import ToolContext
from ekiden.core.errors import SessionBusy
from ekiden.core.errors.messages import DeadlockError, QueryFailed
from ekiden.core.runs import Done
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call
from ekiden.tools import function_tool

Code = Callable[[CodeContext[Store]], Awaitable[Any]]
TOO_LONG_S = 60  # Only prevents hanging: a circle is found at once.
PATIENT = RunConfig(busy_timeout_s=10 * TOO_LONG_S)


async def answer(ctx: CodeContext[Any]) -> str:
    return "answer"


other = Team(Agent("other", run=answer), Agent("a", run=answer))


async def again(ctx: CodeContext[Store] | ToolContext[Store], name: str = "s1") -> str:
    """Run the session and wait for it."""
    session = Session(name, store=ctx.context)
    result = await Runner.run(other, "hi", session=session, run_config=PATIENT)
    return str(result.final_output)


async def run(code: Code, *others: Agent[Any], store: Store | None = None, name: str = "s1") -> Any:
    store = MemoryStore() if store is None else store
    team = Team(Agent("a", run=code), *others)
    session = Session(name, store=store)
    async with asyncio.timeout(TOO_LONG_S):
        return await Runner.run(team, "hi", session=session, context=store, run_config=PATIENT)


async def directly(ctx: CodeContext[Store]) -> str:
    return await again(ctx)


async def gathered(ctx: CodeContext[Store]) -> str:
    [found] = await asyncio.gather(again(ctx))
    return found


async def shielded(ctx: CodeContext[Store]) -> str:
    return await asyncio.shield(again(ctx))


async def in_time(ctx: CodeContext[Store]) -> str:
    return await asyncio.wait_for(again(ctx), 10 * TOO_LONG_S)


async def in_a_task(ctx: CodeContext[Store]) -> str:
    return await asyncio.create_task(again(ctx))


async def streamed(ctx: CodeContext[Store]) -> str:
    session = Session("s1", store=ctx.context)
    stream = Runner.run_streamed(other, "hi", session=session, run_config=PATIENT)
    async for _ in stream.stream_events():
        pass
    return "never"


async def resumed(ctx: CodeContext[Store]) -> str:
    session = Session("s1", store=ctx.context)
    return str(await Runner.resume(other, session, run_config=PATIENT))


async def waited(ctx: CodeContext[Store]) -> str:
    return str(await Runner.wait(other, Session("s1", store=ctx.context)))


@pytest.mark.parametrize(
    "code", [directly, gathered, shielded, in_time, in_a_task, streamed, resumed, waited]
)
async def test_a_run_that_waits_for_its_own_session_fails_at_once(code: Code) -> None:
    with pytest.raises(DeadlockError, match="session 's1' waits for session 's1'") as caught:
        await run(code)
    assert caught.value.code == "bus.deadlock"
    assert caught.value.cycle == ["s1", "s1"]


@pytest.mark.parametrize("streams", [False, True])
async def test_a_circle_over_two_sessions_is_named(streams: bool) -> None:
    inner = Agent("inner", run=directly)

    async def outer(ctx: CodeContext[Store]) -> str:
        session = Session("s2", store=ctx.context)
        if not streams:
            await Runner.run(inner, "hi", session=session, context=ctx.context)
        else:
            stream = Runner.run_streamed(inner, "hi", session=session, context=ctx.context)
            async for _ in stream.stream_events():
                pass
        return "never"

    with pytest.raises(DeadlockError) as caught:
        await run(outer)
    assert caught.value.cycle == ["s1", "s2", "s1"]


@function_tool(failure_error_function=None)
async def run_again(ctx: ToolContext[Store]) -> str:
    """Run the session again."""
    return await again(ctx)


@function_tool(failure_error_function=None)
def run_again_in_a_thread(ctx: ToolContext[Store]) -> str:
    """Run the session again."""
    session = Session("s1", store=ctx.context)
    return str(Runner.run_sync(other, "hi", session=session, run_config=PATIENT).final_output)


@function_tool
async def nothing() -> str:
    """Do nothing."""
    return "nothing"


@pytest.mark.parametrize("tool", [run_again, run_again_in_a_thread])
@pytest.mark.parametrize("with_others", [False, True])
async def test_a_tool_that_waits_for_its_own_session_fails_at_once(
    tool: Any, with_others: bool
) -> None:
    store = MemoryStore()
    calls = [call(tool.name), call("nothing")] if with_others else [call(tool.name)]
    model = ScriptedModel([calls])
    agent = Agent("m", model=model, tools=[tool, nothing])
    with pytest.raises(DeadlockError):
        async with asyncio.timeout(TOO_LONG_S):
            await Runner.run(agent, "hi", session=Session("s1", store=store), context=store)


async def asks(ctx: CodeContext[Store]) -> Any:
    return await ctx.ask("asked", "hi", timeout_s=10 * TOO_LONG_S)


async def test_a_circle_over_a_question_is_found() -> None:
    with pytest.raises(QueryFailed, match=r"deadlock: session 's1' waits for session 'ask_"):
        await run(asks, Agent("asked", run=directly))


async def test_a_circle_over_a_question_of_another_session_is_found() -> None:
    team = Team(Agent("asker", run=asks), Agent("asked", run=directly))

    async def outer(ctx: CodeContext[Store]) -> str:
        session = Session("s2", store=ctx.context)
        result = await Runner.run(team, "hi", session=session, context=ctx.context)
        return str(result.final_output)

    with pytest.raises(QueryFailed, match="session 's1' waits for session 's2' waits for"):
        await run(outer)


@pytest.mark.parametrize("is_shared", [False, True])
async def test_two_runs_that_wait_for_each_other_are_found(tmp_path: Path, is_shared: bool) -> None:
    first: MemoryStore | SqliteStore
    second: MemoryStore | SqliteStore
    if is_shared:
        first, second = SqliteStore(tmp_path / "s.db"), SqliteStore(tmp_path / "s.db")
    else:
        first = second = MemoryStore()
    both = asyncio.Barrier(2)

    def crossing(session_id: str) -> Code:
        async def code(ctx: CodeContext[Store]) -> str:
            async with asyncio.timeout(TOO_LONG_S):
                await both.wait()
            return await again(ctx, session_id)

        return code

    async with first, second:
        ends = await asyncio.gather(
            run(crossing("s2"), store=first, name="s1"),
            run(crossing("s1"), store=second, name="s2"),
            return_exceptions=True,
        )
        [problem] = [end for end in ends if isinstance(end, BaseException)]
        assert isinstance(problem, DeadlockError)
        assert await first.list_documents("sessions.waits") == []


@pytest.mark.parametrize("what", ["run", "wait"])
async def test_the_interface_to_a_store_finds_circles_too(what: str) -> None:
    store = MemoryStore()
    team = Team(Agent("a", run=answer))

    async def code(ctx: CodeContext[Store]) -> str:
        async with Ekiden.open(store, team=team) as ekiden:
            if what == "run":
                await ekiden.runs.run("hi", session_id="s1", on_busy="wait")
            else:
                await ekiden.runs.wait("s1:1")
        return "never"

    with pytest.raises(DeadlockError, match="session 's1' waits for session 's1'"):
        await run(code, store=store)


async def test_a_wait_over_the_interface_closes_a_circle() -> None:
    store = MemoryStore()

    async def inner(ctx: CodeContext[Any]) -> str:
        session = Session("s1", store=store)
        return str(await Runner.run(other, "hi", session=session, run_config=PATIENT))

    async def code(ctx: CodeContext[Store]) -> str:
        async with Ekiden.open(store, team=Team(Agent("a", run=inner))) as ekiden:
            found = await ekiden.runs.run("hi", session_id="s2")
            return found.failure.message

    try:
        text = str((await run(code, store=store)).final_output)
    except DeadlockError as exc:
        text = str(exc)  # Whichever of the two waits began first finds the circle.
    assert "deadlock: session 's" in text
    assert "'s1' waits for session 's2'" in text or "'s2' waits for session 's1'" in text


async def test_code_can_read_an_earlier_run_of_its_own_session() -> None:
    store = MemoryStore()
    await run(answer, store=store)

    async def code(ctx: CodeContext[Store]) -> str:
        async with Ekiden.open(store, team=Team(Agent("a", run=answer))) as ekiden:
            return str((await ekiden.runs.wait("s1:1")).output)

    assert (await run(code, store=store)).final_output == "answer"


async def test_a_run_in_the_background_is_no_wait() -> None:
    later: list[asyncio.Task[str]] = []
    begun = asyncio.Event()

    async def in_the_background(ctx: CodeContext[Store]) -> str:
        begun.set()
        return await again(ctx)

    async def code(ctx: CodeContext[Store]) -> str:
        later.append(asyncio.create_task(in_the_background(ctx)))
        await begun.wait()
        await ctx.call(nothing)
        return "first"

    store = MemoryStore()
    a = Agent("a", run=code, tools=[nothing])
    async with asyncio.timeout(TOO_LONG_S):
        session = Session("s1", store=store)
        first = await Runner.run(a, "hi", session=session, context=store)
        assert first.outcome == Done("first")
        assert await later[0] == "answer"


async def test_another_session_can_be_awaited() -> None:
    async def code(ctx: CodeContext[Store]) -> str:
        return await again(ctx, "s2")

    assert (await run(code)).final_output == "answer"


async def test_a_run_that_does_not_wait_gets_the_same_error_as_before() -> None:
    async def code(ctx: CodeContext[Store]) -> str:
        session = Session("s1", store=ctx.context)
        config = RunConfig(on_busy="refuse")
        await Runner.run(other, "hi", session=session, run_config=config)
        return "never"

    with pytest.raises(SessionBusy):
        await run(code)
