"""The team as an MCP server, used by the official client over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from ekiden.core.current_agent import AGENT_HEADER
from tests.support.gates import TokenGate, caller
from tests.support.relay_team import relay_team
from tests.support.serving import application, served

GATE = TokenGate(
    all=caller("安娜", "read", "run", "answer"),
    asks=caller("asks", "read", "run"),
    reads=caller("reads", "read"),
    other=caller("other", "read", "run", "answer", tenant="other"),
)
READING = {"get_run", "list_sessions", "get_session", "list_inbox", "list_agents"}
RUNNING = {"ask_team", "continue_session", "cancel_run", "handoff", "route"}


@dataclass
class Served:
    url: str
    app: FastAPI

    @asynccontextmanager
    async def client(
        self, token: str = "all", *, mode: Any = "auto", **headers: str
    ) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {token}", **headers}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"{self.url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                yield client


@pytest.fixture
async def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    store = str(tmp_path / "s.db")
    async with (
        application(tmp_path, team=relay_team(), store=store, gate=GATE) as app,
        served(app) as url,
    ):
        yield Served(url, app)


async def called(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return str(result.structured_content["error"]["code"])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_mcp_conversation_includes_a_handoff_and_an_approval(
    team: Served, mode: str
) -> None:
    steps: list[str | None] = []

    async def progress(step: float, total: float | None, words: str | None) -> None:
        steps.append(words)

    async with team.client(mode=mode) as client:
        result = await client.call_tool(
            "ask_team", {"input": "please refund 1042"}, progress_callback=progress
        )
        run = result.structured_content
        assert run["status"] == "waiting"
        assert run["chain"] == ["user", "triage", "desk"]
        assert "triage handed the conversation to desk" in steps
        [question] = run["questions"]
        assert (question["tool"], question["options"]) == ("refund", ["approve", "reject"])
        assert question["id"] in result.content[0].text
        [listed] = (await called(client, "list_inbox", session_id=run["session_id"]))["items"]
        assert listed["id"] == question["id"]
        result = await client.call_tool(
            "answer_inbox", {"item_id": question["id"], "choice": "approve", "seen_version": 1}
        )
        assert result.content[0].text == "1042 is paid back"
        assert result.structured_content["item"]["answer"]["by"] == "安娜"
        assert result.structured_content["run"]["run_id"] == run["run_id"]
        run = await called(
            client, "continue_session", session_id=run["session_id"], input="谢谢 🙂"
        )
        assert run["output"] == "you said: 谢谢 🙂"
        session = await called(client, "get_session", session_id=run["session_id"], last=1)
        assert len(session["items"]) == 1
        assert session["items_before"] > 1


async def test_the_tools_follow_the_scopes_of_the_key(team: Served) -> None:
    async def names(token: str, **headers: str) -> set[str]:
        async with team.client(token, **headers) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert await names("reads") == READING
    assert await names("asks") == READING | RUNNING
    assert await names("all") == READING | RUNNING | {"answer_inbox"}
    assert await names("all", **{AGENT_HEADER: "1"}) == READING | RUNNING
    async with team.client("reads") as client:
        assert await refused(client, "ask_team", input="hello") == "auth.scope"


async def test_an_agent_cannot_answer_inbox_items(team: Served) -> None:
    async with team.client(**{AGENT_HEADER: "1"}) as client:
        run = await called(client, "ask_team", input="please refund 1042")
        [question] = run["questions"]
        arguments = {"item_id": question["id"], "choice": "approve"}
        assert await refused(client, "answer_inbox", **arguments) == "auth.scope"
        assert (await called(client, "get_run", run_id=run["run_id"]))["status"] == "waiting"


async def test_the_mcp_tools_declare_their_effects_and_schemas(team: Served) -> None:
    async with team.client() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    reading = {name for name, tool in tools.items() if tool.annotations.read_only_hint}
    assert reading == READING | {"route"}
    dangerous = {name for name, tool in tools.items() if tool.annotations.destructive_hint}
    assert dangerous == {"answer_inbox", "cancel_run"}
    assert all(tool.description and tool.output_schema for tool in tools.values())
    assert tools["ask_team"].input_schema["required"] == ["input"]


async def test_a_session_can_be_handed_off_through_mcp(team: Served) -> None:
    async with team.client() as client:
        agents = (await called(client, "list_agents"))["items"]
        assert [agent["name"] for agent in agents] == ["triage", "desk"]
        routed = await called(client, "route", input="hello", strategy="rule")
        assert "candidates" in routed
        run = await called(client, "ask_team", input="hello", agent="desk")
        assert run["agent"] == "desk"
        done = await called(client, "handoff", session_id=run["session_id"], to="triage")
        assert done["handoff"]["error"]["code"]
        assert done["run"] is None
        listed = await called(client, "list_sessions", agent="desk", limit=1)
        assert [each["session_id"] for each in listed["items"]] == [run["session_id"]]


async def test_errors_are_reported_with_a_code(team: Served) -> None:
    async with team.client() as client:
        assert await refused(client, "get_run", run_id="nobody:1") == "session.not_found"
        assert await refused(client, "get_session", session_id="nobody") == "session.not_found"
        assert await refused(client, "ask_team", input="") == "request.invalid"
        assert await refused(client, "ask_team", input="x", more=1) == "request.invalid"
        assert await refused(client, "ask_team", input="x", agent="nobody") == "agent.unknown"
        assert await refused(client, "continue_session", session_id="no", input="x") == (
            "session.not_found"
        )
        assert await refused(client, "answer_inbox", item_id="inb_1") == "inbox.not_found"
        with pytest.raises(MCPError, match="no tool is called"):
            await client.call_tool("format_disk", {})


async def test_a_tenant_sees_only_its_own_runs_and_inbox(team: Served) -> None:
    async with team.client() as client:
        run = await called(client, "ask_team", input="please refund 1042")
    async with team.client("other") as client:
        assert (await called(client, "list_sessions"))["items"] == []
        assert (await called(client, "list_inbox"))["items"] == []
        assert await refused(client, "get_run", run_id=run["run_id"]) == "session.not_found"
        [question] = run["questions"]
        arguments = {"item_id": question["id"], "choice": "approve"}
        assert await refused(client, "answer_inbox", **arguments) == "inbox.not_found"


async def test_a_request_without_a_key_or_with_a_foreign_session_is_refused(team: Served) -> None:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    headers = {"Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(base_url=team.url, headers=headers, timeout=60) as http:
        assert (await http.post("/mcp", json=body)).status_code == 401
        mine = {"Authorization": "Bearer all"}
        opened = await http.post("/mcp", json=body, headers=mine)
        assert opened.status_code == 200
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await http.post("/mcp", json=ping, headers={**mine, **session})).status_code == 200
        theirs = {"Authorization": "Bearer other", **session}
        assert (await http.post("/mcp", json=ping, headers=theirs)).status_code == 404


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_cancelling_a_call_stops_its_run(team: Served, mode: str) -> None:
    desk = await team.app.state.service.tenant_service()
    async with team.client(mode=mode) as client:
        call = asyncio.create_task(client.call_tool("ask_team", {"input": "hold:gate"}))
        async with desk.hub.subscribe() as stream:
            session_id = ""
            async for found in stream:
                session_id = found.event.session_id
                if found.event.type == "agent_start" and found.event.agent == "triage":
                    break
            call.cancel()
            await asyncio.wait({call})
        record = await desk.runs.wait(f"{session_id}:1", timeout_s=60)
    assert record.status == "stopped"


async def test_a_run_continues_after_the_wait_time_is_over(team: Served, tmp_path: Path) -> None:
    async with team.client() as client:
        run = await called(client, "ask_team", input="hold:gate", wait_s=0.1)
        assert run["status"] in ("queued", "running")
        (tmp_path / "gate").touch()
        run = await called(client, "get_run", run_id=run["run_id"], wait_s=20)
        assert run["output"] == "you said: hold:gate"
        again = await called(client, "cancel_run", run_id=run["run_id"])
        assert again["status"] == "done"
