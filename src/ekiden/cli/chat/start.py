"""Starts a chat: the team, the store, the session and the kind of terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from ekiden.cli.chat.conversation import AUTO
from ekiden.cli.chat.typed.reader import Interrupts, Reader, Status, StatusOf, quiet_keys
from ekiden.cli.errors import NoSessions, UsageError
from ekiden.cli.exits import Exit
from ekiden.cli.options import NO_LIMITS, LimitFlags
from ekiden.cli.terminal.output import say

if TYPE_CHECKING:
    from ekiden.cli.chat.conversation import Chat
    from ekiden.cli.chat.roster import Roster
    from ekiden.cli.chat.screens.screen import Screen
    from ekiden.cli.chat.typed.completion import Sources
    from ekiden.project.project import Project
    from ekiden.routing.decision import Strategy
    from ekiden.storage.base import Store

Manner: TypeAlias = Literal["drawn", "typed", "piped", "json"]
"""The mode of a chat: a terminal that can move its cursor, one that cannot, pipes, or a program."""

_HEAVY = (
    "ekiden.project.settings",
    "ekiden.agents.load",
    "ekiden.runtime",
    "ekiden.project.project",
    "ekiden.tools.function",
    "ekiden.storage.sqlite",
    "ekiden.cli.chat.loop",
)
"""Modules that are loaded after the prompt appears."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line."""

    session: str | None = None
    resume: bool = False
    newest: bool = False
    user: str | None = None
    team: str | None = None
    model: str | None = None
    strategy: Strategy | None = None
    store: str | None = None
    allow: tuple[str, ...] = ()
    limits: LimitFlags = NO_LIMITS
    keep_going: bool = False
    trust: bool = False
    as_json: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether a session is named, so that its last messages are shown before the prompt."""
        return self.resume or self.newest or self.session is not None

    @property
    def speaks_first(self) -> bool:
        """Whether something may be shown before the prompt."""
        return self.goes_on or self.keep_going


class Beginning:
    """The prompt's status and completions, before and after the chat is ready."""

    def __init__(self) -> None:
        self.chat: Chat | None = None
        self._sources: Sources | None = None
        self.when_done: Callable[[Chat], None] | None = None

    def status(self) -> Status:
        """For the prompt."""
        return Status(agent="…", session_id="") if self.chat is None else self.chat.status()

    def sources(self) -> Sources | None:
        """For completion."""
        return self._sources

    def is_done(self, chat: Chat) -> None:
        """The chat is ready."""
        from ekiden.cli.chat.typed.sources import ChatSources

        self.chat = chat
        self._sources = ChatSources(chat.roster, chat.store)
        if self.when_done is not None:
            self.when_done(chat)


async def open_chat(options: Options) -> int:
    """Run a chat to its end and return the exit code; a run that a signal ends is suspended."""
    manner = manner_here(as_json=options.as_json)
    if options.resume and manner != "drawn":
        raise UsageError(
            "--resume lets you choose from a list, which needs a terminal: give --session ID, "
            "or --continue for the newest"
        )
    return await until_left(manner, lambda interrupts: _hold(options, manner, interrupts))


async def until_left(manner: Manner, hold: Callable[[Interrupts], Awaitable[int]]) -> int:
    """Run a chat with its interrupts and return the exit code, which may be that of a signal."""
    interrupts = Interrupts(stops_turns=manner in ("drawn", "typed"))
    with quiet_keys() if manner == "drawn" else nullcontext(), interrupts.installed():
        try:
            return await hold(interrupts)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if interrupts.ended_by is None or task is None:
                raise
            task.uncancel()
            return 128 + interrupts.ended_by


def manner_here(*, as_json: bool) -> Manner:
    """The mode that standard input and output allow."""
    if as_json:
        return "json"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "piped"
    return "typed" if os.environ.get("TERM", "dumb") in ("dumb", "unknown", "") else "drawn"


async def _hold(options: Options, manner: Manner, interrupts: Interrupts) -> int:
    beginning = Beginning()
    reader = _reader(manner, beginning, interrupts)
    if manner in ("drawn", "typed"):
        say("ekiden: /help lists the commands")
    if not options.speaks_first:
        await reader.begin()
    try:
        if manner == "drawn":
            await _load_modules()
        return await _talk(options, manner, reader, beginning, interrupts)
    finally:
        await reader.abandon()


async def _load_modules() -> None:
    """Load slow modules one by one, so that keys are handled in between."""
    from importlib import import_module

    for name in _HEAVY:
        import_module(name)
        await asyncio.sleep(0)


async def _talk(
    options: Options,
    manner: Manner,
    reader: Reader,
    beginning: Beginning,
    interrupts: Interrupts,
) -> int:
    from ekiden.cli.chat.commands.sessions import entered
    from ekiden.cli.chat.loop import ChatLoop
    from ekiden.project import open_store

    roster = await _trusted_roster(options, manner, reader)
    async with open_store(options.store or roster.project.settings.store) as store:
        chat = _chat(options, manner, roster, store, reader, interrupts)
        for line in left_out(roster.project):
            chat.screen.note(line)
        if not await _enter(chat, options):
            return Exit.OK
        beginning.is_done(chat)
        if manner != "piped" and (manner == "json" or options.goes_on):
            chat.screen.reply(await entered(chat))
        warming = asyncio.create_task(warm(chat)) if manner == "drawn" else None
        try:
            code = await ChatLoop(chat).run()
        finally:
            if warming is not None:
                warming.cancel()
                await asyncio.wait({warming})
            await roster.close()
    # Whoever sat there has seen what went wrong.
    return Exit.OK if manner in ("drawn", "typed") else code


def left_out(project: Project) -> list[str]:
    """The faults of agent files that the project leaves out."""
    from ekiden.cli.projects import relative

    return [str(relative(each)) for each in project.problems if each.severity == "error"]


async def warm(chat: Chat) -> None:
    """Prepare the router for the first message, while the person types."""
    routing = chat.roster.project.settings.agents.routing
    if chat.active == AUTO and routing.strategy in ("semantic", "hybrid"):
        # What is wrong shows when it is used.
        with suppress(Exception):
            await chat.roster.project.router.prepare()


async def _trusted_roster(options: Options, manner: Manner, reader: Reader) -> Roster:
    """The team of the current folder; the person is asked once whether its files are trusted."""
    from ekiden.cli.terminal.approval_prompt import is_yes
    from ekiden.cli.terminal.prompts import QUESTION, NotTrustedYet, introduction
    from ekiden.core.current_agent import acting_agent

    try:
        return open_roster(options)
    except NotTrustedYet as exc:
        if manner not in ("drawn", "typed") or acting_agent() is not None:
            raise
        await reader.abandon()
        say(introduction(exc.workspace))
        if not is_yes(await reader.ask(QUESTION)):
            raise
        exc.workspace.trust()
    return open_roster(options)


def open_roster(options: Options) -> Roster:
    """The team of the current folder; raises the errors of `load_project`, and
    `FolderNotTrusted`."""
    from ekiden.agents import AgentWatcher, LoadedAgents, agent_folders
    from ekiden.cli.chat.roster import AgentFiles, Roster
    from ekiden.cli.terminal.prompts import check_trust
    from ekiden.project.project import load_project
    from ekiden.project.settings import load_settings
    from ekiden.project.trust import inspect_workspace

    given = {
        "model": options.model,
        "agents.routing.strategy": options.strategy,
        "user": options.user,
    }
    overrides = {name: value for name, value in given.items() if value is not None}
    root = Path.cwd()
    settings = load_settings(root, overrides=overrides).settings
    files: AgentFiles | None = None
    if options.team is None and settings.team is None:
        folders = agent_folders(root, foreign_user_folders=settings.agents.foreign_user_folders)
        files = AgentFiles(AgentWatcher(folders))

    def load(*, keep_going: bool = True) -> Project:
        read: LoadedAgents | None = None if files is None else files.loaded
        held = load_settings(root, overrides=overrides)
        check_trust(
            inspect_workspace(root, held, read, team=options.team), trust=options.trust, asks=False
        )
        project = load_project(
            root, overrides=overrides, team=options.team, keep_going=keep_going, files=read
        )
        if files is not None and not options.keep_going:
            files.check(project)
        return project

    return Roster(load(keep_going=options.keep_going), load=load, watcher=files)


def _chat(
    options: Options,
    manner: Manner,
    roster: Roster,
    store: Store,
    reader: Reader,
    interrupts: Interrupts,
) -> Chat:
    from ekiden.cli.chat.conversation import Chat
    from ekiden.cli.chat.questions import ChatQuestions, HeldScreen
    from ekiden.cli.terminal.approval_prompt import TerminalApprover
    from ekiden.project.run_options import config_of
    from ekiden.sessions import Session

    settings = roster.project.settings
    screen = HeldScreen(screen_for(manner, markdown=settings.chat.markdown))
    ask = ChatQuestions(screen, reader).ask if manner in ("drawn", "typed") else None
    config = replace(config_of(settings), model=options.model)
    config = config.with_limits(options.limits.by_name())
    return Chat(
        roster=roster,
        store=store,
        screen=screen,
        reader=reader,
        interrupts=interrupts,
        config=replace(config, approver=TerminalApprover(allow=options.allow, ask=ask)),
        session=Session(options.session, store=store, user_id=settings.user),
        live=manner != "piped",
    )


def _reader(manner: Manner, beginning: Beginning, interrupts: Interrupts) -> Reader:
    if manner == "drawn":
        from ekiden.cli.chat.typed.prompt import FILE_NAME, PrivateHistory, TerminalReader

        history = PrivateHistory(Path.home() / ".ekiden" / FILE_NAME)
        drawn = TerminalReader(
            beginning.status,
            beginning.sources,
            history=history,
            stop_turn=interrupts.stop_turn,
        )

        def settle(chat: Chat) -> None:
            history.keep(chat.roster.project.settings.chat.history)
            drawn.refresh()

        beginning.when_done = settle
        return drawn
    return line_reader(manner, beginning.status, interrupts)


def line_reader(manner: Manner, status: StatusOf, interrupts: Interrupts) -> Reader:
    """Reads lines of a pipe, or of a terminal that cannot be drawn on."""
    from ekiden.cli.chat.typed.piped import LineReader, TypedLines

    if manner == "typed":
        typed = TypedLines(status)
        interrupts.when_idle = typed.interrupted
        return typed
    return LineReader(as_json=manner == "json")


def screen_for(manner: Manner, *, markdown: bool) -> Screen:
    """Shows the chat."""
    if manner == "json":
        from ekiden.cli.chat.screens.plain import JsonScreen

        return JsonScreen()
    if manner != "drawn":
        from ekiden.cli.chat.screens.plain import PlainScreen

        return PlainScreen(stream=manner == "typed")
    from ekiden.cli.chat.screens.rich import RichScreen

    return RichScreen(markdown=markdown)


async def _enter(chat: Chat, options: Options) -> bool:
    """Switch to the session that the options name; `False` if the person picked none."""
    from ekiden.cli.ids import begun_session_id, sessions_of
    from ekiden.sessions import Session
    from ekiden.storage.base import SessionFilter

    session_id = await begun_session_id(
        sessions_of(chat.store, chat.roster.project), options.session
    )
    if options.newest:
        newest = (await chat.store.list(SessionFilter(user_id=chat.user), limit=1)).sessions
        if not newest:
            raise NoSessions
        session_id = newest[0].id
    elif options.resume:
        from ekiden.cli.chat.commands.sessions import choose_session

        session_id = await choose_session(chat)
        if session_id is None:
            return False
    if session_id is not None:
        await chat.check_owner(session_id)
    await chat.enter(
        chat.session
        if session_id is None
        else Session(session_id, store=chat.store, user_id=chat.user)
    )
    return True
