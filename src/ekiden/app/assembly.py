"""From the definitions of agent files to agents with their tools and handoffs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ekiden.agents.definition import AgentDefinition, HandoffDefinition, Peer, Problem
from ekiden.agents.team_checks import ROUTER
from ekiden.agents.written import Place
from ekiden.app.edges import Edges
from ekiden.app.mcp_names import is_mcp_name
from ekiden.core.agent import Agent
from ekiden.core.errors import EkidenError
from ekiden.core.profile import Confirmation
from ekiden.core.suggest import suggestion
from ekiden.core.tool import FunctionTool

ResolveTool: TypeAlias = Callable[[str], FunctionTool]
"""A tool by the name that a file gives it; `EkidenError` if there is none."""

_NOWHERE: Place = (1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """Agents that can run, and what is wrong with the others."""

    agents: Mapping[str, Agent[Any]]
    problems: Sequence[Problem] = ()
    mcp_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By agent, the tools of MCP servers: they are there once the servers are connected."""
    to_router: Mapping[str, Sequence[HandoffDefinition]] = field(default_factory=dict)
    """By agent, the handoffs to the router: they are made once there is one."""


def assemble(
    definitions: Sequence[AgentDefinition],
    *,
    resolve: ResolveTool,
    model: str | None,
    partial: Sequence[AgentDefinition] = (),
) -> Assembled:
    """An agent for every definition; what cannot be found is left out and listed as a problem.

    `model` is for those that name none. Of `partial`, the files that have other faults, tools and
    handoffs are checked only. Everybody who hands to people of a role hands to the same agent.
    """
    problems: list[Problem] = []
    agents: dict[str, Agent[Any]] = {}
    mcp_names: dict[str, Sequence[str]] = {}
    for each in definitions:
        agents[each.name] = _agent(each, _tools(each, resolve, problems), model)
        if served := [name for name in each.tools if is_mcp_name(name)]:
            mcp_names[each.name] = served
    for each in definitions:
        _let_ask(each, agents, problems)
    for each in partial:
        _tools(each, resolve, problems)
    edges = Edges(definitions=(*definitions, *partial), agents=agents, problems=problems)
    edges.connect()
    return Assembled(
        agents=agents, problems=problems, mcp_names=mcp_names, to_router=edges.to_router
    )


def confirmed(
    definition: AgentDefinition, tool: FunctionTool, names: Collection[str]
) -> FunctionTool:
    """The tool, asking a person first if the file says so of it, by one of `names` or its own.

    A tool that asks anyway asks as the file says; what the file leaves at its default stays as the
    tool has it.
    """
    named = {tool.name, *names}
    if tool.confirmation is None and named.isdisjoint(definition.require_confirmation):
        return tool
    default = Confirmation()
    own, said = tool.confirmation or default, definition.confirmation or default
    template, timeout_s = said.prompt_template, said.timeout_s
    return replace(
        tool,
        confirmation=Confirmation(
            prompt_template=own.prompt_template
            if template == default.prompt_template
            else template,
            timeout_s=own.timeout_s if timeout_s == default.timeout_s else timeout_s,
        ),
    )


def _agent(definition: AgentDefinition, tools: list[FunctionTool], model: str | None) -> Agent[Any]:
    return Agent(
        definition.name,
        instructions=definition.instructions or None,
        handoff_description=definition.handoff_description,
        model=definition.model or model,
        tools=tools,
        title=definition.title,
        description=definition.description,
        scope=definition.scope,
        triggers=definition.triggers,
        capabilities=definition.capabilities,
        available=definition.available,
        max_sessions=definition.max_sessions,
        can_ask_people=definition.can_ask_people,
    )


def _let_ask(
    definition: AgentDefinition, agents: Mapping[str, Agent[Any]], problems: list[Problem]
) -> None:
    """Say whom the agent may ask and tell, without those who are not there.

    That there are none, and other faults of them, the checks of the files said.
    """
    agent = agents[definition.name]
    agent.can_ask = _there(definition, definition.can_ask, agents)
    agent.can_tell = _there(definition, definition.can_tell, agents)
    if not (agent.can_ask or agent.can_tell or agent.can_ask_people):
        return
    from ekiden.runtime.bus_tools import bus_tools

    asking = {tool.name for tool in bus_tools(agent)}
    for tool in [each for each in agent.tools if each.name in asking]:
        places = (place for name, place in definition.tool_places.items() if _means(name, tool))
        message = (
            f"{tool.name!r} is how the agent asks and tells others, as this file says it may; "
            "rename the tool, or leave it out"
        )
        place = next(places, _NOWHERE)
        problems.append(_problem(definition, place, "agent.duplicate_tool", message))
        agent.tools.remove(tool)


def _means(name: str, tool: FunctionTool) -> bool:
    """Whether the file may mean the tool by this name."""
    return name == tool.name or name.endswith(f":{tool.name}")


def _there(
    definition: AgentDefinition, peers: Iterable[Peer], agents: Mapping[str, Agent[Any]]
) -> tuple[str, ...]:
    named = [each.name for each in peers if each.name in agents or each.name == ROUTER]
    return tuple(
        name
        for name in named
        if name != definition.name and (name == ROUTER or agents[name].scope != "system")
    )


def _tools(
    definition: AgentDefinition, resolve: ResolveTool, problems: list[Problem]
) -> list[FunctionTool]:
    tools: dict[str, FunctionTool] = {}
    for name in definition.tools:
        if is_mcp_name(name):
            continue
        place = definition.tool_places.get(name, _NOWHERE)
        try:
            tool = resolve(name)
            # Of one that is not imported, the function's name is the best guess at its own.
            guessed = [tool.name.rpartition(":")[2]] if tool.name == name else []
            tool = confirmed(definition, tool, [name, *guessed])
        except EkidenError as exc:
            problems.append(_problem(definition, place, "agent.unknown_tool", str(exc)))
            continue
        if tool.name in tools:
            message = f"{name!r} is a second tool called {tool.name!r}; leave one of them out"
            problems.append(_problem(definition, place, "agent.duplicate_tool", message))
            continue
        tools[tool.name] = tool
    for name in definition.require_confirmation:
        if (
            name not in definition.tools
            and name not in tools
            and not _may_be(name, definition, tools)
        ):
            message = f"{name!r} is to be confirmed, but is not in tools.allow"
            message += suggestion(name, definition.tools)
            place = definition.confirmation_places.get(name, _NOWHERE)
            problems.append(_problem(definition, place, "agent.unknown_tool", message))
    return list(tools.values())


def _may_be(name: str, definition: AgentDefinition, tools: Collection[str]) -> bool:
    """Whether a tool of this name may yet turn up: from a server, or a module not imported."""
    if any(":" in tool for tool in tools):
        return True
    return (is_mcp_name(name) or "__" in name) and any(map(is_mcp_name, definition.tools))


def _problem(definition: AgentDefinition, place: Place, code: str, message: str) -> Problem:
    line, column = place
    return Problem(path=definition.path, line=line, column=column, code=code, message=message)
