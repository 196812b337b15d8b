"""Chats with the team of a server."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING

from ekiden.cli.chat.start import Manner, Options, manner_here
from ekiden.cli.chat.typed.reader import Interrupts, Reader, Status, StatusOf, quiet_keys
from ekiden.cli.errors import NoSessions, UsageError
from ekiden.cli.exits import Exit
from ekiden.cli.ids import begun_session_id
from ekiden.cli.options import LimitFlags
from ekiden.cli.terminal.output import say

if TYPE_CHECKING:
    from ekiden.cli.chat.screens.screen import Screen
    from ekiden.cli.chat.server_talk import RemoteChat
    from ekiden.client import AsyncClient
    from ekiden.routing.decision import Strategy


async def open_chat_at_server(client: AsyncClient, options: Options) -> int:
    """Chat with the team of a server until the person leaves; returns the exit code."""
    from ekiden.cli.projects import check_owner, user_here

    if options.resume:
        raise UsageError("--resume works only without --server: use --session or --continue")
    name = user_here(options.user)
    session = await begun_session_id(client.ekiden.sessions, options.session)
    if options.newest:
        found = (await client.sessions.list(user=name).page(limit=1)).items
        if not found:
            raise NoSessions
        session = found[0].session_id
    await check_owner(client.sessions, session, name)
    return await _hold(
        client,
        session=session,
        user=name,
        strategy=options.strategy,
        limits=options.limits,
        manner=manner_here(as_json=options.as_json),
    )


async def _hold(
    client: AsyncClient,
    *,
    session: str | None,
    user: str | None,
    strategy: Strategy | None,
    limits: LimitFlags,
    manner: Manner,
) -> int:
    from ekiden.cli.chat.server_commands import entered, run_command
    from ekiden.cli.chat.server_talk import RemoteChat

    interrupts = Interrupts(stops_turns=manner in ("drawn", "typed"))
    at_terminal = manner in ("drawn", "typed")
    talk: list[RemoteChat] = []

    def status() -> Status:
        return talk[0].status() if talk else Status(agent="…", session_id="")

    with quiet_keys() if manner == "drawn" else nullcontext(), interrupts.installed():
        try:
            held = RemoteChat(
                client=client,
                screen=_screen(manner),
                reader=_reader(manner, status, interrupts),
                interrupts=interrupts,
                command=run_command,
                asks=at_terminal,
                user=user,
                strategy=strategy,
                limits=limits,
                session_id=session,
            )
            talk.append(held)
            if at_terminal:
                say(f"ekiden at {client.url}: /help lists the commands")
            await held.look()
            if manner == "json" or session is not None:
                held.screen.reply(await entered(held))
            code = await held.run()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if interrupts.ended_by is None or task is None:
                raise
            task.uncancel()
            return 128 + interrupts.ended_by
    return Exit.OK if at_terminal else code


def _reader(manner: Manner, status: StatusOf, interrupts: Interrupts) -> Reader:
    from ekiden.cli.chat.typed.piped import LineReader, TypedLines

    if manner == "drawn":
        from ekiden.cli.chat.typed.prompt import TerminalReader

        return TerminalReader(status, lambda: None, stop_turn=interrupts.stop_turn)
    if manner == "typed":
        typed = TypedLines(status)
        interrupts.when_idle = typed.interrupted
        return typed
    return LineReader(as_json=manner == "json")


def _screen(manner: Manner) -> Screen:
    if manner == "json":
        from ekiden.cli.chat.screens.plain import JsonScreen

        return JsonScreen()
    if manner == "drawn":
        from ekiden.cli.chat.screens.rich import RichScreen

        return RichScreen(markdown=True)
    from ekiden.cli.chat.screens.plain import PlainScreen

    return PlainScreen(stream=manner == "typed")
