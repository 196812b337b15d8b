"""Hooks of runs and of agents."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import AgentHookContext, ToolContext
from ekiden.core.runs import AgentHooks, RunHooks
from ekiden.runtime import Runner
from ekiden.testing import ScriptedModel, call, say
from ekiden.tools import function_tool


@function_tool
async def look() -> str:
    """Look."""
    return "seen"


class Everything(RunHooks[Any]):
    def __init__(self) -> None:
        self.told: list[str] = []

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        assert isinstance(context, AgentHookContext)
        self.told.append(f"start {agent.name} {len(context.turn_input)}")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.told.append(f"end {output}")

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: list[Any]
    ) -> None:
        self.told.append(f"ask {system_prompt} {len(input_items)}")

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.told.append(f"answer {len(response.output)}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        assert isinstance(context, ToolContext)
        self.told.append(f"use {tool.name} {context.tool_call_id}")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.told.append(f"used {result}")


async def test_run_hooks_are_called_in_order() -> None:
    hooks = Everything()
    model = ScriptedModel([call("look", call_id="c1"), say("ok")])
    agent = Agent("a", instructions="Be.", model=model, tools=[look])
    await Runner.run(agent, "hi", hooks=hooks)
    assert hooks.told == [
        "start a 1",
        "ask Be. 1",
        "answer 1",
        "use look c1",
        "used seen",
        "ask Be. 3",
        "answer 1",
        "end ok",
    ]


async def test_the_default_hooks_do_nothing() -> None:
    model = ScriptedModel([call("look"), say("ok")])
    agent = Agent("a", model=model, tools=[look], hooks=AgentHooks())
    assert (await Runner.run(agent, "hi", hooks=RunHooks())).final_output == "ok"


async def test_a_hook_that_raises_fails_the_run() -> None:
    class Strict(AgentHooks[Any]):
        async def on_start(self, context: Any, agent: Any) -> None:
            raise PermissionError("not you")

    agent = Agent("a", model=ScriptedModel(), hooks=Strict())
    with pytest.raises(PermissionError, match="not you"):
        await Runner.run(agent, "hi")
