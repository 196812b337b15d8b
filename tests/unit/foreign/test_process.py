"""Agents that are processes, and agents over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden import (
    Agent,
    Approval,
    ForeignAgentError,
    FrameworkMissing,
    HttpAgent,
    ProcessAgent,
    RunConfig,
    Runner,
    Session,
    foreign_agent,
)
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, say

ROOT = Path(__file__).parents[3]


class Yes:
    async def approve(self, request: Any) -> Approval:
        return Approval(approved=request.tool == "send", by="ann")


@pytest.fixture
async def child(tmp_path: Path) -> AsyncIterator[ProcessAgent]:
    (tmp_path / "effects").touch()
    agent = ProcessAgent.of(
        "tests.support.foreign_child:child",
        python=sys.executable,
        durability="node",
        cwd=ROOT,
        env={"EFFECTS": str(tmp_path / "effects")},
    )
    yield agent
    await agent.aclose()


async def test_a_process_agent_supports_the_complete_contract(
    child: ProcessAgent, tmp_path: Path
) -> None:
    session = Session("s", store=SqliteStore(tmp_path / "s.db"))
    agent = foreign_agent(
        child, "child", handoffs=[Agent("editor", model=ScriptedModel([say("Printed.")]))]
    )
    config = RunConfig(approver=Yes())
    for text in ("one", "two"):
        result = await Runner.run(agent, text, session=session, run_config=config)
        assert result.final_output == [["written"], True]
        assert result.context_wrapper.usage.tokens == 5
    keys = (tmp_path / "effects").read_text().split()
    assert len(keys) == len(set(keys)) == 2
    result = await Runner.run(agent, "hand over", session=session, run_config=config)
    assert result.final_output == "Printed."
    with pytest.raises(ForeignAgentError, match="ValueError: broken"):
        await Runner.run(foreign_agent(child, "child"), "fail")
    await session.store.close()


async def test_a_killed_process_agent_continues_from_its_checkpoint(
    child: ProcessAgent, tmp_path: Path
) -> None:
    agent, config = foreign_agent(child, "child"), RunConfig(approver=Yes())
    session = Session("s", store=SqliteStore(tmp_path / "s.db"))
    with pytest.raises(ForeignAgentError, match="ended with code -9"):
        await Runner.run(agent, "die", session=session, run_config=config)
    result = await Runner.resume(agent, session=session, run_config=config)
    assert result.final_output == [["written"], True]
    assert len((tmp_path / "effects").read_text().split()) == 1
    await session.store.close()


ECHO = """
import json, sys
turn = json.loads(sys.stdin.readline())
print(json.dumps({"type": "tool_call", "call_id": "1", "name": "echo", "arguments": {}}))
print(json.dumps({"type": "tool_result", "call_id": "1", "output": "done"}))
print(json.dumps({"type": "answer", "output": turn["messages"][-1]["content"]}))
"""


async def test_any_program_that_reads_and_writes_lines_is_an_agent() -> None:
    agent = foreign_agent(ProcessAgent([sys.executable, "-c", ECHO]), "echo")
    assert (await Runner.run(agent, "Hello?")).final_output == "Hello?"


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("import sys; sys.exit('no model is set')", "no model is set"),
        ("input(); print('hello')", "wrote a line that is not JSON"),
        ("input(); print('[1]')", "not a line of a turn"),
        ('input(); print(\'{"type": "delta", "words": 1}\')', "cannot be read"),
    ],
)
async def test_a_program_that_violates_the_protocol_is_a_clear_error(
    program: str, problem: str
) -> None:
    agent = foreign_agent(ProcessAgent([sys.executable, "-c", program]), "odd")
    with pytest.raises(ForeignAgentError, match=problem):
        await Runner.run(agent, "Hello?")


async def test_a_missing_program_is_a_clear_error() -> None:
    agent = foreign_agent(ProcessAgent(["/no/such/program"]), "gone")
    with pytest.raises(FrameworkMissing, match="check `/no/such/program`"):
        await Runner.run(agent, "Hello?")


async def test_cancelling_the_run_ends_the_process(tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    program = f"import os, sys; open({str(told)!r}, 'w').write(str(os.getpid())); sys.stdin.read()"
    agent = foreign_agent(ProcessAgent([sys.executable, "-c", program]), "hangs")
    run = asyncio.create_task(Runner.run(agent, "Go."))
    pid = int(await asyncio.to_thread(told.read_text))
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_an_http_agent_keeps_its_checkpoint(tmp_path: Path) -> None:
    posted: list[dict[str, Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        posted.append(json.loads(await reader.readexactly(length)))
        if posted[-1]["text"] == "teapot":
            writer.write(b"HTTP/1.1 418 no\r\ncontent-length: 5\r\n\r\nshort")
        else:
            lines = [{"type": "checkpoint", "data": 1}, {"type": "answer", "output": "Hi."}]
            body = "".join(f"{json.dumps(line)}\n" for line in lines)
            writer.write(f"HTTP/1.1 200 ok\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        agent = foreign_agent(HttpAgent(f"http://127.0.0.1:{port}/x"), "far")
        session = Session("s", store=SqliteStore(tmp_path / "s.db"))
        for text in ("Hello?", "Again?"):
            assert (await Runner.run(agent, text, session=session)).final_output == "Hi."
        with pytest.raises(ForeignAgentError, match="answered 418: short"):
            await Runner.run(agent, "teapot")
        await session.store.close()
    assert [each["checkpoint"] for each in posted] == [None, 1, None]
