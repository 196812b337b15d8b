"""MCP servers with the SDK's names, whose lists have several pages."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server import Server
from mcp.types import ListPromptsResult, ListToolsResult, Prompt, Tool

from ekiden.compat.agents import UserError
from ekiden.compat.agents.mcp import MCPServerStdio


class InProcess(MCPServerStdio):
    """A server in this process. Each of its `pages` names the cursor of the next page."""

    def __init__(self, pages: dict[str | None, str | None]) -> None:
        super().__init__({"command": "none"}, name="paged")
        self.pages = pages

    def create_streams(self) -> Any:
        async def tools(ctx: Any, params: Any) -> ListToolsResult:
            cursor = params.cursor if params else None
            tool = Tool(name=f"tool {cursor}", input_schema={"type": "object"})
            return ListToolsResult(tools=[tool], next_cursor=self.pages[cursor])

        async def prompts(ctx: Any, params: Any) -> ListPromptsResult:
            cursor = params.cursor if params else None
            prompt = Prompt(name=f"prompt {cursor}")
            return ListPromptsResult(prompts=[prompt], next_cursor=self.pages[cursor])

        return Server("paged", on_list_tools=tools, on_list_prompts=prompts)


async def test_all_pages_of_tools_and_prompts_are_listed() -> None:
    async with InProcess({None: "b", "b": "c", "c": None}) as server:
        tools, prompts = await server.list_tools(), await server.list_prompts()
    assert [tool.name for tool in tools] == ["tool None", "tool b", "tool c"]
    assert [each.name for each in prompts.prompts] == ["prompt None", "prompt b", "prompt c"]
    assert prompts.next_cursor is None


async def test_a_repeated_cursor_is_an_error() -> None:
    async with InProcess({None: "b", "b": "b"}) as server:
        with pytest.raises(UserError, match="'paged' returned a repeated cursor while listing to"):
            await server.list_tools()
