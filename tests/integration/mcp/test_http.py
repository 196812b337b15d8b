"""Tools of real MCP servers that are reached over HTTP, on loopback."""

from __future__ import annotations

import asyncio
from pathlib import Path

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
async def test_a_server_that_comes_back_is_used_again(tmp_path: Path, call: Call) -> None:
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


async def _appears(path: Path) -> None:
    async with asyncio.timeout(20):
        while not path.exists():  # noqa: ASYNC110 - a file of another process tells nobody
            await asyncio.sleep(0.01)
