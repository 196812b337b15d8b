"""Projects whose agents use tools of MCP servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.profile import Confirmation
from ekiden.project.agent_files import assembly
from ekiden.project.project import Project, load_project
from tests.integration.mcp.conftest import SERVER, started


class Folder:
    """A project with one agent, called `asker`, and some servers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / ".ekiden" / "agents").mkdir(parents=True)
        (root / "home").mkdir()

    def project(
        self,
        allow: Sequence[str],
        *,
        ask: bool = False,
        confirm: Sequence[str] = (),
        **servers: Any,
    ) -> Project:
        tools = json.dumps({"allow": allow, "require_confirmation": confirm})
        text = f"---\nname: asker\ntools: {tools}\n---\nYou ask.\n"
        (self.root / ".ekiden" / "agents" / "asker.md").write_text(text)
        settings = {"tools": {"ask": ask}, "mcpServers": servers}
        (self.root / ".ekiden" / "settings.json").write_text(json.dumps(settings))
        return load_project(self.root, home=self.root / "home")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def asking(project: Project) -> dict[str, bool]:
    tools = project.agents["asker"].tools
    assert len({tool.name for tool in tools}) == len(tools)
    return {tool.name: tool.confirmation is not None for tool in tools}


async def test_a_tool_named_twice_is_listed_once(folder: Folder) -> None:
    async with folder.project(["mcp:x/*", "mcp:x/pid", "mcp__x__pid"], x=started()) as project:
        assert asking(project) == {"x__pid": False, "x__odd": False}
        assert project.notes == []


async def test_a_tool_name_taken_by_a_python_tool_is_reported(folder: Folder) -> None:
    (folder.root / "zz_clash.py").write_text("def x__pid() -> str:\n    return ''\n")
    async with folder.project(["zz_clash:x__pid", "mcp:x/*"], x=started()) as project:
        assert asking(project) == {"x__pid": False, "x__odd": False}
        (note,) = project.notes
        assert "asker has a tool of its own called x__pid" in note


@pytest.mark.parametrize("name", ["mcp:x/odd", "mcp__x__odd", "x__odd"])
async def test_one_tool_of_a_server_can_require_approval(folder: Folder, name: str) -> None:
    async with folder.project(["mcp:x/*"], confirm=[name], x=started()) as project:
        assert asking(project) == {"x__pid": False, "x__odd": True}
        assert project.notes == []


async def test_all_tools_of_a_server_can_require_approval(folder: Folder) -> None:
    async with folder.project(["mcp:x/*"], confirm=["mcp:x"], x=started()) as project:
        assert asking(project) == {"x__pid": True, "x__odd": True}


@pytest.mark.parametrize("name", ["mcp:x/drop", "x__drop", "mcp:y/pid"])
async def test_a_confirmation_of_an_unknown_tool_is_reported(folder: Folder, name: str) -> None:
    async with folder.project(["mcp:x/*"], confirm=[name], x=started()) as project:
        (note,) = project.notes
        assert note == f"{name} is to be confirmed for asker, which has no such tool"


async def test_an_unavailable_server_is_reported_once(folder: Folder) -> None:
    down = {"command": "no-such-program-here"}
    async with folder.project(["mcp:x/*"], confirm=["mcp:x/pid", "x__pid"], x=down) as project:
        (note,) = project.notes
        assert note.startswith("asker has no mcp:x/*")


async def test_a_tool_that_needs_approval_uses_the_agent_files_confirmation(folder: Folder) -> None:
    folder.project(["mcp:x/pid"], ask=True, x=started())
    path = folder.root / ".ekiden" / "agents" / "asker.md"
    tools = (
        "{allow: ['mcp:x/pid'], confirmation: {prompt_template: 'May {tool_name}?', timeout: 7}}"
    )
    path.write_text(f"---\nname: asker\ntools: {tools}\n---\nYou ask.\n")
    async with load_project(folder.root, home=folder.root / "home") as project:
        (tool,) = project.agents["asker"].tools
        assert tool.confirmation == Confirmation(prompt_template="May {tool_name}?", timeout_s=7)


async def test_an_unknown_server_does_not_prevent_the_others_from_connecting(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ekiden.tools.mcp_tools import McpTools

    opened: list[set[str]] = []
    real = McpTools.open

    async def remember(self: McpTools, names: Any = None) -> None:
        opened.append(set(names))
        await real(self, names)

    monkeypatch.setattr(McpTools, "open", remember)
    names = ["mcp:x/pid", "mcp:y/pid", "mcp:zz/pid"]
    async with folder.project(names, x=started(), y=started()) as project:
        assert asking(project) == {"x__pid": False, "y__pid": False}
        (note,) = project.notes
        assert note.startswith("asker has no mcp:zz/pid: ")
    assert opened == [{"mcp:x/pid", "mcp:y/pid"}]


async def test_a_cancelled_start_closes_the_servers_that_are_connected(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ekiden.tools.mcp_tools import McpTools

    opened, ended = asyncio.Event(), []
    real_open, real_close = McpTools.open, McpTools.close

    async def open_forever(self: McpTools, names: Any = None) -> None:
        await real_open(self, names)
        opened.set()
        await asyncio.Event().wait()

    async def close(self: McpTools) -> None:
        await real_close(self)
        ended.append(self)

    monkeypatch.setattr(McpTools, "open", open_forever)
    monkeypatch.setattr(McpTools, "close", close)
    entering = asyncio.create_task(folder.project(["mcp:x/pid"], x=started()).__aenter__())
    await opened.wait()
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert len(ended) == 1


async def test_a_slow_connection_is_reported_with_the_server_names(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    for slow_s, words in ((0.0, ["connecting to MCP servers: x, y …"]), (600.0, [])):
        monkeypatch.setattr(assembly, "SLOW_S", slow_s)
        project = folder.project(["mcp:x/pid", "mcp:y/*"], x=started(), y=started())
        project.tell = told.append
        async with project:
            assert told == words
        told.clear()


async def test_a_destructive_tool_follows_the_projects_approval_and_checks(folder: Folder) -> None:
    (folder.root / "zz_mcp_checks.py").write_text(
        "def named(tool, arguments): return arguments.get('name') != 'all', 'not all of it'\n"
    )
    folder.project(["mcp:x/erase", "mcp:x/touch"], x=started("stdio", script=SERVER))
    path = folder.root / ".ekiden" / "agents" / "asker.md"
    guardrails = "guardrails: {tool_input_validator: 'zz_mcp_checks:named', on_failure: repair}"
    path.write_text(path.read_text().replace("name: asker\n", f"name: asker\n{guardrails}\n"))
    async with load_project(folder.root, home=folder.root / "home") as project:
        assert asking(project) == {"x__erase": True, "x__touch": False}
        for tool in project.agents["asker"].tools:
            (guardrail,) = tool.tool_input_guardrails or []
            assert guardrail.get_name() == "zz_mcp_checks:named"
    off = {"tools.ask_destructive": False}
    async with load_project(folder.root, home=folder.root / "home", overrides=off) as project:
        assert asking(project) == {"x__erase": False, "x__touch": False}
