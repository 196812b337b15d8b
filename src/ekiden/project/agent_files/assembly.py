"""Creates agents with their tools and handoffs from the definitions in agent files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ekiden.agents.definition import (
    AgentDefinition,
    AgentFileProblem,
    HandoffDefinition,
    Peer,
    Place,
    RemoteDefinition,
)
from ekiden.agents.team_checks import ROUTER, member_names
from ekiden.core.agent import Agent
from ekiden.core.conversation.model import ModelSettings
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import EkidenError, McpUnavailable, UnknownTool
from ekiden.core.integrations.registry import integration
from ekiden.core.plan import PlanSettings
from ekiden.core.profile import Confirmation, MemorySettings
from ekiden.core.text.wording import commands_of, suggestion
from ekiden.core.tools.tool import FunctionTool
from ekiden.models.demo import is_demo
from ekiden.project.agent_files.edges import Edges, FileGuardrails, file_guardrails, is_mcp_name
from ekiden.project.settings.model import MemoryDefaults

if TYPE_CHECKING:
    from ekiden.tools.mcp_servers import McpServer
    from ekiden.tools.mcp_tools import McpTools

ResolveTool: TypeAlias = Callable[[str], FunctionTool]
"""A function that returns the tool that a file names. It raises `EkidenError` if there is no such
tool."""

_NOWHERE: Place = (1, 1)
_MEMORY = MemoryDefaults()


def _add_memory(
    definition: AgentDefinition,
    agent: Agent[Any],
    defaults: MemoryDefaults,
    problems: list[AgentFileProblem],
) -> None:
    """Set the memory of the agent, and remove tools with the names of memory tools."""
    written = definition.memory
    if written is None or not written.enabled:
        return
    from ekiden.memory import known_backends, remote_backend
    from ekiden.runtime.tools.offer import memory_tools

    place = (definition.line, definition.column)
    backend = remote_backend(written.backend)
    agent.memory = MemorySettings(
        type=written.type,
        scope=written.scope,
        backend=backend,
        top_k=defaults.top_k if written.top_k is None else written.top_k,
        threshold=(
            defaults.similarity_threshold if written.threshold is None else written.threshold
        ),
    )
    if backend is not None and backend not in known_backends():
        known = known_backends()
        message = (
            f"no memory back end is called {backend[:80]!r}; known: {', '.join(known)}"
            f"{suggestion(backend, known)}"
        )
        problems.append(_problem(definition, place, "agent.unknown_backend", message))
        agent.memory = None
        return
    taken = {tool.name for tool in memory_tools(agent)}
    for tool in [each for each in agent.tools if each.name in taken]:
        message = (
            f"{tool.name!r} is how the agent remembers, as this file says it does; rename the "
            "tool, or leave it out"
        )
        problems.append(_problem(definition, place, "agent.duplicate_tool", message))
        agent.tools.remove(tool)


def remote_agent(definition: AgentDefinition, remote: RemoteDefinition) -> Agent[Any]:
    """Create an agent that calls a remote agent. Nothing is sent before the first task of the
    agent."""
    in_header = remote.header is not None and remote.token_env is not None
    a2a = integration("a2a").load()
    settings = a2a.RemoteA2A(
        card=remote.card,
        token_env=None if in_header else remote.token_env,
        headers_env={str(remote.header): str(remote.token_env)} if in_header else {},
        timeout_s=remote.timeout_s,
    )
    agent: Agent[Any] = a2a.a2a_agent(
        settings,
        name=definition.name,
        handoff_description=definition.handoff_description,
        title=definition.title,
        description=definition.description,
        scope=definition.scope,
        triggers=definition.triggers,
        capabilities=definition.capabilities,
        available=definition.available,
        max_sessions=definition.max_sessions,
        budget=definition.budget,
        runs_on=definition.runs_on,
    )
    return agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """The agents of a project's files, and the problems of the files."""

    agents: Mapping[str, Agent[Any]]
    problems: Sequence[AgentFileProblem] = ()
    mcp_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The MCP tools of each agent, by the agent's name. The agents get these tools when the servers
    are connected."""
    to_router: Mapping[str, Sequence[HandoffDefinition]] = field(default_factory=dict)
    """The handoffs of each agent to the router, by the agent's name. The agents get these handoffs
    when the router exists."""
    guardrails: Mapping[str, FileGuardrails] = field(default_factory=dict)
    """The guardrails of each agent's file, by the agent's name. These guardrails also apply to
    tools that are added later."""


def assemble(
    definitions: Sequence[AgentDefinition],
    *,
    resolve: ResolveTool,
    model: str | None,
    partial: Sequence[AgentDefinition] = (),
    default_agent: str | None = None,
    root: Path | None = None,
    inert: bool = False,
    memory: MemoryDefaults = _MEMORY,
) -> Assembled:
    """Create an agent for every definition. Parts with errors are left out and become problems.

    Agents without a model of their own use `model`. The definitions in `partial` come from files
    with other errors, and are only checked. All handoffs to people of one role have the same
    target. A supervisor without a fallback uses `default_agent`, if this agent is one of the
    supervisor's agents. Modules of validators are searched first in the folder `root`. With
    `inert`, validators are not imported.
    """
    problems: list[AgentFileProblem] = []
    agents: dict[str, Agent[Any]] = {}
    mcp_names: dict[str, Sequence[str]] = {}
    guardrails: dict[str, FileGuardrails] = {}
    for each in definitions:
        tools = _tools(each, resolve, problems)
        agents[each.name] = _agent(each, tools, _model(each, model, problems))
        if each.guardrails is not None:
            found = file_guardrails(each, root=root, inert=inert, problems=problems)
            guardrails[each.name] = found
            _add_guardrails(agents[each.name], found)
        if mcp_tools := [name for name in each.tools if is_mcp_name(name)]:
            mcp_names[each.name] = mcp_tools
    for each in definitions:
        _add_memory(each, agents[each.name], memory, problems)
        _add_peers(each, agents, problems)
        _adapt(each, agents[each.name], guardrails.get(each.name))
    for each in definitions:
        _add_plan(each, definitions, agents, default_agent)
    for each in partial:
        _tools(each, resolve, problems)
    edges = Edges(definitions=(*definitions, *partial), agents=agents, problems=problems)
    edges.connect()
    return Assembled(
        agents=agents,
        problems=problems,
        mcp_names=mcp_names,
        to_router=edges.to_router,
        guardrails=guardrails,
    )


def confirmed(
    definition: AgentDefinition, tool: FunctionTool, names: Collection[str]
) -> FunctionTool:
    """Return the tool with the approval that the file requires for the tool's name, or for one of
    `names`.

    If the tool already needs approval, the settings in the file replace the settings of the tool,
    except for settings that the file leaves at their defaults.
    """
    is_named = not {tool.name, *names}.isdisjoint(definition.require_confirmation)
    if not is_named and (tool.confirmation is None or definition.confirmation is None):
        return tool
    default = Confirmation()
    own, written = tool.confirmation or default, definition.confirmation or default
    template, timeout_s = written.prompt_template, written.timeout_s
    return replace(
        tool,
        confirmation=Confirmation(
            prompt_template=own.prompt_template
            if template == default.prompt_template
            else template,
            timeout_s=own.timeout_s if timeout_s is None else timeout_s,
            title=own.title,
        ),
        needs_approval=False if is_named else tool.needs_approval,
    )


def _agent(definition: AgentDefinition, tools: list[FunctionTool], model: str | None) -> Agent[Any]:
    if definition.a2a is not None:
        return remote_agent(definition, definition.a2a)
    return Agent(
        definition.name,
        instructions=definition.instructions or None,
        handoff_description=definition.handoff_description,
        model=model,
        model_settings=definition.model_settings or ModelSettings(),
        tools=tools,
        title=definition.title,
        description=definition.description,
        scope=definition.scope,
        triggers=definition.triggers,
        capabilities=definition.capabilities,
        available=definition.available,
        max_sessions=definition.max_sessions,
        budget=definition.budget,
        runs_on=definition.runs_on,
        can_ask_people=definition.can_ask_people,
    )


def _model(
    definition: AgentDefinition, model: str | None, problems: list[AgentFileProblem]
) -> str | None:
    """The model in the file. A file of another tool gets the team's model if the API key for its
    own model is missing."""
    if definition.model is None or model is None or definition.origin == "ekiden":
        return definition.model or model
    from ekiden.models.providers import missing_key

    variable = missing_key(definition.model)
    if variable is None:
        return definition.model
    message = f"{variable} is not set, so the team's model is used instead of {definition.model}"
    problem = _problem(definition, _NOWHERE, "agent.model_of_the_team", message)
    problems.append(replace(problem, severity="warning"))
    return model


def _add_guardrails(agent: Agent[Any], guardrails: FileGuardrails) -> None:
    agent.input_guardrails = list(guardrails.inputs)
    agent.output_guardrails = list(guardrails.outputs)
    agent.handoff_guardrails = list(guardrails.handoffs)
    guardrails.guard_tools(agent)


def _adapt(
    definition: AgentDefinition, agent: Agent[Any], guardrails: FileGuardrails | None
) -> None:
    """Apply approval and guardrails of the file to the tools that the runtime adds."""
    if not definition.require_confirmation and guardrails is None:
        return

    def adapted(tool: FunctionTool) -> FunctionTool:
        tool = confirmed(definition, tool, ())
        return tool if guardrails is None else guardrails.guarded(tool)

    agent.adapt_tool = adapted


def own_tools(definition: AgentDefinition) -> set[str]:
    """The names of the tools that the runtime adds to an agent of the file."""
    names: set[str] = set()
    if definition.memory is not None and definition.memory.enabled:
        names |= {"remember", "recall", "forget"}
    peers = {
        "ask_agent": definition.can_ask,
        "tell_agent": definition.can_tell,
        "ask_person": definition.can_ask_people,
    }
    return names | {name for name, allowed in peers.items() if allowed}


def _add_peers(
    definition: AgentDefinition, agents: Mapping[str, Agent[Any]], problems: list[AgentFileProblem]
) -> None:
    """Set the agents that the agent may ask and tell, without missing agents.

    The checks of the files have already reported missing agents and other errors.
    """
    agent = agents[definition.name]
    agent.can_ask = _existing(definition, definition.can_ask, agents)
    agent.can_tell = _existing(definition, definition.can_tell, agents)
    if not (agent.can_ask or agent.can_tell or agent.can_ask_people):
        return
    from ekiden.runtime.tools.offer import bus_tools

    taken = {tool.name for tool in bus_tools(agent)}
    for tool in [each for each in agent.tools if each.name in taken]:
        places = (place for name, place in definition.tool_places.items() if _means(name, tool))
        message = (
            f"{tool.name!r} is how the agent asks and tells others, as this file says it may; "
            "rename the tool, or leave it out"
        )
        place = next(places, _NOWHERE)
        problems.append(_problem(definition, place, "agent.duplicate_tool", message))
        agent.tools.remove(tool)


def _add_plan(
    definition: AgentDefinition,
    definitions: Sequence[AgentDefinition],
    agents: Mapping[str, Agent[Any]],
    default_agent: str | None,
) -> None:
    """Make the agent a supervisor if its file says so, without missing members.

    The checks of the files have already reported missing agents and other errors.
    """
    written = definition.supervisor
    names = [] if written is None else member_names(definition, definitions)
    if written is None or not names:
        return
    fallback = default_agent if written.fallback is None else written.fallback.name
    agent = agents[definition.name]
    # The demo model cannot plan. Without a model, rules split the request.
    if is_demo(agent.model):
        agent.model = None
    agent.plan = PlanSettings(
        members=tuple(agents[name] for name in names),
        fallback=fallback if fallback in names else None,
        concurrency=written.concurrency,
        timeout_s=written.timeout_s,
        retries=written.retries,
        backoff_s=written.backoff_s,
        budget=written.budget,
        max_tasks=written.max_tasks,
    )


def _means(name: str, tool: FunctionTool) -> bool:
    """Whether `name` in the file can be the name of the tool."""
    return name == tool.name or name.endswith(f":{tool.name}")


def _existing(
    definition: AgentDefinition, peers: Iterable[Peer], agents: Mapping[str, Agent[Any]]
) -> tuple[str, ...]:
    named = [each.name for each in peers if each.name in agents or each.name == ROUTER]
    return tuple(
        name
        for name in named
        if name != definition.name and (name == ROUTER or agents[name].scope != "system")
    )


def _tools(
    definition: AgentDefinition, resolve: ResolveTool, problems: list[AgentFileProblem]
) -> list[FunctionTool]:
    tools: dict[str, FunctionTool] = {}
    commands = {name: words for name in definition.tools if (words := commands_of(name))}
    for name in definition.tools:
        # A plain `shell` allows every command; otherwise the first entry got the commands of all.
        if is_mcp_name(name) or (name in commands and "shell" in {*definition.tools, *tools}):
            continue
        place = definition.tool_places.get(name, _NOWHERE)
        try:
            tool = _resolved(name, commands, resolve)
            # The name of a tool that is not imported is unknown; the function's name is a guess.
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
            and name not in own_tools(definition)
            and not _may_be(name, definition, tools)
        ):
            message = f"{name!r} is to be confirmed, but is not in tools.allow"
            message += suggestion(name, definition.tools)
            place = definition.confirmation_places.get(name, _NOWHERE)
            problems.append(_problem(definition, place, "agent.unknown_tool", message))
    return list(tools.values())


def _resolved(
    name: str, commands: Mapping[str, Sequence[str]], resolve: ResolveTool
) -> FunctionTool:
    if name not in commands:
        return resolve(name)
    from ekiden.tools.builtin.shell import for_commands

    return for_commands(resolve("shell"), list(commands.values()))


def _may_be(name: str, definition: AgentDefinition, tools: Collection[str]) -> bool:
    """Whether a tool with this name may be added later, by a server or a module that is not
    imported."""
    if any(":" in tool for tool in tools):
        return True
    return (is_mcp_name(name) or "__" in name) and any(map(is_mcp_name, definition.tools))


def _problem(
    definition: AgentDefinition, place: Place, code: str, message: str
) -> AgentFileProblem:
    line, column = place
    return AgentFileProblem(
        path=definition.path, line=line, column=column, code=code, message=message
    )


# MCP tools that agent files name.

SLOW_S = 1.0
"""Seconds after which a message names the slow servers."""


async def serve_mcp(
    mcp: McpTools,
    servers: Mapping[str, McpServer],
    users: Sequence[tuple[AgentDefinition, Agent[Any]]],
    *,
    names: Mapping[str, Sequence[str]],
    tell: Callable[[str], None] | None,
) -> list[str]:
    """Connect the servers, add their tools to the agents, and return notes for people.

    `names` are the MCP tools in each agent's file. Unavailable tools are left out, with a note. If
    the connection takes long, the function `tell` is called meanwhile.
    """
    wanted = {name for each in names.values() for name in each}
    await _connect(mcp, servers, wanted, tell)
    notes: list[str] = []
    for definition, agent in users:
        if definition.name in names:
            await _add_tools(mcp, definition, agent, names[definition.name], notes)
    return notes


async def _connect(
    mcp: McpTools,
    servers: Mapping[str, McpServer],
    names: Collection[str],
    tell: Callable[[str], None] | None,
) -> None:
    """Connect all servers that `names` need, concurrently; unknown names are ignored."""
    needed = {name: server for name in names if (server := _server(name, servers)) is not None}
    if not needed:
        return
    waiting = None
    if tell is not None:
        words = f"connecting to MCP servers: {', '.join(sorted(set(needed.values())))} …"
        waiting = asyncio.get_running_loop().call_later(SLOW_S, tell, words)
    try:
        await mcp.open(needed)
    finally:
        if waiting is not None:
            waiting.cancel()


def _server(name: str, servers: Mapping[str, McpServer]) -> str | None:
    from ekiden.tools.mcp_servers import read_name

    try:
        server = read_name(name, servers).server
    except UnknownTool:
        return None
    return None if servers[server].disabled else server


async def _add_tools(
    mcp: McpTools,
    definition: AgentDefinition,
    agent: Agent[Any],
    names: Sequence[str],
    notes: list[str],
) -> None:
    """Add the MCP tools `names` to the agent's tools."""
    own = {tool.name for tool in agent.tools} | own_tools(definition)
    found: dict[str, FunctionTool] = {}
    is_complete = True
    for name in names:
        try:
            found.update((tool.name, tool) for tool in await mcp.tools_for([name]))
        except EkidenError as exc:
            notes.append(f"{definition.name} has no {name}: {exc}")
            is_complete = False
    for name in sorted(own & found.keys()):
        notes.append(
            f"{definition.name} has a tool of its own called {name}, so it does not get the MCP "
            "server's: rename one of them"
        )
        del found[name]
    # Without all tools, a name to confirm may belong to a missing tool: no note about it.
    confirm = await _names_to_confirm(mcp, definition, found, own, notes if is_complete else [])
    agent.tools.extend(
        confirmed(definition, tool, confirm.get(tool.name, ())) for tool in found.values()
    )


async def _names_to_confirm(
    mcp: McpTools,
    definition: AgentDefinition,
    tools: Mapping[str, FunctionTool],
    own: Collection[str],
    notes: list[str],
) -> dict[str, list[str]]:
    """For each tool, its names in `require_confirmation` of the file."""
    found: dict[str, list[str]] = {}
    for name in definition.require_confirmation:
        tool_names = await _tool_names(mcp, name) if is_mcp_name(name) else {name}
        for tool in tool_names & tools.keys():
            found.setdefault(tool, []).append(name)
        if tool_names.isdisjoint(tools) and name not in definition.tools and name not in own:
            notes.append(f"{name} is to be confirmed for {definition.name}, which has no such tool")
    return found


async def _tool_names(mcp: McpTools, name: str) -> set[str]:
    try:
        return {tool.name for tool in await mcp.tools_for([name])}
    except (McpUnavailable, UnknownTool):
        return set()
