"""What code makes must be awaited or returned, and what it returns must have a JSON form."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.errors import AnswerUnusable, CommandForgotten, ToolError, UserError
from ekiden.core.profile import MemorySettings
from ekiden.core.questions import Ask
from ekiden.core.runs import Done, Waiting
from ekiden.runtime import CodeContext, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say
from ekiden.tools import function_tool

Code = Callable[[CodeContext[Any]], Awaitable[Any]]

paid: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


@function_tool
async def pay(cents: int) -> str:
    """Pay."""
    await asyncio.sleep(0)
    paid.append(cents)
    return f"paid {cents}"


@function_tool
async def lock() -> object:
    """Lock something."""
    paid.append(0)
    return threading.Lock()


async def nothing(ctx: CodeContext[Any]) -> str:
    return "nothing"


def till(code: Code) -> Agent[Any]:
    return Agent("till", run=code, tools=[pay, lock], handoffs=[Agent("bank", run=nothing)])


async def run(code: Code) -> Any:
    session = Session("s", store=MemoryStore(), user_id="ann")
    return await Runner.run(till(code), "hi", session=session)


def line_of(code: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(code)
    return first + next(at for at, line in enumerate(lines) if text in line)


async def forgets_call(ctx: CodeContext[Any]) -> str:
    ctx.call(pay, cents=1)  # type: ignore[unused-coroutine]
    return "Paid!"


async def forgets_ask(ctx: CodeContext[Any]) -> str:
    ctx.ask("bank", "rates")  # type: ignore[unused-coroutine]
    return "asked"


async def forgets_ask_all(ctx: CodeContext[Any]) -> str:
    ctx.ask_all([Ask(agent="bank", subject="rates")])  # type: ignore[unused-coroutine]
    return "asked"


async def forgets_tell(ctx: CodeContext[Any]) -> str:
    ctx.tell("bank", "news")  # type: ignore[unused-coroutine]
    return "told"


async def forgets_approval(ctx: CodeContext[Any]) -> str:
    ctx.request_approval("pay?")  # type: ignore[unused-coroutine]
    return "approved"


async def forgets_recall(ctx: CodeContext[Any]) -> str:
    ctx.recall("price")  # type: ignore[unused-coroutine]
    return "recalled"


async def forgets_agent(ctx: CodeContext[Any]) -> str:
    ctx.call_agent("bank", "hi")  # type: ignore[unused-coroutine]
    return "called"


async def forgets_memory(ctx: CodeContext[Any]) -> str:
    ctx.memory.store("colour", "blue")  # type: ignore[unused-coroutine]
    return "stored"


async def forgets_task(ctx: CodeContext[Any]) -> str:
    asyncio.create_task(ctx.call(pay, cents=1))  # noqa: RUF006
    return "Paid!"


async def forgets_gathering(ctx: CodeContext[Any]) -> str:
    asyncio.gather(ctx.call(pay, cents=1))
    return "Paid!"


async def leaves_list(ctx: CodeContext[Any]) -> Any:
    return [ctx.call(pay, cents=1)]


@pytest.mark.parametrize(
    "code",
    [
        forgets_call,
        forgets_ask,
        forgets_ask_all,
        forgets_tell,
        forgets_approval,
        forgets_recall,
        forgets_agent,
        forgets_memory,
        forgets_task,
        forgets_gathering,
        leaves_list,
    ],
)
async def test_a_forgotten_await_fails_the_run_and_names_its_line(code: Code) -> None:
    agent = till(code)
    agent.memory = MemorySettings()
    store = MemoryStore()
    with pytest.raises(CommandForgotten, match="did not await ctx") as caught:
        await Runner.run(agent, "hi", session=Session("s", store=store, user_id="ann"))
    assert f"{Path(__file__).name}, line {line_of(code, 'ctx.')}" in str(caught.value)
    assert paid == []
    row = await store.get("s")
    assert row.outcome == "failed"
    del caught
    await asyncio.sleep(0)
    gc.collect()  # Warnings about coroutines that were never awaited would be errors.


async def test_every_async_method_of_a_context_makes_commands() -> None:
    own = {"leave", "settle"}  # Only the runtime calls these.
    for context in (CodeContext, ToolContext):
        members = inspect.getmembers(context, inspect.iscoroutinefunction)
        assert {name for name, _ in members if not name.startswith("_")} <= own


async def test_a_call_in_a_forgotten_task_finishes_and_is_stored_before_the_run_fails() -> None:
    began = asyncio.Event()

    @function_tool
    async def slow() -> str:
        """Take a while."""
        began.set()
        await asyncio.sleep(0.01)
        paid.append(7)
        return "done"

    async def code(ctx: CodeContext[Any]) -> str:
        asyncio.create_task(ctx.call(slow))  # noqa: RUF006
        await began.wait()
        return "done"

    session = Session("s", store=MemoryStore())
    with pytest.raises(CommandForgotten):
        await Runner.run(Agent("till", run=code, tools=[slow]), "hi", session=session)
    assert paid == [7]
    assert [event.type for event in await session.events()].count("tool_call") == 1


async def hands_off(ctx: CodeContext[Any]) -> str:
    ctx.hand_off("bank")
    return "handed off"


async def hands_off_without_return(ctx: CodeContext[Any]) -> None:
    ctx.hand_off("bank")


@pytest.mark.parametrize("code", [hands_off, hands_off_without_return])
async def test_a_handoff_that_is_not_returned_fails_the_run(code: Code) -> None:
    with pytest.raises(CommandForgotten, match=r"write `return ctx.hand_off\('bank', …\)`"):
        await run(code)


async def returns_call(ctx: CodeContext[Any]) -> Any:
    return ctx.call(pay, cents=1)


async def returns_task(ctx: CodeContext[Any]) -> Any:
    return asyncio.create_task(ctx.call(pay, cents=1))


async def returns_helper(ctx: CodeContext[Any]) -> Any:
    return nothing(ctx)


async def returns_future(ctx: CodeContext[Any]) -> Any:
    return asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("code", [returns_call, returns_task, returns_helper, returns_future])
async def test_an_awaitable_is_no_answer(code: Code) -> None:
    with pytest.raises(CommandForgotten, match="`return await "):
        await run(code)
    assert paid == []
    gc.collect()


async def test_commands_can_be_awaited_in_every_way() -> None:
    async def code(ctx: CodeContext[Any]) -> list[str]:
        task = asyncio.create_task(ctx.call(pay, cents=1))
        gathered = await asyncio.gather(ctx.call(pay, cents=2), ctx.call(pay, cents=3), task)
        async with asyncio.TaskGroup() as group:
            grouped = group.create_task(ctx.call(pay, cents=4))
        in_time = await asyncio.wait_for(ctx.call(pay, cents=5), 60)
        shielded = await asyncio.shield(ctx.call(pay, cents=6))
        return [*gathered, grouped.result(), in_time, shielded]

    result = await run(code)
    assert result.final_output == [f"paid {cents}" for cents in (2, 3, 1, 4, 5, 6)]


async def test_a_cancelled_command_is_not_forgotten() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        task = asyncio.create_task(ctx.call(pay, cents=1))
        task.cancel()
        await asyncio.wait({task})
        return "changed my mind"

    assert (await run(code)).outcome == Done("changed my mind")


async def test_a_command_that_a_suspended_run_drops_is_not_forgotten() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        later = ctx.call(pay, cents=1)
        await ctx.request_approval("pay?")
        return await later

    result = await run(code)
    assert isinstance(result.outcome, Waiting)
    gc.collect()


async def test_code_that_fails_keeps_its_own_error() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        ctx.call(pay, cents=1)  # type: ignore[unused-coroutine]
        raise ConnectionError("no line")

    with pytest.raises(ConnectionError):
        await run(code)
    gc.collect()


@pytest.mark.parametrize("on_failure", [None, lambda ctx, error: "It failed."])
async def test_a_tool_that_forgets_an_await_fails_the_run(on_failure: Any) -> None:
    @function_tool(failure_error_function=on_failure)
    async def forget(ctx: ToolContext[Any]) -> str:
        """Forget something."""
        ctx.ask("bank", "rates")  # type: ignore[unused-coroutine]
        return "asked"

    agent = Agent("m", model=ScriptedModel([call("forget")]), tools=[forget])
    with pytest.raises(CommandForgotten, match=r"tool 'forget' did not await ctx.ask\('bank', …\)"):
        await Runner.run(agent, "hi")
    gc.collect()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (threading.Lock(), "a value of type 'lock' has no JSON form"),
        ({"lock": threading.Lock()}, r"'lock' at \['lock'\] has no JSON form"),
        (float("nan"), "the number nan does not exist in JSON"),
        (Runner, "'type' has no JSON form"),
    ],
)
async def test_an_answer_without_a_json_form_fails_the_run(answer: Any, problem: str) -> None:
    async def code(ctx: CodeContext[Any]) -> Any:
        return answer

    with pytest.raises(AnswerUnusable, match=f"agent 'till' cannot be stored: .*{problem}"):
        await run(code)


async def test_none_as_an_answer_is_a_warning() -> None:
    async def code(ctx: CodeContext[Any]) -> None:
        await ctx.call(pay, cents=1)

    result = await run(code)
    assert result.outcome == Done(None)
    [warning] = result.warnings
    assert "returned None, which is usually a forgotten `return`" in warning


async def test_an_empty_text_as_an_answer_is_no_warning() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        return ""

    assert (await run(code)).warnings == []


async def test_a_model_learns_that_a_call_with_an_unusable_result_was_made() -> None:
    model = ScriptedModel([call("lock"), say("It is done.")])
    await Runner.run(Agent("m", model=model, tools=[lock]), "hi")
    output = model.calls[1].input[-1]["output"]
    assert "was made and may have had its effect" in output
    assert "do not repeat the call" in output
    assert paid == [0]


async def test_a_call_with_an_unusable_result_is_not_repeated_by_a_resume() -> None:
    is_away = True

    async def code(ctx: CodeContext[Any]) -> str:
        try:
            await ctx.call(lock)
        except ToolError as problem:
            if is_away:
                raise
            return str(problem)
        return "never"

    agent, session = till(code), Session("s", store=MemoryStore())
    with pytest.raises(ToolError, match="do not repeat the call"):
        await Runner.run(agent, "hi", session=session)
    is_away = False
    result = await Runner.resume(agent, session)
    assert "was made and may have had its effect" in str(result.final_output)
    assert paid == [0]


@pytest.mark.parametrize("what", ["call", "handoff"])
async def test_arguments_that_are_not_json_are_refused(what: str) -> None:
    async def code(ctx: CodeContext[Any]) -> Any:
        if what == "handoff":
            return ctx.hand_off("bank", context=threading.Lock())
        return await ctx.call(pay, cents=threading.Lock())

    with pytest.raises(UserError, match="the arguments of a .* must be JSON"):
        await run(code)
