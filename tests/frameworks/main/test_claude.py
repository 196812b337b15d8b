"""Claude Code, the real command, with a stand-in for the API."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil
import pytest
from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool

from ekiden import (
    Agent,
    Inbox,
    MemoryStore,
    RunConfig,
    Runner,
    Session,
    SessionNotFound,
    foreign_agent,
)
from ekiden.project.stores import open_store
from ekiden.testing import ScriptedModel, say
from tests.frameworks.claude_api import claude_api
from tests.frameworks.effects import booked, done, effect, watched

CONFIG = RunConfig(approver="inbox", lease_s=6.0, on_busy="wait", busy_timeout_s=60.0)
BOOK = "mcp__shop__book"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    monkeypatch.delenv("KILL", raising=False)
    return tmp_path


def options(home: Path, env: dict[str, str], book: Any = None) -> ClaudeAgentOptions:
    @tool("book", "Book.", {"what": str})
    async def default(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"{effect('claude')}: {given['what']}"}]}

    return ClaudeAgentOptions(
        cwd=home,
        env={**env, "CLAUDE_CONFIG_DIR": str(home / f"config-{os.urandom(4).hex()}")},
        mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[book or default])},
        setting_sources=[],
        tools=[],
    )


async def test_claude_asks_before_a_tool_resumes_elsewhere_and_remembers(home: Path) -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    with claude_api((BOOK, {"what": "a room"})) as env:
        first = foreign_agent(options(home, env), "claude")
        assert (first.kind, first.implementation.durability) == ("claude_agent", "turn")
        await Runner.run(first, "please book", session=session, run_config=CONFIG)
        [item] = (await Inbox(store).list()).items
        assert (item.tool, item.arguments) == (BOOK, '{"what":"a room"}')
        assert not done(home / "effects")
        edited = {"arguments": '{"what":"a bed"}', "confirm_edit": True}
        await Inbox(store).answer(item.id, choice="approve", by="ann", **edited)
        # Nothing of the first one's machine is left: the transcript is in the session.
        other = foreign_agent(options(home, env), "claude")
        result = await Runner.resume(other, session=session, run_config=CONFIG)
        assert result.final_output == "claude done"
        assert result.context_wrapper.usage.tokens > 0
        streamed = Runner.run_streamed(other, "again", session=session, run_config=CONFIG)
        shown = [
            event.data.text
            async for event in streamed.stream_events()
            if event.type == "raw_response_event"
        ]
    assert shown == ["claude ", "done"]
    assert len(done(home / "effects")) == 1
    [call] = [each for each in await session.events() if each.type == "tool_call"]
    assert call.items[0]["arguments"] == '{"what":"a bed"}'
    assert "a bed" in call.items[1]["output"]


async def test_claude_hands_off_and_a_rejected_tool_does_not_run(home: Path) -> None:
    desk = Agent("desk", model=ScriptedModel([say("Not booked.")]))
    calls = (BOOK, {"what": "x"}), ("mcp__ekiden__transfer_to_desk", {"reason": "refused"})
    store = MemoryStore()
    session = Session("s", store=store)
    with claude_api(*calls) as env:
        agent = foreign_agent(options(home, env), "claude", handoffs=[desk])
        await Runner.run(agent, "please book", session=session, run_config=CONFIG)
        [item] = (await Inbox(store).list()).items
        await Inbox(store).answer(item.id, choice="reject", by="ann")
        result = await Runner.resume(agent, session=session, run_config=CONFIG)
    assert (result.final_output, result.chain[-1]) == ("Not booked.", "desk")
    assert not done(home / "effects")


async def test_cancelling_the_run_ends_the_claude_command(home: Path) -> None:
    begun = asyncio.Event()

    @tool("book", "Book.", {"what": str})
    async def hangs(given: dict[str, Any]) -> dict[str, Any]:
        begun.set()
        await asyncio.Event().wait()
        return {}

    with claude_api((BOOK, {"what": "x"})) as env:
        given = options(home, env, hangs)
        given.allowed_tools = [BOOK]
        run = asyncio.create_task(Runner.run(foreign_agent(given, "claude"), "Go."))
        await begun.wait()
        started = list(children())
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert started
    _, alive = psutil.wait_procs(started, timeout=60)
    assert not alive


def test_claude_killed_in_a_tool_repeats_the_turn_with_the_same_key(home: Path) -> None:
    url = str(home / "s.db")

    async def work(env: dict[str, str]) -> Any:
        given = options(home, env)
        given.allowed_tools = [BOOK]
        agent = foreign_agent(given, "claude")
        async with open_store(url) as store:
            session = Session("s", store=store)
            try:
                await session.row()
            except SessionNotFound:
                return await Runner.run(agent, "please book", session=session, run_config=CONFIG)
            return await Runner.resume(agent, session=session, run_config=CONFIG)

    def life(env: dict[str, str]) -> None:
        os.environ["KILL"] = "claude:after"
        asyncio.run(work(env))

    with claude_api((BOOK, {"what": "a room"})) as env:
        victim = get_context("fork").Process(target=life, args=(env,))
        victim.start()
        victim.join()
        assert victim.exitcode == -signal.SIGKILL
        result = asyncio.run(work(env))
    assert result.final_output == "claude done"
    made = done(home / "effects")
    assert len(made) == 2
    assert len(set(made)) == 1


async def test_the_tools_of_claude_are_part_of_the_session_trace(home: Path) -> None:
    @tool("book", "Book.", {"what": str})
    async def book(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": await booked("claude")}]}

    with claude_api((BOOK, {"what": "x"})) as env, watched() as inside:
        given = options(home, env, book)
        given.allowed_tools = [BOOK]
        await Runner.run(foreign_agent(given, "claude"), "Go.")
    below, ours = inside.traces
    assert below == ours


def children() -> Iterator[psutil.Process]:
    """The commands that this process runs."""
    for each in psutil.Process().children(recursive=True):
        if "claude" in each.name():
            yield each
