"""Answers come from people: nothing that an agent's code starts may answer, and people may, also in
the process of the agents."""

from __future__ import annotations

import _thread
import asyncio
import gc
import multiprocessing
import os
import shlex
import subprocess
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, Inbox, MemoryStore, Runner
from ekiden.core.errors.messages import InboxForbidden
from ekiden.testing import ScriptedModel, call, say
from ekiden.tools import function_tool

WAIT_S = 30
needs_proc = pytest.mark.skipif(
    not hasattr(os, "memfd_create") or not Path("/proc/self/environ").exists(),
    reason="the system does not tell about processes",
)
Attempt = Callable[[], str]
Way = Callable[[Attempt], Awaitable[str]]

PROGRAM = f"""
import asyncio, sys
sys.path[:0] = {sys.path!r}
from ekiden import Inbox, MemoryStore
async def attempt():
    try:
        await Inbox(MemoryStore()).answer("any", by="mira", choice="yes")
    except Exception as exc:
        return type(exc).__name__
print(asyncio.run(attempt()), flush=True)
"""
"""Tries to answer, and prints why that failed; a person's answer is refused only because there is
no such item."""


COMMAND = [sys.executable, "-c", PROGRAM]


def attempt() -> str:
    """Try to answer, as `PROGRAM` does."""

    async def answer() -> None:
        await Inbox(MemoryStore()).answer("any", by="mira", choice="yes")

    try:
        asyncio.run(answer())
    except Exception as exc:
        return type(exc).__name__
    return "answered"


async def tried(way: Way) -> str:
    """What came of the attempt that a tool made in this way."""
    found: list[str] = []

    @function_tool
    async def work() -> str:
        """Work."""
        found.append(await way(attempt))
        return "done"

    model = ScriptedModel([call("work"), say("Done.")])
    await Runner.run(Agent("sales", model=model, tools=[work]), "go")
    return found[0]


async def in_thread(attempt: Attempt) -> str:
    end: Future[str] = Future()
    threading.Thread(target=lambda: end.set_result(attempt())).start()
    return await asyncio.wrap_future(end)


async def in_own_class_of_thread(attempt: Attempt) -> str:
    end: Future[str] = Future()

    class Own(threading.Thread):
        def run(self) -> None:
            end.set_result(attempt())

    Own().start()
    return await asyncio.wrap_future(end)


async def in_thread_of_a_thread(attempt: Attempt) -> str:
    end: Future[str] = Future()

    def begin() -> None:
        threading.Thread(target=lambda: end.set_result(attempt())).start()

    threading.Thread(target=begin).start()
    return await asyncio.wrap_future(end)


async def in_timer(attempt: Attempt) -> str:
    end: Future[str] = Future()
    threading.Timer(0, lambda: end.set_result(attempt())).start()
    return await asyncio.wrap_future(end)


async def in_low_level_thread(attempt: Attempt) -> str:
    end: Future[str] = Future()
    _thread.start_new_thread(lambda: end.set_result(attempt()), ())
    return await asyncio.wrap_future(end)


async def in_own_pool(attempt: Attempt) -> str:
    with ThreadPoolExecutor(1) as pool:
        return await asyncio.wrap_future(pool.submit(attempt))


async def in_default_pool(attempt: Attempt) -> str:
    return await asyncio.get_running_loop().run_in_executor(None, attempt)


async def on_the_loop_from_a_thread(attempt: Attempt) -> str:
    loop, end = asyncio.get_running_loop(), Future[str]()

    async def answer() -> None:
        with suppress(InboxForbidden):
            await Inbox(MemoryStore()).answer("any", by="mira", choice="yes")
        end.set_result("InboxForbidden")

    threading.Thread(target=lambda: asyncio.run_coroutine_threadsafe(answer(), loop)).start()
    return await asyncio.wrap_future(end)


@pytest.mark.parametrize(
    "way",
    [
        in_thread,
        in_own_class_of_thread,
        in_thread_of_a_thread,
        in_timer,
        in_low_level_thread,
        in_own_pool,
        in_default_pool,
        on_the_loop_from_a_thread,
    ],
)
async def test_a_thread_that_a_tool_starts_may_not_answer(way: Way) -> None:
    assert await asyncio.wait_for(tried(way), WAIT_S) == "InboxForbidden"


def program(*command: str, **options: Any) -> Way:
    """A way that starts a program, which prints what came of it."""

    async def way(_: Attempt) -> str:
        ended = await asyncio.to_thread(
            subprocess.run, command, stdout=subprocess.PIPE, text=True, **options
        )
        return str(ended.stdout).strip()

    return way


GRANDCHILD = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {PROGRAM!r}], env={{}}, close_fds=False)
"""


async def by_asyncio(_: Attempt) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, stdout=subprocess.PIPE, env={}
    )
    return (await process.communicate())[0].decode().strip()


def low_level(start: Callable[[int], int]) -> Way:
    """A way that starts a program with this file as its output; `start` returns its process id."""

    def begin() -> str:
        reading, writing = os.pipe()
        pid = start(writing)
        os.close(writing)
        with open(reading) as pipe:
            printed = pipe.read()
        os.waitpid(pid, 0)
        return printed.strip()

    async def way(_: Attempt) -> str:
        return await asyncio.to_thread(begin)

    return way


def by_posix_spawn(output: int) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, output, 1)]
    return os.posix_spawn(sys.executable, COMMAND, {}, file_actions=actions)


def by_fork(output: int) -> int:
    os.set_inheritable(output, True)
    command = f"exec {shlex.join(COMMAND)} > /dev/fd/{output}"
    return os.spawnve(os.P_NOWAIT, "/bin/sh", ["sh", "-c", command], {})


async def by_multiprocessing(_: Attempt) -> str:
    spawning = multiprocessing.get_context("spawn")
    reading, writing = spawning.Pipe(duplex=False)
    process = spawning.Process(target=_report, args=(writing,))
    process.start()
    found = str(await asyncio.to_thread(reading.recv))
    await asyncio.to_thread(process.join)
    return found


def _report(pipe: Connection) -> None:
    pipe.send(attempt())


@needs_proc
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(program(*COMMAND), id="child"),
        pytest.param(program(*COMMAND, env={}), id="without environment"),
        pytest.param(program(*COMMAND, env={}, close_fds=False), id="with inherited files"),
        pytest.param(program(*COMMAND, env={}, start_new_session=True), id="detached"),
        pytest.param(program(sys.executable, "-c", GRANDCHILD), id="grandchild"),
        pytest.param(program("/bin/sh", "-c", f"({shlex.join(COMMAND)} &)", env={}), id="orphan"),
        by_asyncio,
        pytest.param(low_level(by_posix_spawn), id="posix_spawn"),
        pytest.param(low_level(by_fork), id="fork"),
        by_multiprocessing,
    ],
)
async def test_a_process_that_a_tool_starts_may_not_answer(way: Way) -> None:
    assert await asyncio.wait_for(tried(way), WAIT_S) == "InboxForbidden"


async def test_a_person_answers_in_a_pool_that_a_tool_used() -> None:
    with ThreadPoolExecutor(1) as pool:

        async def use(attempt: Attempt) -> str:
            return await asyncio.wrap_future(pool.submit(attempt))

        assert await tried(use) == "InboxForbidden"
        assert pool.submit(attempt).result(WAIT_S) == "InboxItemNotFound"
    assert await tried(in_default_pool) == "InboxForbidden"
    assert await asyncio.to_thread(attempt) == "InboxItemNotFound"
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, attempt) == "InboxItemNotFound"


async def test_a_person_answers_while_a_tool_runs() -> None:
    asked, decided = asyncio.Event(), asyncio.Event()

    async def wait(_: Attempt) -> str:
        asked.set()
        await decided.wait()
        return attempt.__name__

    run = asyncio.create_task(tried(wait))
    await asyncio.wait_for(asked.wait(), WAIT_S)
    assert await in_thread(attempt) == "InboxItemNotFound"
    assert await program(*COMMAND)(attempt) == "InboxItemNotFound"
    decided.set()
    await run


async def test_a_thread_that_an_agent_started_leaves_no_cycle() -> None:
    threads: list[weakref.ref[threading.Thread]] = []

    async def begin(_: Attempt) -> str:
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        threads.append(weakref.ref(thread))
        return ""

    gc.disable()
    try:
        await tried(begin)
        assert threads[0]() is None
    finally:
        gc.enable()
