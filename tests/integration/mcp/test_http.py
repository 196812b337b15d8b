"""Tools of real MCP servers that are reached over HTTP, on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.integration.mcp.conftest import Call, listening, mcp_tools


@pytest.mark.parametrize(
    ("transport", "path"),
    [("http", "mcp"), pytest.param("sse", "sse", marks=pytest.mark.slow)],
)
async def test_tools_are_called_and_cancelled(
    transport: str, path: str, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EKIDEN_TEST_TOKEN", "abc")
    with listening(transport) as (port, _):
        entry = {
            "type": transport,
            "url": f"http://127.0.0.1:{port}/{path}",
            "headers": {"X-Token": "Bearer ${EKIDEN_TEST_TOKEN}"},
        }
        async with mcp_tools(tmp_path, web=entry) as mcp:
            names = [f"mcp:web/{name}" for name in ("add", "header", "wait")]
            add, header, wait = await mcp.tools_for(names)
            assert (await call(add, a=1, b=2)).output == "3"
            if transport == "http":
                assert (await call(header, name="X-Token")).output == "Bearer abc"
            task = asyncio.create_task(call(wait, folder=str(tmp_path)))
            await _appears(tmp_path / "begun")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await _appears(tmp_path / "cancelled")
            assert (await call(add, a=2, b=2)).output == "4"


@pytest.mark.slow
async def test_a_restarted_http_server_is_used_again(tmp_path: Path, call: Call) -> None:
    with listening("http") as (port, process):
        entry = {"url": f"http://127.0.0.1:{port}/mcp", "timeout": 20}
        async with mcp_tools(tmp_path, web=entry) as mcp:
            [add] = await mcp.tools_for(["mcp:web/add"])
            assert (await call(add, a=1, b=2)).output == "3"
            process.kill()
            process.wait()
            lost = await call(add, a=1, b=2)
            assert lost.error is not None
            assert lost.output.startswith("Error: ")
            with listening("http", port):
                assert (await call(add, a=1, b=2)).output == "3"


class Forgetful(BaseHTTPRequestHandler):
    """A server of the older protocol that forgets a connection after `calls` calls."""

    calls = 1
    sessions: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        session = self.headers.get("Mcp-Session-Id")
        method = message.get("method")
        result: dict[str, Any] | None = None
        if method == "initialize":
            self.sessions.append(0)
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "forgetful", "version": "1"},
            }
        elif session is not None and method == "tools/list":
            result = {"tools": [{"name": "count", "inputSchema": {"type": "object"}}]}
        elif session is not None and method == "tools/call":
            self.sessions[int(session)] += 1
            if self.sessions[int(session)] <= self.calls:
                result = {"content": [{"type": "text", "text": session}]}
        self._answer(message.get("id"), result)

    def do_GET(self) -> None:
        self.send_error(405)

    def do_DELETE(self) -> None:
        self.send_error(405)

    def _answer(self, number: Any, result: dict[str, Any] | None) -> None:
        if number is None or result is None:
            self.send_response(404 if number is not None else 202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Mcp-Session-Id", str(len(self.sessions) - 1))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def forgetful() -> Iterator[str]:
    Forgetful.sessions.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Forgetful)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    server.shutdown()
    server.server_close()
    thread.join()


async def test_a_call_refused_on_a_forgotten_connection_is_made_on_a_new_one(
    forgetful: str, tmp_path: Path, call: Call
) -> None:
    async with mcp_tools(tmp_path, web={"type": "streamable-http", "url": forgetful}) as mcp:
        [count] = await mcp.tools_for(["mcp:web/count"])
        assert [(await call(count)).output for _ in range(3)] == ["0", "1", "2"]


async def test_a_server_that_forgets_every_connection_is_reported(
    forgetful: str, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Forgetful, "calls", 0)
    async with mcp_tools(tmp_path, web={"url": forgetful}) as mcp:
        [count] = await mcp.tools_for(["mcp:web/count"])
        assert "it forgets its connections" in (await call(count)).output


async def _appears(path: Path) -> None:
    async with asyncio.timeout(60):
        while not path.exists():  # noqa: ASYNC110 - a file of another process tells nobody
            await asyncio.sleep(0.01)
