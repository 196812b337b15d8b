"""The project of the current folder, the user, and the message of a command."""

from __future__ import annotations

import getpass
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ekiden.cli.errors import BadInput, UsageError
from ekiden.cli.output import StatusLine, note
from ekiden.core.errors import SessionNotFound
from ekiden.core.text.wording import is_unicode
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from ekiden.agents import LoadedAgents
    from ekiden.agents.definition import AgentFileProblem
    from ekiden.cli.options import TeamFlags
    from ekiden.project.project import Project
    from ekiden.project.routing import AddressedMessage
    from ekiden.project.settings import Settings
    from ekiden.project.trust import Workspace
    from ekiden.routing.stored_team import TeamSources


_LONGEST = 60


def settings_here() -> Settings:
    """The settings of the current folder."""
    from ekiden.project.settings import load_settings

    return load_settings(Path.cwd()).settings


def open_project(
    flags: TeamFlags,
    *,
    strategy: str | None = None,
    inert: bool = False,
    as_json: bool = False,
    stores_team: bool = False,
) -> Project:
    """The project of the current folder; without a team it has the demo team.

    `flags` and `strategy` override the settings. Agent files that `keep_going` leaves out are named
    on standard error. With `inert` the project is only inspected. With `stores_team`, the team is
    stored for `quick_route` if no option changes it. Raises the errors of `load_project`, and
    `FolderNotTrusted`.
    """
    from ekiden.agents import load_agent_files
    from ekiden.cli.prompts import check_trust
    from ekiden.project.project import load_project
    from ekiden.project.settings import load_settings
    from ekiden.project.trust import inspect_workspace

    root = Path.cwd()
    before = _before(root) if stores_team and flags == type(flags)() else None
    team = flags.team
    overrides = {"model": flags.model, "agents.routing.strategy": strategy}
    # After the question about trust everything is read again: the person may have taken minutes.
    while True:
        loaded = load_settings(root, overrides=overrides)
        files = None
        if (team or loaded.settings.team) is None:
            foreign = loaded.settings.agents.foreign_user_folders
            files = load_agent_files(root, foreign_user_folders=foreign)
        workspace = inspect_workspace(root, loaded, files, team=team)
        if not check_trust(workspace, trust=flags.trust):
            break
    project = load_project(
        root, overrides=overrides, team=team, keep_going=flags.keep_going, inert=inert, files=files
    )
    show_learning(as_json=as_json)
    project.tell = lambda text: _tell(text, as_json=as_json)
    left_out = [problem for problem in project.problems if problem.severity == "error"]
    tell_problems(left_out, as_json=as_json)
    if before is not None and files is not None and _is_plain(project, workspace, files):
        from ekiden.routing.stored_team import write_team

        write_team(
            str(root),
            *before,
            router=project.router,
            agents=project.agents.values(),
            settings=project.settings.agents.routing,
            problems=[(each.to_json(), str(relative(each))) for each in left_out],
        )
    return project


def _is_plain(project: Project, workspace: Workspace, files: LoadedAgents) -> bool:
    """Whether a team depends on its settings and agent files only, and needs no trust.

    Whether functions and MCP servers need trust also depends on other files of the folder.
    """
    from ekiden.project.risks import functions_of

    return (
        bool(project.definitions)
        and not workspace.risks
        and not project.settings.mcp_servers
        and not any(any(functions_of(each)) for each in (*files.definitions, *files.partial))
    )


def _before(root: Path) -> tuple[TeamSources, str]:
    """The files and folders that a team in agent files is made of, and a hash of their content."""
    from ekiden.agents import agent_folders
    from ekiden.project.settings.files import settings_files
    from ekiden.routing.stored_team import sources

    folders = agent_folders(root, foreign_user_folders=True)
    files = settings_files(root)
    found = sources(
        [each for each in (files.project, files.user) if each is not None],
        [each.path for each in folders],
    )
    return found, found.digest()


def show_learning(*, as_json: bool, begin: Callable[[], None] | None = None) -> None:
    """Show the progress while the router learns a large team; `begin` is called before it."""
    from ekiden.routing.router import LEARNING

    LEARNING.set(_learning(StatusLine(as_json=as_json), begin))


def _learning(
    line: StatusLine, begin: Callable[[], None] | None = None
) -> Callable[[int, int], None]:
    """A function that shows the progress of computing the vectors of a large team's texts."""

    def show(done: int, total: int) -> None:
        if not done and begin is not None:
            begin()
        if done < total:
            line.show(f"learning what the agents are for: {done:,} of {total:,} texts")
        else:
            line.close()

    return show


def check_addressee(project: Project, address: AddressedMessage) -> None:
    """`UnknownAgent` if a message is addressed to an agent outside the team.

    Call it before anything is stored.
    """
    from ekiden.project.routing import AUTO

    if address.to is not None and address.to != AUTO:
        project.team[address.to]


def tell_problems(problems: Iterable[AgentFileProblem], *, as_json: bool) -> None:
    """Print problems of agent files on standard error."""
    for problem in problems:
        tell_problem(problem.to_json(), str(relative(problem)), as_json=as_json)


def tell_problem(data: Mapping[str, Any], line: str, *, as_json: bool) -> None:
    """Print a problem of an agent file on standard error: as JSON or as the line."""
    note(dumps({"problem": data}) if as_json else line)


def tell_notes(project: Project, *, as_json: bool) -> None:
    """Print notes about the project, such as an unreachable server."""
    if project.is_demo and not as_json and sys.stderr.isatty():
        note("the demo team is used; for your own agents, give --team or run `ekiden init`")
    for text in project.notes:
        _tell(text, as_json=as_json)


def _tell(text: str, *, as_json: bool) -> None:
    note(dumps({"note": text}) if as_json else text)


def store_address(option: str | None) -> str:
    """The address of the store: the option, else the settings, else their default.

    `FolderNotTrusted` if the project's settings name a database, and the folder is not trusted.
    """
    if option is not None:
        return option
    from ekiden.cli.prompts import check_addresses
    from ekiden.project.settings import load_settings

    loaded = load_settings(Path.cwd())
    check_addresses(loaded, Path.cwd(), "store")
    return loaded.settings.store


def relative(problem: AgentFileProblem) -> AgentFileProblem:
    """The problem with a short path, relative to the current folder."""
    from dataclasses import replace

    try:
        return replace(problem, path=problem.path.relative_to(Path.cwd()))
    except ValueError:
        return problem


def title_of(text: str) -> str:
    """The title of a new session: the beginning of its first message, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


class Owned(Protocol):
    """A session with an owner."""

    @property
    def user_id(self) -> str | None: ...


class HasSessions(Protocol):
    """A store, or the sessions of a server."""

    async def get(self, session_id: str, /) -> Owned: ...


def person_name(option: str | None) -> str:
    """The name of the person: from the option, else of this machine's user; empty if unknown.

    `UserError` if the option is no name.
    """
    if option is not None:
        from ekiden.inbox.items import check_name

        return check_name(option, what="the name in --by")
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
    return name if is_unicode(name) else ""


def user_here(user: str | None) -> str | None:
    """The named user, else that of the settings."""
    return settings_here().user if user is None else user


async def check_owner(sessions: HasSessions, session_id: str | None, user: str | None) -> None:
    """`UsageError` if an existing session belongs to another user."""
    if session_id is None or user is None:
        return
    try:
        found = await sessions.get(session_id)
    except SessionNotFound:
        return
    if found.user_id != user:
        whose = "nobody's" if found.user_id is None else f"of the user {found.user_id!r}"
        raise UsageError(
            f"session {session_id} is {whose}, not of {user!r}: leave out --user, or the "
            "setting `user`, or start another session"
        )


def read_request(argument: str, more: Sequence[str] = ()) -> AddressedMessage:
    """The text and its recipient, from the argument or, if that is ``-``, standard input.

    `more` are extra words on the command line: `UsageError` shows how to quote them. `BadInput` for
    input that is not UTF-8 or empty.
    """
    from ekiden.project.routing import parse_address

    return parse_address(read_addressed(argument, more))


def read_addressed(argument: str, more: Sequence[str] = ()) -> str:
    """The same text, still with its recipient."""
    from ekiden.project.routing import parse_address

    one_argument(argument, more)
    text = read_text(argument)
    address = parse_address(text)
    if not address.text.strip():
        raise BadInput(f"there is no text after @{address.to}")
    return text


def one_argument(argument: str, more: Sequence[str]) -> None:
    """`UsageError`, which shows how to quote them, if there are extra words."""
    if more:
        joined = shlex.quote(" ".join((argument, *more)))
        raise UsageError(f"the text must be one argument: put it in quotes, as {joined[:200]}")


def read_text(argument: str) -> str:
    """The message, from the argument or from standard input. Raises `BadInput` if it is not
    text."""
    source = "standard input" if argument == "-" else "the text"
    try:
        if argument == "-":
            text = sys.stdin.buffer.read().decode("utf-8")
        else:
            # An argument that is not UTF-8 comes with its bytes as lone surrogates.
            text = argument
            text.encode("utf-8")
    except UnicodeError as exc:
        raise BadInput(f"{source} is not UTF-8; convert it first, for example with iconv") from exc
    if not text.strip():
        raise BadInput(f"{source} is empty; there is nothing to send")
    return text.removesuffix("\n") if argument == "-" else text


def parse_variables(given: Sequence[str]) -> dict[str, Any]:
    """Parse NAME=VALUE arguments. A value that is not JSON is a text. Raises `UsageError`."""
    from ekiden.cli.options import json_or_text

    variables: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise UsageError(f"{each[:60]!r} sets nothing: write NAME=VALUE")
        if name in variables:
            raise UsageError(f"{name[:60]!r} is set twice")
        variables[name] = json_or_text(value)
    return variables
