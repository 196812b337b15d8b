"""What the model is told to be for an agent, and what it may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ekiden.core.context import RunContextWrapper
from ekiden.core.handoff import Handoff
from ekiden.core.tool import FunctionTool
from ekiden.handoff.collisions import resolve_tool_name_collisions
from ekiden.realtime.agent import RealtimeAgent, check_tool
from ekiden.realtime.enabling import enabled
from ekiden.realtime.handoffs import edges_of
from ekiden.realtime.model import RealtimeSetup

Entry: TypeAlias = FunctionTool | Handoff[Any, RealtimeAgent[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentOffer:
    """What `agent` has in its turn."""

    agent: RealtimeAgent[Any]
    setup: RealtimeSetup
    entries: Mapping[str, Entry]
    """By name, the tools and handoffs in `setup`."""


async def make_offer(
    agent: RealtimeAgent[Any], context: RunContextWrapper[Any], received: str | None = None
) -> AgentOffer:
    """Ask anew what is enabled and what the instructions are; `received` goes below them.

    `UserError` when two things have one name, or a tool cannot be used live. Errors of the
    agent's own functions pass through.
    """
    for tool in agent.tools:
        check_tool(agent, tool)
    entries: list[Entry] = await enabled([*agent.tools, *edges_of(agent)], agent, context)
    by_name = {entry.spec.name: entry for entry in entries}
    if len(by_name) != len(entries):
        tools = [entry for entry in entries if isinstance(entry, FunctionTool)]
        resolve_tool_name_collisions(tools, [e for e in entries if isinstance(e, Handoff)])
    instructions = await agent.get_system_prompt(context)
    if received is not None:
        instructions = f"{instructions}\n\n{received}" if instructions else received
    setup = RealtimeSetup(
        instructions=instructions,
        tools=tuple(entry.spec for entry in entries),
        prompt=agent.prompt,
    )
    return AgentOffer(agent=agent, setup=setup, entries=by_name)
