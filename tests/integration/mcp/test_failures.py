"""Servers that do not start, die, say nothing or talk nonsense."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.context import ToolContext
from ekiden.core.errors import McpUnavailable, UnknownTool
from ekiden.tools import invoke
from ekiden.tools.mcp_servers import McpServer, parse_mcp_servers
from ekiden.tools.mcp_tools import McpTools
from tests.integration.mcp.conftest import SERVER, TINY, Call, mcp_tools, started


async def failure_of(mcp: McpTools, server: str) -> str:
    with pytest.raises(McpUnavailable) as failed:
        await mcp.tools_for([f"mcp:{server}"])
    assert failed.value.code == "mcp.unavailable"
    assert failed.value.server == server
    return str(failed.value)


class TestStarting:
    async def test_a_failing_mcp_server_does_not_affect_the_others(
        self, tmp_path: Path, call: Call
    ) -> None:
        broken = started(script=tmp_path / "broken.py")
        (tmp_path / "broken.py").write_text("raise OSError('no license \x1b[2J')")
        async with mcp_tools(tmp_path, good=started(), broken=broken) as mcp:
            await mcp.open()
            assert set(mcp.failures) == {"broken"}
            told = await failure_of(mcp, "broken")
            assert "no license" in told
            assert "\x1b" not in told
            [pid, odd] = await mcp.tools_for(["mcp:good"])
            assert (await call(pid)).error is None
            assert odd.description == "A title only."

    async def test_a_failed_mcp_server_is_retried_only_by_opening_it(self, tmp_path: Path) -> None:
        script = tmp_path / "later.py"
        async with mcp_tools(tmp_path, later=started(script=script)) as mcp:
            await failure_of(mcp, "later")
            script.write_text(TINY.read_text())
            await failure_of(mcp, "later")
            await mcp.open(["mcp:later/pid"])
            assert mcp.failures == {}
            assert len(await mcp.tools_for(["mcp:later/pid"])) == 1

    async def test_a_missing_program_folder_or_variable_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("NOT_SET", raising=False)
        async with mcp_tools(
            tmp_path,
            program={"command": "no-such-program"},
            folder=started(cwd="nowhere"),
            variable=started(env={"KEY": "${NOT_SET}"}),
            nobody={"url": "http://127.0.0.1:1/mcp?key=secret", "timeout": 10},
        ) as mcp:
            await mcp.open()
            told = {name: str(error) for name, error in mcp.failures.items()}
        assert "no-such-program: No such file or directory" in told["program"]
        assert "there is no folder" in told["folder"]
        assert "the environment variable NOT_SET is not set" in told["variable"]
        assert "127.0.0.1:1: " in told["nobody"]
        assert "secret" not in told["nobody"]

    async def test_an_invalid_mcp_address_is_named(self, tmp_path: Path) -> None:
        server = McpServer(name="odd", transport="http", url="http://[::1/mcp")
        async with McpTools({"odd": server}, root=tmp_path) as mcp:
            assert "is not a valid URL" in await failure_of(mcp, "odd")

    async def test_an_mcp_address_refused_by_the_library_is_a_failure(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ekiden.tools.mcp_servers._url_fault", lambda url: None)
        server = McpServer(name="odd", transport="http", url="http://[::1/mcp", timeout=10)
        async with McpTools({"odd": server}, root=tmp_path) as mcp:
            assert "its address: " in await failure_of(mcp, "odd")

    async def test_a_cancelled_connection_is_a_failure(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def stopped(client: object) -> list[object]:
            raise asyncio.CancelledError

        monkeypatch.setattr("ekiden.tools.mcp_link._listed", stopped)
        async with mcp_tools(tmp_path, odd=started()) as mcp:
            assert "connecting to it was stopped" in await failure_of(mcp, "odd")

    async def test_a_silent_mcp_server_times_out_and_is_stopped(self, tmp_path: Path) -> None:
        async with mcp_tools(tmp_path, mute=started("silent") | {"timeout": 0.5}) as mcp:
            assert "not connected within 0.5 s" in await failure_of(mcp, "mute")

    async def test_cancelling_while_connecting_stops_the_server_process(
        self, tmp_path: Path
    ) -> None:
        script = tmp_path / "slow.py"
        script.write_text(
            "import os, sys\nopen('pid', 'w').write(str(os.getpid()))\nsys.stdin.read()"
        )
        async with mcp_tools(tmp_path, slow=started(script=script)) as mcp:
            task = asyncio.create_task(mcp.tools_for(["mcp:slow"]))
            async with asyncio.timeout(60):
                while not (pid := _read(tmp_path / "pid")):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not Path(f"/proc/{pid}").exists()

    async def test_an_invalid_tool_list_is_reported(self, tmp_path: Path) -> None:
        async with mcp_tools(tmp_path, bad=started("bad-schema")) as mcp:
            told = await failure_of(mcp, "bad")
        assert "tools.0.inputSchema.type" in told

    async def test_noise_on_the_connection_is_ignored(self, tmp_path: Path, call: Call) -> None:
        async with mcp_tools(tmp_path, noisy=started("noise")) as mcp:
            [pid] = await mcp.tools_for(["mcp:noisy/pid"])
            assert (await call(pid)).error is None

    async def test_an_endless_tool_list_is_cut_off(self, tmp_path: Path) -> None:
        async with mcp_tools(tmp_path, endless=started("endless-pages")) as mcp:
            assert len(await mcp.tools_for(["mcp:endless"])) == 2


class TestDying:
    async def test_an_mcp_server_that_died_between_calls_is_restarted(
        self, tmp_path: Path, call: Call
    ) -> None:
        async with mcp_tools(tmp_path, mortal=started("die-after-answer")) as mcp:
            [pid] = await mcp.tools_for(["mcp:mortal/pid"])
            first = await call(pid)
            await _is_gone(first.output)
            second = await call(pid)
        assert first.error is second.error is None
        assert first.output != second.output

    async def test_a_call_during_which_the_server_dies_is_not_repeated(
        self, tmp_path: Path, call: Call
    ) -> None:
        async with mcp_tools(tmp_path, mortal=started("die-before-answer")) as mcp:
            [pid] = await mcp.tools_for(["mcp:mortal/pid"])
            for _ in range(2):
                lost = await call(pid)
                assert "it was lost during the call, and what it did is not known" in lost.output
                assert "I am dying" in lost.output

    async def test_a_server_that_does_not_restart_is_reported(
        self, tmp_path: Path, call: Call
    ) -> None:
        script = tmp_path / "once.py"
        script.write_text(TINY.read_text())
        async with mcp_tools(tmp_path, m=started("die-after-answer", script=script)) as mcp:
            [pid] = await mcp.tools_for(["mcp:m/pid"])
            await _is_gone((await call(pid)).output)
            script.write_text("raise OSError('out of order')")
            lost = await call(pid)
        assert lost.output.startswith("Error: the MCP server 'm' cannot be used")
        assert "out of order" in lost.output

    async def test_an_invalid_tool_answer_is_reported(self, tmp_path: Path, call: Call) -> None:
        async with mcp_tools(tmp_path, tiny=started()) as mcp:
            [odd] = await mcp.tools_for(["mcp:tiny/odd"])
            told = await call(odd)
        assert told.error is not None
        assert told.output.startswith("Error: ")

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [("{", "not valid JSON"), ("[1]", "must be a JSON object"), ("null", None), ("", None)],
    )
    async def test_arguments_that_are_not_an_object_do_not_reach_the_server(
        self, tmp_path: Path, arguments: str, told: str | None
    ) -> None:
        async with mcp_tools(tmp_path, tiny=started()) as mcp:
            [pid] = await mcp.tools_for(["mcp:tiny/pid"])
            ctx: ToolContext[Any] = ToolContext(
                tool_name=pid.name, tool_call_id="c", tool_arguments=arguments
            )
            result = await invoke(pid, ctx)
        assert (result.error is None) is (told is None)
        assert told is None or told in result.output

    async def test_after_closing_a_tool_reports_it_and_no_process_is_left(
        self, tmp_path: Path, call: Call
    ) -> None:
        async with mcp_tools(tmp_path, tiny=started()) as mcp:
            [pid] = await mcp.tools_for(["mcp:tiny/pid"])
            process = (await call(pid)).output
        assert not Path(f"/proc/{process}").exists()
        assert "the connections are closed" in (await call(pid)).output


class TestNaming:
    async def test_a_tool_named_in_several_ways_is_listed_once(self, tmp_path: Path) -> None:
        names = ["mcp:my server/pid", "mcp:my server/*", "mcp__my_server__pid", "mcp__my_server"]
        async with mcp_tools(tmp_path, **{"my server": started()}) as mcp:
            tools = await mcp.tools_for(names)
            assert [tool.description for tool in tools] == ["", "A title only."]
            again = await mcp.tools_for(names[:1])
        assert again[0] is tools[0]

    async def test_an_unknown_server_or_tool_is_refused_with_the_nearest_match(
        self, tmp_path: Path
    ) -> None:
        async with mcp_tools(tmp_path, tiny=started()) as mcp:
            with pytest.raises(UnknownTool, match="has no tool 'pdi'.*did you mean 'mcp:tiny/pid'"):
                await mcp.tools_for(["mcp:tiny/pdi"])
            with pytest.raises(UnknownTool, match="names no server.*did you mean 'mcp:tiny'"):
                await mcp.tools_for(["mcp:tyni"])

    async def test_a_disabled_server_has_no_tools_and_is_not_started(self, tmp_path: Path) -> None:
        off = started(script=tmp_path / "missing.py", disabled=True)
        async with mcp_tools(tmp_path, off=off) as mcp:
            await mcp.open()
            assert await mcp.tools_for(["mcp:off", "mcp:off/pid"]) == []
            assert mcp.failures == {}

    async def test_mcp_tools_need_no_approval_if_it_is_switched_off(self, tmp_path: Path) -> None:
        async with mcp_tools(tmp_path, ask=False, tiny=started()) as mcp:
            assert all(tool.confirmation is None for tool in await mcp.tools_for(["mcp:tiny"]))

    @pytest.mark.parametrize("ask_destructive", [pytest.param(True, marks=pytest.mark.slow), False])
    async def test_destructive_mcp_tools_can_still_need_approval(
        self, tmp_path: Path, ask_destructive: bool
    ) -> None:
        servers, _ = parse_mcp_servers({"t": started("stdio", script=SERVER)})
        async with McpTools(
            servers, root=tmp_path, ask=False, ask_destructive=ask_destructive
        ) as mcp:
            tools = await mcp.tools_for(["mcp:t"])
        asking = {tool.name for tool in tools if tool.confirmation is not None}
        assert asking == ({"t__erase"} if ask_destructive else set())
        assert {"t__erase", "t__peek", "t__touch", "t__add"} <= {tool.name for tool in tools}

    async def test_an_mcp_server_is_not_started_before_it_is_needed(self, tmp_path: Path) -> None:
        (tmp_path / "s.py").write_text("open('started', 'w')")
        async with mcp_tools(tmp_path, tiny=started(), s=started(script=tmp_path / "s.py")) as mcp:
            await mcp.tools_for(["mcp:tiny"])
        assert not (tmp_path / "started").exists()


async def _is_gone(pid: str) -> None:
    """The process has ended, and everybody here had the chance to notice."""
    async with asyncio.timeout(60):
        while Path(f"/proc/{pid}").exists():  # noqa: ASYNC110 - another process tells nobody
            await asyncio.sleep(0.01)
    for _ in range(50):
        await asyncio.sleep(0)


def _read(path: Path) -> str:
    return path.read_text() if os.path.exists(path) else ""
