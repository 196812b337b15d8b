"""Callbacks of a run: for the whole run, or for one agent. A hook runs before its step is stored.
If the step is repeated after a crash, the hook is called again. Override the methods that you need;
the defaults do nothing.
"""

from __future__ import annotations

from typing import Any, Generic

from ekiden.core.context import AgentHookContext, RunContextWrapper, TContext
from ekiden.core.conversation.model import Item, ModelResponse
from ekiden.core.tools.tool import Tool


class _CallHooks(Generic[TContext]):
    """Callbacks before and after calls of models and tools."""

    async def on_llm_start(
        self,
        context: RunContextWrapper[TContext],
        agent: Any,
        system_prompt: str | None,
        input_items: list[Item],
    ) -> None:
        """Before a model call."""

    async def on_llm_end(
        self, context: RunContextWrapper[TContext], agent: Any, response: ModelResponse
    ) -> None:
        """After a model call."""

    async def on_tool_start(
        self, context: RunContextWrapper[TContext], agent: Any, tool: Tool
    ) -> None:
        """Before a tool runs; `context` is its `ToolContext`."""

    async def on_tool_end(
        self, context: RunContextWrapper[TContext], agent: Any, tool: Tool, result: Any
    ) -> None:
        """After a tool returned."""


class RunHooks(_CallHooks[TContext]):
    """Callbacks for every agent of a run.

    For example::

        class Diary(RunHooks):
            async def on_handoff(self, context, from_agent, to_agent):
                print(from_agent.name, "hands to", to_agent.name)

        await Runner.run(triage, "Where is my parcel?", hooks=Diary())
    """

    async def on_agent_start(self, context: AgentHookContext[TContext], agent: Any) -> None:
        """Called when an agent starts, or when it gets the conversation back."""

    async def on_agent_end(
        self, context: RunContextWrapper[TContext], agent: Any, output: Any
    ) -> None:
        """Called when an agent has given the final answer of the run."""

    async def on_handoff(
        self, context: RunContextWrapper[TContext], from_agent: Any, to_agent: Any
    ) -> None:
        """Called when an agent hands the conversation to another agent."""


class AgentHooks(_CallHooks[TContext]):
    """Callbacks for one agent: pass them as `Agent(hooks=…)`.

    For example::

        class Proud(AgentHooks):
            async def on_end(self, context, agent, output):
                print(agent.name, "said", output)

        desk = Agent("desk", hooks=Proud())
    """

    async def on_start(self, context: AgentHookContext[TContext], agent: Any) -> None:
        """Called when this agent starts, or when it gets the conversation back."""

    async def on_end(self, context: RunContextWrapper[TContext], agent: Any, output: Any) -> None:
        """Called when this agent has given the final answer of the run."""

    async def on_handoff(
        self, context: RunContextWrapper[TContext], agent: Any, source: Any
    ) -> None:
        """Called when this agent (`source`) hands the conversation to `agent`."""
