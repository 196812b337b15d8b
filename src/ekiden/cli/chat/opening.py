"""Beginning a chat: the team, the store, the session, and what kind of terminal there is."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from ekiden.cli.chat.terminal import quiet_keys
from ekiden.cli.errors import NoSessions, UsageError
from ekiden.cli.exits import Exit

if TYPE_CHECKING:
    from ekiden.app.project import Project
    from ekiden.cli.chat.conversation import Chat
    from ekiden.cli.chat.interrupts import Interrupts
    from ekiden.cli.chat.reader import Reader, Status, StatusOf
    from ekiden.cli.chat.roster import Roster
    from ekiden.cli.chat.screen import Screen
    from ekiden.storage.base import Store

Manner: TypeAlias = Literal["drawn", "typed", "piped", "json"]
"""How a chat is held: at a terminal that can move its cursor, at one that cannot, through pipes,
or with a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line."""

    session: str | None = None
    resume: bool = False
    newest: bool = False
    team: str | None = None
    model: str | None = None
    strategy: str | None = None
    store: str | None = None
    allow: tuple[str, ...] = ()
    max_turns: int | None = None
    keep_going: bool = False
    as_json: bool = False


async def open_chat(options: Options) -> int:
    """Hold a chat to its end and give the exit code."""
    manner = manner_here(as_json=options.as_json)
    with quiet_keys() if manner == "drawn" else nullcontext():
        return await _open(options, manner)


async def _open(options: Options, manner: Manner) -> int:
    from ekiden.app import open_store
    from ekiden.cli.chat.interrupts import Interrupts
    from ekiden.cli.chat.loop import talk

    if options.resume and manner != "drawn":
        raise UsageError(
            "--resume shows a list to choose from, which needs a terminal: "
            "give --session ID, or --continue for the newest"
        )
    roster = open_roster(options)
    address = options.store or roster.project.settings.store
    async with open_store(address) as store:
        interrupts = Interrupts(stops_turns=manner in ("drawn", "typed"))
        chat = _chat(options, manner, roster, store, interrupts)
        if not await _enter(chat, options):
            return Exit.OK
        greet(chat, manner)
        return await talk(chat)


def manner_here(*, as_json: bool) -> Manner:
    """What standard input and output are good for."""
    if as_json:
        return "json"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "piped"
    return "typed" if os.environ.get("TERM", "dumb") in ("dumb", "unknown", "") else "drawn"


def open_roster(options: Options) -> Roster:
    """The team of the current folder; raises what `load_project` does."""
    from ekiden.agents import AgentWatcher, LoadedAgents, agent_folders
    from ekiden.app.project import load_project
    from ekiden.app.settings import load_settings
    from ekiden.cli.chat.agent_files import AgentFiles
    from ekiden.cli.chat.roster import Roster

    given = {"model": options.model, "agents.routing.strategy": options.strategy}
    overrides = {name: value for name, value in given.items() if value is not None}
    root = Path.cwd()
    settings = load_settings(root, overrides=overrides).settings
    files: AgentFiles | None = None
    if options.team is None and settings.team is None:
        folders = agent_folders(root, foreign_user_folders=settings.agents.foreign_user_folders)
        files = AgentFiles(AgentWatcher(folders))

    def load(*, keep_going: bool = True) -> Project:
        read: LoadedAgents | None = None if files is None else files.loaded
        return load_project(
            root, overrides=overrides, team=options.team, keep_going=keep_going, files=read
        )

    return Roster(load(keep_going=options.keep_going), load=load, watcher=files)


def _chat(
    options: Options, manner: Manner, roster: Roster, store: Store, interrupts: Interrupts
) -> Chat:
    from ekiden.cli.approving import TerminalApprover
    from ekiden.cli.chat.conversation import Chat
    from ekiden.runtime import RunConfig
    from ekiden.sessions import Session

    made: list[Chat] = []

    def status() -> Status:
        return made[0].status()

    reader = _reader(manner, status, roster, store, interrupts)
    ask = reader.ask if manner in ("drawn", "typed") else None
    config = RunConfig(model=options.model).with_turns(options.max_turns)
    chat = Chat(
        roster=roster,
        store=store,
        screen=_screen(manner, roster.project),
        reader=reader,
        interrupts=interrupts,
        config=replace(config, approver=TerminalApprover(allow=options.allow, ask=ask)),
        session=Session(options.session, store=store),
        live=manner != "piped",
    )
    made.append(chat)
    return chat


def _reader(
    manner: Manner, status: StatusOf, roster: Roster, store: Store, interrupts: Interrupts
) -> Reader:
    from ekiden.cli.chat.piped import LineReader, TypedLines

    if manner == "typed":
        typed = TypedLines(status)
        interrupts.when_idle = typed.interrupted
        return typed
    if manner != "drawn":
        return LineReader(as_json=manner == "json")
    from ekiden.cli.chat.history import FILE_NAME, PrivateHistory
    from ekiden.cli.chat.prompt import TerminalReader
    from ekiden.cli.chat.sources import ChatSources

    return TerminalReader(
        status,
        ChatSources(roster, store),
        history=PrivateHistory(
            Path.home() / ".ekiden" / FILE_NAME, limit=roster.project.settings.chat.history
        ),
        stop_turn=interrupts.stop_turn,
    )


def _screen(manner: Manner, project: Project) -> Screen:
    if manner == "json":
        from ekiden.cli.chat.json_screen import JsonScreen

        return JsonScreen()
    if manner != "drawn":
        from ekiden.cli.chat.plain_screen import PlainScreen

        return PlainScreen(stream=manner == "typed")
    from ekiden.cli.chat.rich_screen import RichScreen

    return RichScreen(markdown=project.settings.chat.markdown)


async def _enter(chat: Chat, options: Options) -> bool:
    """Go into the session that the options name; `False` if the person picked none."""
    from ekiden.sessions import Session

    session_id = options.session
    if options.newest:
        newest = (await chat.store.list(limit=1)).sessions
        if not newest:
            raise NoSessions
        session_id = newest[0].id
    elif options.resume:
        from ekiden.cli.chat.session_commands import choose_session

        session_id = await choose_session(chat)
        if session_id is None:
            return False
    await chat.enter(chat.session if session_id is None else Session(session_id, store=chat.store))
    return True


def greet(chat: Chat, manner: Manner) -> None:
    """Say where the person is; programs are told the session's id."""
    from ekiden.cli.chat.session_commands import entered

    project = chat.roster.project
    count = len(project.agents)
    what = "the demo team" if project.is_demo else f"{count} agent{'s' * (count != 1)}"
    if manner == "json":
        chat.screen.reply(entered(chat, f"{what}, session {chat.session.session_id}"))
    elif manner != "piped":
        chat.screen.reply(entered(chat, f"ekiden: {what}; /help says what can be written here"))
