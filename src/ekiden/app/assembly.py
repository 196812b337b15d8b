"""From the definitions of agent files to agents with their tools and handoffs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ekiden.agents.definition import AgentDefinition, HandoffDefinition, Problem
from ekiden.core.agent import Agent
from ekiden.core.errors import EkidenError, UserError
from ekiden.core.profile import Confirmation
from ekiden.core.suggest import suggestion
from ekiden.core.tool import FunctionTool
from ekiden.handoff import declared_handoff

ResolveTool: TypeAlias = Callable[[str], FunctionTool]
"""A tool by the name that a file gives it; `EkidenError` if there is none."""

_MCP = ("mcp:", "mcp__")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """Agents that can run, and what is wrong with the others."""

    agents: Mapping[str, Agent[Any]]
    problems: Sequence[Problem] = ()
    mcp_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By agent, the tools of MCP servers: they are there once the servers are connected."""


def is_mcp_name(name: str) -> bool:
    """Whether a name in `tools.allow` means a tool of an MCP server."""
    return name.startswith(_MCP)


def assemble(
    definitions: Sequence[AgentDefinition], *, resolve: ResolveTool, model: str | None
) -> Assembled:
    """An agent for every definition; what cannot be found is left out and listed as a problem.

    `model` is for those that name none.
    """
    problems: list[Problem] = []
    agents: dict[str, Agent[Any]] = {}
    mcp_names: dict[str, Sequence[str]] = {}
    for each in definitions:
        agents[each.name] = _agent(each, _tools(each, resolve, problems), model)
        if served := [name for name in each.tools if is_mcp_name(name)]:
            mcp_names[each.name] = served
    for each in definitions:
        for edge in each.handoffs:
            _connect(each, edge, agents, problems)
    return Assembled(agents=agents, problems=problems, mcp_names=mcp_names)


def confirmed(definition: AgentDefinition, tool: FunctionTool, name: str) -> FunctionTool:
    """The tool, asking a person first if the file says so."""
    if name not in definition.require_confirmation and tool.name not in (
        definition.require_confirmation
    ):
        return tool
    return replace(tool, confirmation=definition.confirmation or Confirmation())


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
    )


def _tools(
    definition: AgentDefinition, resolve: ResolveTool, problems: list[Problem]
) -> list[FunctionTool]:
    tools: dict[str, FunctionTool] = {}
    for name in definition.tools:
        if is_mcp_name(name):
            continue
        try:
            tool = confirmed(definition, resolve(name), name)
        except EkidenError as exc:
            problems.append(_problem(definition, name, "agent.unknown_tool", str(exc)))
            continue
        if tool.name in tools:
            message = f"{name!r} is a second tool called {tool.name!r}; leave one of them out"
            problems.append(_problem(definition, name, "agent.duplicate_tool", message))
            continue
        tools[tool.name] = tool
    for name in definition.require_confirmation:
        if name not in definition.tools and name not in tools:
            known = definition.tools
            message = f"{name!r} is to be confirmed, but is not in tools.allow"
            message += suggestion(name, known)
            problems.append(_problem(definition, name, "agent.unknown_tool", message))
    return list(tools.values())


def _connect(
    source: AgentDefinition,
    edge: HandoffDefinition,
    agents: Mapping[str, Agent[Any]],
    problems: list[Problem],
) -> None:
    target = agents.get(edge.to)
    if target is None or edge.when == "conditional":
        # Who is missing was said by the checks of the files; a condition that nobody can check
        # yet must not count as met.
        return
    try:
        agents[source.name].handoffs.append(
            declared_handoff(
                target,
                description=edge.description,
                include_context=edge.include_context,
                filters=edge.filters,
            )
        )
    except UserError as exc:
        problems.append(
            Problem(
                path=source.path, line=edge.line, column=1, code="agent.bad_filter",
                message=str(exc),
            )
        )  # fmt: skip


def _problem(definition: AgentDefinition, name: str, code: str, message: str) -> Problem:
    return Problem(
        path=definition.path,
        line=definition.tool_lines.get(name, 1),
        column=1,
        code=code,
        message=message,
    )
