"""Sync tools in threads of their own: nothing waits for one that hangs."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from ekiden import function_tool as make_tool
from ekiden.tools import ToolResult
from ekiden.tools.under_way import in_thread

Run = Callable[..., Awaitable[ToolResult]]

HUNG = 40
"""More than the threads of any loop's own executor."""


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened when the test is over, so that what hangs in it ends."""
    gate = threading.Event()
    yield gate
    gate.set()


async def test_hanging_tools_do_not_block_others(run: Run, gate: threading.Event) -> None:
    @make_tool(timeout=0.001)
    def hang() -> None:
        gate.wait()

    @make_tool(timeout=30)
    def quick() -> str:
        return "done"

    hung = await asyncio.gather(*(run(hang) for _ in range(HUNG)))
    assert all("did not finish" in result.output for result in hung)
    assert (await run(quick)).output == "done"


def test_closing_the_loop_does_not_wait_for_a_hanging_tool(run: Run, gate: threading.Event) -> None:
    @make_tool(timeout=0.001)
    def hang() -> None:
        gate.wait(600)

    result = asyncio.run(_awaited(run(hang)))
    assert "did not finish" in result.output


def test_the_process_exits_without_waiting_for_a_hanging_tool() -> None:
    code = (
        "import asyncio, threading\n"
        "from ekiden import Agent, Runner, function_tool\n"
        "from ekiden.testing import ScriptedModel, call, say\n"
        "@function_tool(timeout=0.01)\n"
        "def hang() -> None:\n"
        "    threading.Event().wait()\n"
        "model = ScriptedModel([call('hang'), say('given up')])\n"
        "print(Runner.run_sync(Agent('a', model=model, tools=[hang]), 'hi').final_output)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "given up\n"


def test_a_call_that_ends_after_its_loop_closed_is_ignored(gate: threading.Event) -> None:
    ended = threading.Event()

    def slow() -> str:
        gate.wait()
        ended.set()
        return "too late"

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await in_thread(slow)

    asyncio.run(give_up())
    gate.set()
    assert ended.wait(60)
    assert asyncio.run(_awaited(in_thread(lambda: "next"))) == "next"


async def test_threads_are_reused() -> None:
    first = await in_thread(threading.current_thread)
    # A thread says that it is idle after it has handed its result over.
    used = {(await in_thread(threading.current_thread)).name for _ in range(100)}
    assert first.daemon
    assert len(used) < 100


async def test_a_thread_copies_the_context_variables_of_its_caller() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("caller")

    def look() -> str:
        seen = variable.get()
        variable.set("thread")
        return seen

    assert await in_thread(look) == "caller"
    assert variable.get() == "caller"


async def test_an_exception_is_raised_unchanged_and_released() -> None:
    class Parcel:
        pass

    parcels: list[weakref.ref[Parcel]] = []

    def fail() -> None:
        parcel = Parcel()
        parcels.append(weakref.ref(parcel))
        raise ValueError("lost")

    gc.disable()
    try:
        with pytest.raises(ValueError, match="lost") as caught:
            await in_thread(fail)
        del caught
        await in_thread(int)
        assert parcels[0]() is None
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_starts_its_own_threads() -> None:
    code = (
        "import asyncio, os\n"
        "from ekiden.tools.under_way import in_thread\n"
        "call = lambda: asyncio.run(asyncio.wait_for(in_thread(os.getpid), 60))\n"
        "assert call() == os.getpid()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if call() == os.getpid() else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code], timeout=60, check=False
    )
    assert done.returncode == 0


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
