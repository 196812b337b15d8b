"""From the definitions of agent files to agents with their tools and handoffs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, TypeAlias

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
from ekiden.core.errors import EkidenError
from ekiden.core.integrations.registry import integration
from ekiden.core.plan import PlanSettings
from ekiden.core.profile import Confirmation, MemorySettings
from ekiden.core.text.names import commands_of
from ekiden.core.text.wording import suggestion
from ekiden.core.tools.tool import FunctionTool
from ekiden.models.demo import is_demo
from ekiden.project.agent_files.edges import Edges, is_mcp_name
from ekiden.project.agent_files.guardrails import FileGuardrails, file_guardrails
from ekiden.project.settings.model import MemoryDefaults

ResolveTool: TypeAlias = Callable[[str], FunctionTool]
"""A tool by the name that a file gives it; `EkidenError` if there is none."""

_NOWHERE: Place = (1, 1)
_MEMORY = MemoryDefaults()


def let_remember(
    definition: AgentDefinition,
    agent: Agent[Any],
    defaults: MemoryDefaults,
    problems: list[AgentFileProblem],
) -> None:
    """Give the agent the memory that its file asks for, and take tools of the same names away."""
    said = definition.memory
    if said is None or not said.enabled:
        return
    from ekiden.memory import known_backends, remote_backend
    from ekiden.runtime.tools.offer import memory_tools

    whole = (definition.line, definition.column)
    backend = remote_backend(said.backend)
    agent.memory = MemorySettings(
        type=said.type,
        scope=said.scope,
        backend=backend,
        top_k=defaults.top_k if said.top_k is None else said.top_k,
        threshold=defaults.similarity_threshold if said.threshold is None else said.threshold,
    )
    if backend is not None and backend not in known_backends():
        known = known_backends()
        message = (
            f"no memory back end is called {backend[:80]!r}; known: {', '.join(known)}"
            f"{suggestion(backend, known)}"
        )
        problems.append(_problem(definition, whole, "agent.unknown_backend", message))
        agent.memory = None
        return
    remembering = {tool.name for tool in memory_tools(agent)}
    for tool in [each for each in agent.tools if each.name in remembering]:
        message = (
            f"{tool.name!r} is how the agent remembers, as this file says it does; rename the "
            "tool, or leave it out"
        )
        problems.append(_problem(definition, whole, "agent.duplicate_tool", message))
        agent.tools.remove(tool)


def remote_agent(definition: AgentDefinition, remote: RemoteDefinition) -> Agent[Any]:
    """The agent that calls the one elsewhere; nothing is sent before it gets something to do."""
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
    """Agents that can run, and what is wrong with the others."""

    agents: Mapping[str, Agent[Any]]
    problems: Sequence[AgentFileProblem] = ()
    mcp_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By agent, the tools of MCP servers: they are there once the servers are connected."""
    to_router: Mapping[str, Sequence[HandoffDefinition]] = field(default_factory=dict)
    """By agent, the handoffs to the router: they are made once there is one."""
    guardrails: Mapping[str, FileGuardrails] = field(default_factory=dict)
    """By agent, those of its file; tools that it gets later are to be checked, too."""


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
    """An agent for every definition; what cannot be found is left out and listed as a problem.

    `model` is for those that name none. Of `partial`, the files that have other faults, tools and
    handoffs are checked only. Everybody who hands to people of a role hands to the same agent. A
    supervisor that names no fallback has `default_agent`, if that is one of those it gives tasks.
    Validators are imported from the folder `root` first, and with `inert` not at all.
    """
    problems: list[AgentFileProblem] = []
    agents: dict[str, Agent[Any]] = {}
    mcp_names: dict[str, Sequence[str]] = {}
    guardrails: dict[str, FileGuardrails] = {}
    for each in definitions:
        tools = _tools(each, resolve, problems)
        agents[each.name] = _agent(each, tools, _model(each, model, problems))
        if each.guardrails is not None:
            made = file_guardrails(each, root=root, inert=inert, problems=problems)
            guardrails[each.name] = made
            _guard(agents[each.name], made)
        if served := [name for name in each.tools if is_mcp_name(name)]:
            mcp_names[each.name] = served
    for each in definitions:
        let_remember(each, agents[each.name], memory, problems)
        _let_ask(each, agents, problems)
        _adapt(each, agents[each.name], guardrails.get(each.name))
    for each in definitions:
        _let_supervise(each, definitions, agents, default_agent)
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
    """The tool, asking a person first if the file says so of it, by one of `names` or its own.

    A tool that asks anyway asks as the file says; what the file leaves at its default stays as the
    tool has it.
    """
    is_named = not {tool.name, *names}.isdisjoint(definition.require_confirmation)
    if not is_named and (tool.confirmation is None or definition.confirmation is None):
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
    """The model of the file; the team's for a file of another tool, if there is no key for it."""
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


def _guard(agent: Agent[Any], guardrails: FileGuardrails) -> None:
    agent.input_guardrails = list(guardrails.inputs)
    agent.output_guardrails = list(guardrails.outputs)
    agent.handoff_guardrails = list(guardrails.handoffs)
    guardrails.guard_tools(agent)


def _adapt(
    definition: AgentDefinition, agent: Agent[Any], guardrails: FileGuardrails | None
) -> None:
    """Have tools confirmed and checked that the agent gets because of what it may do."""
    if not definition.require_confirmation and guardrails is None:
        return

    def adapted(tool: FunctionTool) -> FunctionTool:
        tool = confirmed(definition, tool, ())
        return tool if guardrails is None else guardrails.guarded(tool)

    agent.adapt_tool = adapted


def own_tools(definition: AgentDefinition) -> set[str]:
    """The names of the tools that an agent of the file has without naming them."""
    names: set[str] = set()
    if definition.memory is not None and definition.memory.enabled:
        names |= {"remember", "recall", "forget"}
    asking = {
        "ask_agent": definition.can_ask,
        "tell_agent": definition.can_tell,
        "ask_person": definition.can_ask_people,
    }
    return names | {name for name, whom in asking.items() if whom}


def _let_ask(
    definition: AgentDefinition, agents: Mapping[str, Agent[Any]], problems: list[AgentFileProblem]
) -> None:
    """Set the agents that the agent may ask and tell, without missing ones.

    The checks of the files have already reported missing agents and other faults.
    """
    agent = agents[definition.name]
    agent.can_ask = _there(definition, definition.can_ask, agents)
    agent.can_tell = _there(definition, definition.can_tell, agents)
    if not (agent.can_ask or agent.can_tell or agent.can_ask_people):
        return
    from ekiden.runtime.tools.offer import bus_tools

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


def _let_supervise(
    definition: AgentDefinition,
    definitions: Sequence[AgentDefinition],
    agents: Mapping[str, Agent[Any]],
    default_agent: str | None,
) -> None:
    """Set the agents that get tasks, without missing ones.

    The checks of the files have already reported missing agents and other faults. The demo's model
    cannot plan: a supervisor with it has no model, and splits requests by rules.
    """
    said = definition.supervisor
    names = [] if said is None else member_names(definition, definitions)
    if said is None or not names:
        return
    wanted = default_agent if said.fallback is None else said.fallback.name
    agent = agents[definition.name]
    if is_demo(agent.model):
        agent.model = None
    agent.plan = PlanSettings(
        members=tuple(agents[name] for name in names),
        fallback=wanted if wanted in names else None,
        concurrency=said.concurrency,
        timeout_s=said.timeout_s,
        retries=said.retries,
        backoff_s=said.backoff_s,
        budget=said.budget,
        max_tasks=said.max_tasks,
    )


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
    definition: AgentDefinition, resolve: ResolveTool, problems: list[AgentFileProblem]
) -> list[FunctionTool]:
    tools: dict[str, FunctionTool] = {}
    commands = {name: words for name in definition.tools if (words := commands_of(name))}
    for name in definition.tools:
        if is_mcp_name(name) or (name in commands and "shell" in {*definition.tools, *tools}):
            continue
        place = definition.tool_places.get(name, _NOWHERE)
        try:
            tool = _resolved(name, commands, resolve)
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
    """Whether a tool of this name may yet turn up: from a server, or a module not imported."""
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
