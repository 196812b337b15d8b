"""Tools of a real MCP server that is a process of ours."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ekiden.core.agent import Agent
from ekiden.core.profile import Confirmation
from ekiden.core.tools.tool import FunctionTool
from ekiden.runtime import RunConfig, Runner
from ekiden.testing import ScriptedModel, call as asks_for, say
from tests.integration.mcp.conftest import SERVER, Call, mcp_tools, started

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def tools(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[dict[str, FunctionTool]]:
    """All tools of one server, by the names that models see."""
    root = tmp_path_factory.mktemp("project")
    (root / "sub").mkdir()
    os.environ["EKIDEN_TEST_SECRET"] = "hidden"
    entry = started("stdio", script=SERVER, cwd="sub", env={"TOKEN": "${EKIDEN_TEST_SECRET}!"})
    async with mcp_tools(root, t=entry) as mcp:
        yield {tool.name: tool for tool in await mcp.tools_for(["mcp:t"])}
    del os.environ["EKIDEN_TEST_SECRET"]


async def test_a_tool_is_described_as_the_server_describes_it(
    tools: dict[str, FunctionTool],
) -> None:
    add = tools["t__add"]
    assert add.description == "Add two numbers."
    assert add.params_json_schema["properties"]["a"]["type"] == "integer"
    assert add.params_json_schema["required"] == ["a", "b"]
    assert not add.strict_json_schema
    assert add.timeout_seconds == 60


async def test_every_mcp_tool_needs_approval_by_default(tools: dict[str, FunctionTool]) -> None:
    assert all(tool.confirmation is not None for tool in tools.values())
    assert tools["t__peek"].confirmation == tools["t__add"].confirmation == Confirmation()


async def test_the_approval_prompt_says_that_a_tool_is_destructive(
    tools: dict[str, FunctionTool],
) -> None:
    asking = tools["t__erase"].confirmation
    assert asking is not None
    assert "may destroy or overwrite things" in asking.prompt_template
    assert "{tool_args}" in asking.prompt_template


async def test_a_structured_result_is_returned_once(
    tools: dict[str, FunctionTool], call: Call
) -> None:
    assert (await call(tools["t__add"], a=1, b=2)).output == "3"
    about = await call(tools["t__about"], topic="tea")
    assert about.output.count("tea") == 1
    assert "🙂" in about.output


async def test_pictures_in_results_are_only_named(
    tools: dict[str, FunctionTool], call: Call
) -> None:
    shown = await call(tools["t__picture"])
    assert shown.output == "before\n[image, image/png, 100 bytes]\nafter"


async def test_a_long_result_is_cut_off(tools: dict[str, FunctionTool], call: Call) -> None:
    shown = await call(tools["t__say"], text="x", times=150_000)
    assert shown.output.endswith("x … (50,000 more characters)")


async def test_a_tool_failure_is_reported_and_the_server_continues(
    tools: dict[str, FunctionTool], call: Call
) -> None:
    failed = await call(tools["t__fail"], why="just because")
    assert failed.output.startswith("Error: ")
    assert failed.error is not None
    assert (await call(tools["t__add"], a=1, b=1)).output == "2"


async def test_invalid_tool_arguments_are_reported(
    tools: dict[str, FunctionTool], call: Call
) -> None:
    assert "validation error" in (await call(tools["t__add"], a="x")).output


async def test_an_odd_tool_gets_a_valid_name_and_a_safe_description(
    tools: dict[str, FunctionTool], call: Call
) -> None:
    [strange] = [tool for tool in tools.values() if "strange" in tool.name]
    assert len(strange.name) == 64
    assert "\u202e" not in strange.description
    assert "\U000e0041" not in strange.description
    assert len(strange.description) < 4100
    assert (await call(strange)).output == "strange"


async def test_a_server_runs_in_the_configured_folder_and_environment(
    tools: dict[str, FunctionTool], call: Call
) -> None:
    assert (await call(tools["t__folder"])).output.endswith("/sub")
    assert (await call(tools["t__variable"], name="TOKEN")).output == "'hidden!'"
    assert (await call(tools["t__variable"], name="EKIDEN_TEST_SECRET")).output == "None"


async def test_a_call_carries_its_idempotency_key(
    tools: dict[str, FunctionTool], call: Call
) -> None:
    assert (await call(tools["t__key"])).output == "ses:1.1.t0"


async def test_cancelling_a_call_cancels_it_on_the_server(
    tools: dict[str, FunctionTool], call: Call, tmp_path: Path
) -> None:
    task = asyncio.create_task(call(tools["t__wait"], folder=str(tmp_path)))
    await _appears(tmp_path / "begun")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _appears(tmp_path / "cancelled")
    assert (await call(tools["t__add"], a=1, b=1)).output == "2"


async def test_many_calls_at_once_do_not_mix_up(tools: dict[str, FunctionTool], call: Call) -> None:
    sums = await asyncio.gather(*(call(tools["t__add"], a=n, b=n) for n in range(30)))
    assert [int(each.output) for each in sums] == [2 * n for n in range(30)]


async def test_an_agent_calls_mcp_tools_with_approval(tools: dict[str, FunctionTool]) -> None:
    model = ScriptedModel([asks_for("t__add", a=20, b=22), say("42")])
    agent = Agent("clerk", model=model, tools=list(tools.values()))
    result = await Runner.run(agent, "?", run_config=RunConfig())
    [output] = [item["output"] for item in result.to_input_list() if "output" in item]
    assert "approval is not possible" in output


async def _appears(path: Path) -> None:
    async with asyncio.timeout(60):
        while not path.exists():  # noqa: ASYNC110 - a file of another process tells nobody
            await asyncio.sleep(0.01)
