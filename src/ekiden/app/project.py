"""A project: a folder with agents and settings, as a team that can run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ekiden.agents import AgentDefinition, LoadedAgents, Problem, load_agent_files
from ekiden.app.assembly import Assembled, assemble, confirmed
from ekiden.app.defaults import DEMO_TEAM
from ekiden.app.demo_model import register_demo
from ekiden.app.settings import LoadedSettings, Settings, load_settings
from ekiden.app.teams import load_team
from ekiden.core.agent import Agent
from ekiden.core.errors import AgentFilesInvalid, EkidenError, UnknownTool
from ekiden.core.team import Team
from ekiden.handoff import declared_handoff
from ekiden.routing import Router
from ekiden.tools import builtin_tools, resolve_tool

if TYPE_CHECKING:
    from ekiden.tools.mcp import McpTools

_GIVE_UP = (
    "only when the request is not yours and nobody else you know can take it: the router then "
    "finds somebody"
)


@dataclass(slots=True, kw_only=True, eq=False)
class Project:
    """A team with its router and settings; ``async with`` connects the MCP servers it uses.

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
    """Of the agents that come from files."""
    is_demo: bool = False
    """Whether nobody named a team, so that this is the demo."""
    problems: Sequence[Problem] = ()
    """Warnings, and with `keep_going` the errors of the files that were left out."""
    notes: list[str] = field(default_factory=list)
    """What a person should know, such as a server that cannot be reached."""
    _served: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _mcp: McpTools | None = None

    @property
    def settings(self) -> Settings:
        """What holds here."""
        return self.loaded.settings

    @property
    def agents(self) -> Mapping[str, Agent[Any]]:
        """Everybody by name, the router left out."""
        return {agent.name: agent for agent in self.team if agent.router is None}

    async def __aenter__(self) -> Self:
        if self._served:
            await self._connect()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._mcp is not None:
            mcp, self._mcp = self._mcp, None
            await mcp.close()

    async def _connect(self) -> None:
        from ekiden.tools.mcp import McpTools, parse_mcp_servers

        servers, problems = parse_mcp_servers(self.settings.mcp_servers)
        self.notes.extend(str(problem) for problem in problems)
        self._mcp = McpTools(servers, root=self.root, ask=self.settings.tools.ask)
        wanted = {name for names in self._served.values() for name in names}
        # Side by side; what is wrong with a name is told below, agent by agent.
        with suppress(UnknownTool):
            await self._mcp.open(wanted)
        for each in self.definitions:
            for name in self._served.get(each.name, ()):
                try:
                    tools = await self._mcp.tools_for([name])
                except EkidenError as exc:
                    self.notes.append(f"{each.name} has no {name}: {exc}")
                    continue
                known = self.team[each.name].tools
                known.extend(confirmed(each, tool, name) for tool in tools)


def load_project(
    root: Path | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    team: str | None = None,
    keep_going: bool = False,
    files: LoadedAgents | None = None,
    home: Path | None = None,
) -> Project:
    """The team of the folder `root`, the current one by default.

    That is the team which `team` or the setting `team` names as ``module:attribute``; else the
    agents of the files; else, where there are none, the demo team. `overrides` are settings by
    their dotted names. `AgentFilesInvalid` lists every fault of every file; with `keep_going` the
    files that have one are left out instead. `files` are the agents' files where somebody, such
    as an `AgentWatcher`, has read them already. `SettingsInvalid` for the settings.
    """
    register_demo()
    root = Path.cwd() if root is None else root
    loaded = load_settings(root, overrides=overrides, home=home)
    _set_up_local_models(loaded.settings)
    named = team or loaded.settings.team
    if named is None:
        project = _from_files(root, loaded, files=files, keep_going=keep_going, home=home)
        if project is not None:
            return project
    return _from_code(root, loaded, named or DEMO_TEAM)


def _set_up_local_models(settings: Settings) -> None:
    """Let ``local:…`` mean what the settings say, in this process."""
    local = settings.local
    if local == type(local)():
        return
    from ekiden.models import local as models

    models.set_default_local_model(local.model)
    models.set_default_local_settings(
        models.LocalSettings(n_ctx=local.context, threads=local.threads)
    )


def _from_code(root: Path, loaded: LoadedSettings, name: str) -> Project:
    team = load_team(name)
    own = None if team.router is None else team.router.router
    router = own if isinstance(own, Router) else _router(team, loaded.settings)
    if team.router is None:
        team = Team(*team, router.agent, entry=team.entry.name, name=team.name)
    return Project(root=root, team=team, router=router, loaded=loaded, is_demo=name == DEMO_TEAM)


def _from_files(
    root: Path,
    loaded: LoadedSettings,
    *,
    files: LoadedAgents | None,
    keep_going: bool,
    home: Path | None,
) -> Project | None:
    settings = loaded.settings
    if files is None:
        files = load_agent_files(
            root, home=home, foreign_user_folders=settings.agents.foreign_user_folders
        )
    if not files.definitions and not files.problems:
        return None
    made = _assemble(files.definitions, settings, root)
    problems = sorted([*files.problems, *made.problems])
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors and not keep_going:
        raise AgentFilesInvalid(errors)
    if not made.agents:
        raise AgentFilesInvalid(errors)
    router = _router(made.agents.values(), settings)
    return Project(
        root=root,
        team=_team(made.agents, router, settings),
        router=router,
        loaded=loaded,
        definitions=files.definitions,
        problems=problems,
        _served=made.mcp_names,
    )


def _assemble(definitions: Sequence[AgentDefinition], settings: Settings, root: Path) -> Assembled:
    builtins = builtin_tools(root, settings.tools)
    return assemble(
        definitions,
        resolve=lambda name: resolve_tool(name, builtins=builtins, root=root),
        model=settings.model,
    )


def _router(agents: Iterable[Agent[Any]], settings: Settings) -> Router:
    return Router(agents, settings=settings.agents.routing, model=settings.model)


def _team(agents: Mapping[str, Agent[Any]], router: Router, settings: Settings) -> Team:
    """Begins with the router; without routing, with the default agent or the first by name."""
    routing = settings.agents.routing
    members = [agents[name] for name in sorted(agents)]
    if not routing.enabled:
        entry = routing.default_agent or members[0].name
        return Team(*members, router.agent, entry=entry, name="project")
    for agent in members:
        if agent.scope != "system" and len(members) > 1:
            agent.handoffs.append(declared_handoff(router.agent, description=_GIVE_UP))
    return Team(router.agent, *members, name="project")
