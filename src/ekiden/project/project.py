"""Loads a project: makes a team from a folder with agents and settings, or from a named Python
object."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import field, replace
from importlib import import_module
from importlib.machinery import PathFinder
from inspect import iscoroutinefunction
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Self

from ekiden.agents import (
    AgentDefinition,
    AgentFileProblem,
    LoadedAgents,
    load_agent_files,
    origin_of,
)
from ekiden.core.agent import Agent, Team
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import AgentFilesInvalid, UnknownAgent, UserError
from ekiden.core.handoffs import Handoff
from ekiden.core.profile import Budget
from ekiden.handoff import declared_handoff
from ekiden.project.agent_files.assembly import Assembled, assemble, serve_mcp
from ekiden.project.agent_files.edges import FileGuardrails, declared_edge
from ekiden.project.settings import LoadedSettings, Settings, check_default_agent, load_settings
from ekiden.routing import Router
from ekiden.routing.decision import ROUTER_NAME
from ekiden.tools import builtin_tools, resolve_tool

if TYPE_CHECKING:
    from ekiden.tools.mcp_tools import McpTools

DEMO_TEAM = "ekiden.project.demo:team"


def load_team(target: str) -> Team:
    """Load the team at ``module:attribute``, which is a `Team`, an `Agent`, or a function that
    returns a `Team` or an `Agent`.

    A module in the current folder has precedence over an installed module. Raises `UserError` for a
    wrong name. Also raises `UserError`, with the type and the text of the exception, if the module
    or the function raises an exception::

        team = load_team("desk:team")
    """
    module_name, separator, attribute = target.partition(":")
    if "/" in module_name or "\\" in module_name or module_name.endswith(".py"):
        stem = PurePath(module_name).stem
        raise UserError(
            f"{module_name!r} is a file; name its module, for example {stem}:{attribute}, and run "
            "in the folder that has the file"
        )
    if not (separator and module_name and attribute):
        raise UserError(
            f"{target!r} does not name a team; write MODULE:NAME, for example desk:team"
        )
    found = _attribute(_module(module_name), attribute, target)
    if callable(found) and not isinstance(found, Team | Agent):
        found = _call_factory(found, target)
    if isinstance(found, Agent):
        return Team(found)
    if isinstance(found, Team):
        return found
    raise UserError(f"{target} is of type {type(found).__name__}, neither a Team nor an Agent")


def _module(name: str) -> Any:
    # An installed team must not import modules of the current folder, which may be untrusted. So
    # the folder joins the path only if the named module is in it.
    is_here = PathFinder.find_spec(name.partition(".")[0], [""]) is not None
    if is_here and "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is not None and (name == exc.name or name.startswith(exc.name + ".")):
            raise UserError(
                f"there is no module {exc.name!r} here; run in the folder that has it, "
                "or install the package it is in"
            ) from exc
        raise UserError(f"module {name!r} needs {exc.name!r}, which is not installed") from exc
    except (Exception, SystemExit) as exc:
        raise UserError(f"module {name!r} fails: {type(exc).__name__}: {exc}") from exc


def _attribute(module: Any, path: str, target: str) -> Any:
    found = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as exc:
            raise UserError(
                f"{target}: module {module.__name__!r} has no {path!r}; name its team or agent"
            ) from exc
        except (Exception, SystemExit) as exc:
            raise UserError(f"{target} fails: {type(exc).__name__}: {exc}") from exc
    return found


def _call_factory(factory: Any, target: str) -> Any:
    if iscoroutinefunction(factory):
        raise UserError(f"{target} is an async function; a team is made by a plain one")
    try:
        return factory()
    except (Exception, SystemExit) as exc:
        raise UserError(f"{target}() fails: {type(exc).__name__}: {exc}") from exc


_GIVE_UP = (
    "only when the request is not yours and nobody else you know can take it: the router then "
    "finds somebody"
)


@dataclass(slots=True, kw_only=True, eq=False)
class Project:
    """A team with its router and settings. ``async with`` connects the MCP servers that the team
    uses.

    For example::

        async with load_project(Path("desk")) as project:
            decision = await project.router.route("Where is my parcel?")
            await Runner.run(project.team, "Where is my parcel?")
    """

    root: Path
    team: Team
    router: Router
    loaded: LoadedSettings
    definitions: Sequence[AgentDefinition] = ()
    """The definitions of agents that come from agent files."""
    is_demo: bool = False
    """Whether this is the demo team, which is used if the project has neither a team nor agent
    files."""
    problems: Sequence[AgentFileProblem] = ()
    """Warnings about agent files. With `keep_going`, the errors of the skipped files are
    included."""
    notes: list[str] = field(default_factory=list)
    """Notes for people, for example about an MCP server that cannot be reached."""
    tell: Callable[[str], None] | None = None
    """A function that is called with each urgent note for people, for example that MCP servers are
    slow to connect."""
    _served: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _guardrails: Mapping[str, FileGuardrails] = field(default_factory=dict)
    _mcp: McpTools | None = None

    @property
    def settings(self) -> Settings:
        """The effective settings."""
        return self.loaded.settings

    @property
    def agents(self) -> Mapping[str, Agent[Any]]:
        """All agents by name, without the router."""
        return {agent.name: agent for agent in self.team if not agent.traits.is_router}

    async def __aenter__(self) -> Self:
        if self._served:
            try:
                await self._connect()
            except BaseException:
                # Python does not call `__aexit__` after an error or a cancellation here.
                await self._disconnect()
                raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if any(agent.memory is not None for agent in self.team):
            from ekiden.memory import close_backends

            await close_backends()
        await self._disconnect()

    async def _disconnect(self) -> None:
        if self._mcp is not None:
            mcp, self._mcp = self._mcp, None
            await mcp.close()

    async def _connect(self) -> None:
        from ekiden.tools.mcp_servers import parse_mcp_servers
        from ekiden.tools.mcp_tools import McpTools

        servers, problems = parse_mcp_servers(self.settings.mcp_servers)
        self.notes.extend(str(problem) for problem in problems)
        tools = self.settings.tools
        self._mcp = McpTools(
            servers, root=self.root, ask=tools.ask, ask_destructive=tools.ask_destructive
        )
        users = [(each, self.team[each.name]) for each in self.definitions]
        self.notes.extend(
            await serve_mcp(self._mcp, servers, users, names=self._served, tell=self.tell)
        )
        for name, guardrails in self._guardrails.items():
            guardrails.guard_tools(self.team[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFiles:
    """The agent files of a project, checked without creating a team."""

    definitions: Sequence[AgentDefinition]
    """The definitions, including readable parts of files with errors."""
    problems: Sequence[AgentFileProblem]
    no_model: Sequence[str] = ()
    """The agents that have no model, if neither the project nor ``EKIDEN_MODEL`` names a model."""


def load_project(
    root: Path | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    team: str | None = None,
    keep_going: bool = False,
    inert: bool = False,
    files: LoadedAgents | None = None,
    home: Path | None = None,
) -> Project:
    """Load the team of the folder `root`, by default the current folder.

    The team comes from the first of these sources that exists: the Python object at the
    ``module:attribute`` in the argument `team` or the setting `team`, the agent files, the demo
    team. `overrides` are settings by their dotted names. Raises `AgentFilesInvalid` with every
    error of every file; with `keep_going`, invalid files are skipped instead. With `inert`, code
    named in agent files is not imported, so you can inspect the project and route requests, but you
    cannot call the project's own tools. A team in Python is imported even with `inert`. `files` are
    agent files that were already read, for example by an `AgentWatcher`. Raises `SettingsInvalid`
    for invalid settings, and `UserError` if no agent can get requests.
    """
    root = Path.cwd() if root is None else root
    loaded = load_settings(root, overrides=overrides, home=home)
    _set_up_local_models(loaded.settings)
    named = team or loaded.settings.team
    if named is None:
        files = files or _read_files(root, loaded.settings, home)
        project = _from_files(root, loaded, files, keep_going=keep_going, inert=inert)
        if project is not None:
            return _with_budgets(project)
    return _with_budgets(_from_code(root, loaded, named or DEMO_TEAM))


def _with_budgets(project: Project) -> Project:
    """Set the budgets of agents from the settings; `UserError` for an unknown agent."""
    for name, limits in project.settings.limits.agents.items():
        if name not in project.agents:
            known = ", ".join(sorted(project.agents))
            raise UserError(
                f"limits.agents has a budget for {name!r}, and there is no such agent; "
                f"known: {known[:200]}"
            )
        given: Any = limits
        project.agents[name].budget = Budget(**given)
    return project


def check_files(root: Path, *, inert: bool = True, home: Path | None = None) -> CheckedFiles:
    """Check the agent files of the folder `root` without creating a team.

    With `inert`, functions in the files are not imported. If the settings name a team in Python,
    tools are not checked, because the team may register tools. Raises `SettingsInvalid`, and
    `UserError` if the files are valid but do not make a team.
    """
    settings = load_settings(root, home=home).settings
    files = _read_files(root, settings, home)
    definitions = (*files.definitions, *files.partial)
    if settings.team is not None:
        return CheckedFiles(definitions=definitions, problems=files.problems)
    files, own = _without_router(files)
    assembled = _assemble(files, settings, root, inert=inert, partial=files.partial)
    problems = sorted([*files.problems, *assembled.problems])
    if assembled.agents and not _errors(problems):
        _team(assembled, _router(assembled.agents.values(), settings, own), settings)
    no_model: list[str] = []
    if not (settings.model or os.environ.get("EKIDEN_MODEL")):
        no_model = sorted({each.name for each in definitions if not (each.model or each.a2a)})
    return CheckedFiles(definitions=definitions, problems=problems, no_model=no_model)


def _set_up_local_models(settings: Settings) -> None:
    """Apply the settings of local models to this process."""
    local = settings.local
    if local == type(local)():
        return
    from ekiden.models.local import (
        LocalEngineSettings,
        set_default_local_model,
        set_default_local_settings,
    )

    set_default_local_model(local.model)
    set_default_local_settings(LocalEngineSettings(n_ctx=local.context, threads=local.threads))


def _from_code(root: Path, loaded: LoadedSettings, name: str) -> Project:
    team = _demo() if name == DEMO_TEAM else load_team(name)
    project = project_of(team, loaded, root=root)
    project.is_demo = name == DEMO_TEAM
    return project


def project_of(team: Team, loaded: LoadedSettings, *, root: Path | None = None) -> Project:
    """Create a project with a team of Python objects. A team without a router gets a router."""
    own = None if team.router is None else team.router.router
    router = own if isinstance(own, Router) else _router(team, loaded.settings)
    if team.router is None:
        team = Team(*team, router.agent, entry=team.entry.name, name=team.name)
    return Project(root=root or Path.cwd(), team=team, router=router, loaded=loaded)


def _demo() -> Team:
    """The demo team. A plain import, because `load_team` would search the current folder first."""
    from ekiden.project.demo import team

    return team


def _read_files(root: Path, settings: Settings, home: Path | None) -> LoadedAgents:
    return load_agent_files(
        root, home=home, foreign_user_folders=settings.agents.foreign_user_folders
    )


def _from_files(
    root: Path, loaded: LoadedSettings, files: LoadedAgents, *, keep_going: bool, inert: bool
) -> Project | None:
    settings = loaded.settings
    files, own = _without_router(files)
    if not files.definitions and not files.errors:
        return None
    # With `keep_going`, files with errors are left out, so they are not checked further.
    partial = () if keep_going else tuple(each for each in files.partial if _is_own(each.path))
    files, problems = _without_bad_foreign(files, files.problems)
    assembled = _assemble(files, settings, root, inert=inert, partial=partial)
    files, problems = _without_bad_foreign(files, [*problems, *assembled.problems])
    # Assembled again, so that no handoff leads to a removed agent.
    if len(files.definitions) < len(assembled.agents):
        assembled = _assemble(files, settings, root, inert=inert, partial=partial)
        problems = sorted({*problems, *assembled.problems})
    errors = _errors(problems)
    if errors and not assembled.agents:
        raise AgentFilesInvalid(errors)
    if not keep_going and any(_is_own(problem.path) for problem in errors):
        raise AgentFilesInvalid(errors)
    check_default_agent(loaded, {name: agent.scope for name, agent in assembled.agents.items()})
    router = _router(assembled.agents.values(), settings, own)
    return Project(
        root=root,
        team=_team(assembled, router, settings),
        router=router,
        loaded=loaded,
        definitions=files.definitions,
        problems=problems,
        _served=assembled.mcp_names,
        _guardrails=assembled.guardrails,
    )


def _is_own(path: Path) -> bool:
    """Whether a file was written for Ekiden. Errors in files of other tools are not fatal."""
    return origin_of(path) == "ekiden"


def _without_bad_foreign(
    files: LoadedAgents, problems: Iterable[AgentFileProblem]
) -> tuple[LoadedAgents, list[AgentFileProblem]]:
    """The files without files of other tools that have errors."""
    ordered = sorted(problems)
    bad = {each.path for each in _errors(ordered)}
    kept = [each for each in files.definitions if each.path not in bad or each.origin == "ekiden"]
    return replace(files, definitions=tuple(kept)), ordered


def _without_router(files: LoadedAgents) -> tuple[LoadedAgents, AgentDefinition | None]:
    """The files without ``router-agent``, which configures the router and is no member of the
    team."""
    own = next((each for each in files.definitions if each.name == ROUTER_NAME), None)
    kept = tuple(each for each in files.definitions if each is not own)
    return replace(files, definitions=kept), own


def _errors(problems: Iterable[AgentFileProblem]) -> list[AgentFileProblem]:
    return [problem for problem in problems if problem.severity == "error"]


def _assemble(
    files: LoadedAgents,
    settings: Settings,
    root: Path,
    *,
    inert: bool,
    partial: Sequence[AgentDefinition],
) -> Assembled:
    builtins = builtin_tools(root, settings.tools)
    return assemble(
        files.definitions,
        resolve=lambda name: resolve_tool(name, builtins=builtins, root=root, inert=inert),
        model=settings.model,
        partial=partial,
        default_agent=settings.agents.routing.default_agent,
        memory=settings.memory,
        root=root,
        inert=inert,
    )


def _router(
    agents: Iterable[Agent[Any]], settings: Settings, own: AgentDefinition | None = None
) -> Router:
    """The router of the settings; the file `own` of ``router-agent`` has precedence.

    The demo model is not used for routing: it compares words, which the other stages do better.
    """
    routing = settings.agents.routing
    if own is not None:
        llm = routing.llm
        prompt, model = llm.prompt or own.instructions or None, llm.model or own.model
        routing = replace(routing, llm=replace(llm, prompt=prompt, model=model))
    from ekiden.models.demo import is_demo

    team_model = None if is_demo(settings.model) else settings.model
    return Router(agents, settings=routing, model=team_model)


def _team(assembled: Assembled, router: Router, settings: Settings) -> Team:
    """The team. Its entry is the router; without routing, the default agent if there is one.

    Raises `UserError` if all agents, or the default agent, are system agents, which get no
    requests.
    """
    agents = assembled.agents
    routing = settings.agents.routing
    members = [agents[name] for name in sorted(agents)]
    open_to_all = [agent.name for agent in members if agent.scope != "system"]
    if not open_to_all:
        raise UserError(
            "there is no agent that requests can go to: "
            f"{', '.join(agents)[:200]} can only be used by Ekiden itself; add an agent whose "
            "`scope` is not system"
        )
    if not routing.enabled:
        entry = routing.default_agent or router.agent.name
        if entry in agents and entry not in open_to_all:
            raise UserError(
                f"agents.routing.default_agent is {entry!r}, a system agent, which gets no "
                f"requests; known: {', '.join(open_to_all)[:200]}"
            )
        if entry not in agents and entry != router.agent.name:
            raise UnknownAgent(entry, known=open_to_all)
        return Team(*members, router.agent, entry=entry, name="project")
    give_up = declared_handoff(router.agent, description=_GIVE_UP)
    for agent in members:
        agent.handoffs += _to_router(agent, assembled, router, give_up)
    return Team(router.agent, *members, name="project")


def _to_router(
    agent: Agent[Any], assembled: Assembled, router: Router, give_up: Handoff[Any, Any]
) -> list[Handoff[Any, Any]]:
    """The handoffs to the router in the agent's file. If the model can use none of them, also one
    for giving up."""
    edges = [declared_edge(edge, router.agent) for edge in assembled.to_router.get(agent.name, ())]
    is_offered = any(edge.terms.when != "auto" for edge in edges)
    if not is_offered and agent.scope != "system" and len(assembled.agents) > 1:
        edges.append(copy(give_up))
    return edges
