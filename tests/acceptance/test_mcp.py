"""`ekiden mcp`: the real command, started by the official client."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from ekiden.core.current_agent import AGENT_VARIABLE

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def started(folder: Path, *scopes: str, **environment: str) -> AsyncIterator[Client]:
    options = [word for scope in scopes for word in ("--scope", scope)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[
            *("-m", "ekiden.cli", "mcp", "--team", "tests.support.relay_team:team"),
            *("--store", str(folder / "s.db"), "--by", "安娜", *options),
        ],
        env={**os.environ, "PYTHONPATH": path, "HOME": str(folder), **environment},
        cwd=str(folder),
    )
    async with Client(parameters) as client:
        yield client


async def called(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


@pytest.mark.slow
async def test_a_conversation_with_handoff_and_approval_spans_two_processes(
    tmp_path: Path,
) -> None:
    async with started(tmp_path) as client:
        run = await called(client, "ask_team", input="please refund 1042")
        assert run["chain"] == ["user", "triage", "desk"]
        [question] = run["questions"]
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert "answer_inbox" not in names, "deciding has to be allowed"
    async with started(tmp_path, "read", "run", "answer") as client:
        done = await called(client, "answer_inbox", item_id=question["id"], choice="approve")
        assert done["item"]["answer"]["by"] == "安娜"
        assert done["run"]["output"] == "1042 is paid back"


async def test_an_agent_that_starts_the_mcp_server_cannot_answer_the_inbox(tmp_path: Path) -> None:
    async with started(tmp_path, "read", "run", "answer", **{AGENT_VARIABLE: "desk"}) as client:
        run = await called(client, "ask_team", input="please refund 1042")
        [question] = run["questions"]
        arguments = {"item_id": question["id"], "choice": "approve"}
        result = await client.call_tool("answer_inbox", arguments)
        assert result.is_error
