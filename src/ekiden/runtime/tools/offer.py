"""What an agent is offered this turn: its tools and the agents it may hand to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.handoff import Handoff
from ekiden.core.tool import FunctionTool
from ekiden.handoff import get_handoffs, resolve_tool_name_collisions
from ekiden.runtime.conversation.facts import facts_of
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.state import RunState
from ekiden.runtime.tools.bus_tools import bus_tools
from ekiden.runtime.tools.memory_tools import memory_tools


async def refresh_offer(run: RunState) -> None:
    """Evaluate anew what is enabled, into `run.offer.by_name` (by name) and `run.offer.specs`.

    Two things under one name are `UserError`: the model could not say which it means.
    """
    agent = run.agent
    tools = [tool for tool in agent.tools if tool.is_enabled is True or await is_enabled(tool, run)]
    if agent.can_ask or agent.can_tell or agent.can_ask_people:
        tools.extend(_adapted(agent, bus_tools(agent)))
    if agent.memory is not None:
        tools.extend(_adapted(agent, memory_tools(agent)))
    if run.cursor.handoffs.tools is not None:
        tools = [tool for tool in tools if tool.name in run.cursor.handoffs.tools]
    handoffs = await get_handoffs(agent, run.context) if agent.handoffs else []
    for each in handoffs:
        if each.terms.when != "manual":
            handoffs = [offer for offer in handoffs if _is_offered(offer, run)]
            break
    offered: dict[str, Any] = {tool.name: tool for tool in tools}
    for handoff in handoffs:
        offered[handoff.tool_name] = handoff
    if len(offered) != len(tools) + len(handoffs):
        resolve_tool_name_collisions(tools, handoffs, collision_policy="error")
    run.offer.by_name = offered
    run.offer.specs = tuple([offer.spec for offer in offered.values()])


def _adapted(agent: Agent[Any], tools: Sequence[FunctionTool]) -> Sequence[FunctionTool]:
    """As the agent wants tools that it did not list itself."""
    return tools if agent.adapt_tool is None else [agent.adapt_tool(tool) for tool in tools]


async def enabled_tools(run: RunState) -> list[str]:
    """The tools that the active agent may use now, by name, and no handoffs."""
    names = [tool.name for tool in run.agent.tools if await is_enabled(tool, run)]
    names.extend(tool.name for tool in (*bus_tools(run.agent), *memory_tools(run.agent)))
    allowed = run.cursor.handoffs.tools
    return names if allowed is None else [name for name in names if name in allowed]


def _is_offered(handoff: Handoff[Any, Any], run: RunState) -> bool:
    """Whether the model is to know of the handoff: not of one that a trigger makes."""
    terms = handoff.terms
    if terms.when == "conditional":
        from ekiden.conditions import compile_condition

        now = run.config.clock.now_us() / 1e6
        return compile_condition(terms.condition or "").holds(facts_of(run), now=now)
    return terms.when == "manual"


async def is_enabled(tool: FunctionTool, run: RunState) -> bool:
    """Whether the tool is offered to the active agent now."""
    if callable(tool.is_enabled):
        return bool(await settled(tool.is_enabled(run.context, run.agent)))
    return tool.is_enabled
