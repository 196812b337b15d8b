"""Starts a chat: the team, the store, the session and the kind of terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from ekiden.cli.chat.conversation import AUTO
from ekiden.cli.chat.reader import (
    Interrupts,
    LineReader,
    Reader,
    Status,
    StatusOf,
    TypedLines,
    quiet_keys,
)
from ekiden.cli.errors import Exit, NoSessions, UsageError
from ekiden.cli.options import ChatFlags
from ekiden.cli.output import say
from ekiden.core.home import home_folder

if TYPE_CHECKING:
    from ekiden.cli.chat.catalogue import Sources
    from ekiden.cli.chat.local import LocalChat, Roster
    from ekiden.cli.chat.screen import Screen
    from ekiden.project.project import Project
    from ekiden.storage.base import Store

Manner: TypeAlias = Literal["drawn", "typed", "piped", "json"]
"""How a chat is held: on a terminal that can move its cursor, on one that cannot, or through pipes
with text or JSON."""

_HEAVY = (
    "ekiden.project.settings", "ekiden.agents.load", "ekiden.runtime", "ekiden.project.project",
    "ekiden.tools.function", "ekiden.storage.sqlite", "ekiden.cli.chat.loop",
)  # fmt: skip
"""Modules that are loaded after the prompt appears."""


class Beginning:
    """The prompt's status and completions. The prompt appears before the chat is ready."""

    def __init__(self) -> None:
        self.chat: LocalChat | None = None
        self._sources: Sources | None = None
        self.when_done: Callable[[LocalChat], None] | None = None

    def status(self) -> Status:
        """The status of the chat, or a placeholder."""
        return Status(agent="…", session_id="") if self.chat is None else self.chat.status()

    def sources(self) -> Sources | None:
        """The choices for completion, once the chat is ready."""
        return self._sources

    def is_done(self, chat: LocalChat) -> None:
        """Use this chat, which is ready."""
        from ekiden.cli.chat.catalogue import ChatSources

        self.chat = chat
        self._sources = ChatSources(chat.roster, chat.store)
        if self.when_done is not None:
            self.when_done(chat)


async def open_chat(flags: ChatFlags, *, store: str | None = None) -> int:
    """Run a chat to its end and return the exit code; a run that a signal ends is suspended."""
    manner = manner_here(as_json=flags.as_json)
    if flags.resume and manner != "drawn":
        raise UsageError(
            "--resume lets you choose from a list, which needs a terminal: give --session ID, "
            "or --continue for the newest"
        )
    return await until_left(manner, lambda interrupts: _hold(flags, store, manner, interrupts))


async def until_left(manner: Manner, hold: Callable[[Interrupts], Awaitable[int]]) -> int:
    """Run a chat with its signal handlers, and return the exit code, which may be that of a
    signal."""
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


async def _hold(flags: ChatFlags, store: str | None, manner: Manner, interrupts: Interrupts) -> int:
    beginning = Beginning()
    reader = _reader(manner, beginning, interrupts)
    if manner in ("drawn", "typed"):
        say("ekiden: /help lists the commands")
    # With these flags something may be shown before the prompt.
    if not (flags.goes_on or flags.keep_going):
        await reader.begin()
    try:
        if manner == "drawn":
            await _load_modules()
        return await _talk(flags, store, manner, reader, beginning, interrupts)
    finally:
        await reader.abandon()


async def _load_modules() -> None:
    """Load slow modules one by one, so that the prompt reacts to keys in between."""
    from importlib import import_module

    for name in _HEAVY:
        import_module(name)
        await asyncio.sleep(0)


async def _talk(
    flags: ChatFlags,
    address: str | None,
    manner: Manner,
    reader: Reader,
    beginning: Beginning,
    interrupts: Interrupts,
) -> int:
    from ekiden.cli.chat.loop import ChatLoop
    from ekiden.cli.chat.session_commands import entered
    from ekiden.project import open_store

    roster = await _trusted_roster(flags, manner, reader)
    async with open_store(address or roster.project.settings.store) as store:
        chat = _chat(flags, manner, roster, store, reader, interrupts)
        for line in left_out(roster.project):
            chat.screen.note(line)
        if not await _enter(chat, flags):
            return Exit.OK
        beginning.is_done(chat)
        if manner != "piped" and (manner == "json" or flags.goes_on):
            chat.screen.reply(await entered(chat))
        warming = asyncio.create_task(warm(chat)) if manner == "drawn" else None
        try:
            code = await ChatLoop(chat).run()
        finally:
            if warming is not None:
                warming.cancel()
                await asyncio.wait({warming})
            await roster.close()
    # At a terminal the person has seen what went wrong.
    return Exit.OK if manner in ("drawn", "typed") else code


def left_out(project: Project) -> list[str]:
    """The faults of agent files that the project leaves out."""
    from ekiden.cli.projects import relative

    return [str(relative(each)) for each in project.problems if each.severity == "error"]


async def warm(chat: LocalChat) -> None:
    """Prepare the router for the first message, while the person types."""
    routing = chat.roster.project.settings.agents.routing
    if chat.active == AUTO and routing.strategy in ("semantic", "hybrid"):
        # An error is reported when the router is used.
        with suppress(Exception):
            await chat.roster.project.router.prepare()


async def _trusted_roster(flags: ChatFlags, manner: Manner, reader: Reader) -> Roster:
    """The team of the current folder; the person is asked once whether its files are trusted."""
    from ekiden.cli.prompts import QUESTION, NotTrustedYet, introduction, is_yes
    from ekiden.core.current_agent import acting_agent

    try:
        return open_roster(flags)
    except NotTrustedYet as exc:
        if manner not in ("drawn", "typed") or acting_agent() is not None:
            raise
        await reader.abandon()
        say(introduction(exc.workspace))
        if not is_yes(await reader.ask(QUESTION)):
            raise
        exc.workspace.trust()
    return open_roster(flags)


def open_roster(flags: ChatFlags) -> Roster:
    """The team of the current folder; raises the errors of `load_project`, and
    `FolderNotTrusted`."""
    from ekiden.agents import AgentWatcher, LoadedAgents, agent_folders
    from ekiden.cli.chat.local import AgentFiles, Roster
    from ekiden.cli.prompts import check_trust
    from ekiden.project.project import load_project
    from ekiden.project.settings import load_settings
    from ekiden.project.trust import inspect_workspace

    given = {"model": flags.model, "agents.routing.strategy": flags.strategy, "user": flags.user}
    overrides = {name: value for name, value in given.items() if value is not None}
    root = Path.cwd()
    settings = load_settings(root, overrides=overrides).settings
    files: AgentFiles | None = None
    if flags.team is None and settings.team is None:
        folders = agent_folders(root, foreign_user_folders=settings.agents.foreign_user_folders)
        files = AgentFiles(AgentWatcher(folders))

    def load(*, keep_going: bool = True) -> Project:
        read: LoadedAgents | None = None if files is None else files.loaded
        held = load_settings(root, overrides=overrides)
        check_trust(
            inspect_workspace(root, held, read, team=flags.team), trust=flags.trust, asks=False
        )
        project = load_project(
            root, overrides=overrides, team=flags.team, keep_going=keep_going, files=read
        )
        if files is not None and not flags.keep_going:
            files.check(project)
        return project

    return Roster(load(keep_going=flags.keep_going), load=load, watcher=files)


def _chat(
    flags: ChatFlags,
    manner: Manner,
    roster: Roster,
    store: Store,
    reader: Reader,
    interrupts: Interrupts,
) -> LocalChat:
    from ekiden.cli.chat.local import LocalChat
    from ekiden.cli.chat.screen import ChatQuestions, HeldScreen
    from ekiden.cli.prompts import TerminalApprover
    from ekiden.project.run_tasks import config_of
    from ekiden.sessions import Session

    settings = roster.project.settings
    screen = HeldScreen(screen_for(manner, markdown=settings.chat.markdown))
    ask = ChatQuestions(screen, reader).ask if manner in ("drawn", "typed") else None
    config = replace(config_of(settings), model=flags.model)
    config = config.with_limits(flags.limits.by_name())
    return LocalChat(
        roster=roster,
        store=store,
        screen=screen,
        reader=reader,
        interrupts=interrupts,
        config=replace(config, approver=TerminalApprover(allow=flags.allow, ask=ask)),
        session=Session(flags.session, store=store, user_id=settings.user),
        live=manner != "piped",
    )


def _reader(manner: Manner, beginning: Beginning, interrupts: Interrupts) -> Reader:
    if manner == "drawn":
        from ekiden.cli.chat.prompt import FILE_NAME, PrivateHistory, TerminalReader

        # Without a home folder, no file can be stored there.
        history = PrivateHistory((home_folder() or Path(os.devnull)) / ".ekiden" / FILE_NAME)
        drawn = TerminalReader(
            beginning.status, beginning.sources, history=history, stop_turn=interrupts.stop_turn
        )

        def settle(chat: LocalChat) -> None:
            history.keep(chat.roster.project.settings.chat.history)
            drawn.refresh()

        beginning.when_done = settle
        return drawn
    return line_reader(manner, beginning.status, interrupts)


def line_reader(manner: Manner, status: StatusOf, interrupts: Interrupts) -> Reader:
    """Reads lines of a pipe, or of a terminal that cannot be drawn on."""

    if manner == "typed":
        typed = TypedLines(status)
        interrupts.when_idle = typed.interrupted
        return typed
    return LineReader(as_json=manner == "json")


def screen_for(manner: Manner, *, markdown: bool) -> Screen:
    """The screen of a chat."""
    if manner == "json":
        from ekiden.cli.chat.screen import JsonScreen

        return JsonScreen()
    if manner != "drawn":
        from ekiden.cli.chat.screen import PlainScreen

        return PlainScreen(stream=manner == "typed")
    from ekiden.cli.chat.rich_screen import RichScreen

    return RichScreen(markdown=markdown)


async def _enter(chat: LocalChat, flags: ChatFlags) -> bool:
    """Switch to the session that the flags name; `False` if the person picked none."""
    from ekiden.cli.ids import begun_session_id

    sessions = chat.api.sessions
    session_id = await begun_session_id(sessions, flags.session)
    if flags.newest:
        newest = (await sessions.list(user=chat.user).page(limit=1)).items
        if not newest:
            raise NoSessions
        session_id = newest[0].session_id
    elif flags.resume:
        from ekiden.cli.chat.session_commands import choose_session

        session_id = await choose_session(chat)
        if session_id is None:
            return False
    if session_id is not None:
        await chat.check_owner(session_id)
        await chat.enter(session_id)
    return True
