"""`ekiden chat --server`."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING

from ekiden.cli.chat.interrupts import Interrupts
from ekiden.cli.chat.opening import Manner, manner_here
from ekiden.cli.chat.reader import Reader, Status, StatusOf
from ekiden.cli.chat.terminal import quiet_keys
from ekiden.cli.commands import chat as local
from ekiden.cli.errors import NoSessions, UsageError
from ekiden.cli.exits import Exit
from ekiden.cli.output import say
from ekiden.cli.remote.likeness import like

if TYPE_CHECKING:
    from ekiden.cli.chat.screen import Screen
    from ekiden.cli.remote.talking import RemoteChat
    from ekiden.client import AsyncClient
    from ekiden.routing.decision import Strategy


@like(local.chat)
async def chat(
    client: AsyncClient,
    *,
    session: str | None,
    resume: bool,
    newest: bool,
    user: str | None,
    strategy: Strategy | None,
    max_turns: int | None,
    as_json: bool,
) -> int:
    """Talk with the team of a server."""
    from ekiden.cli.remote.options import user_here
    from ekiden.cli.remote.users import check_owner

    if session == "":
        raise UsageError("--session is empty; leave it out for a new session, or give an id")
    if sum((session is not None, resume, newest)) > 1:
        raise UsageError("--session, --resume and --continue exclude each other: give one")
    if resume:
        raise UsageError("--resume is for chats without --server: give --session or --continue")
    name = user_here(user)
    if newest:
        found = (await client.sessions.list(user=name).page(limit=1)).items
        if not found:
            raise NoSessions
        session = found[0].session_id
    await check_owner(client, session, name)
    return await _hold(
        client, session=session, user=name, strategy=strategy, max_turns=max_turns,
        manner=manner_here(as_json=as_json),
    )  # fmt: skip


async def _hold(
    client: AsyncClient,
    *,
    session: str | None,
    user: str | None,
    strategy: Strategy | None,
    max_turns: int | None,
    manner: Manner,
) -> int:
    from ekiden.cli.remote.chat_commands import entered, run_command
    from ekiden.cli.remote.talking import RemoteChat

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
                max_turns=max_turns,
                session_id=session,
            )
            talk.append(held)
            if at_terminal:
                say(f"ekiden at {client.url}: /help says what can be written here")
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
    from ekiden.cli.chat.piped import LineReader, TypedLines

    if manner == "drawn":
        from ekiden.cli.chat.prompt import TerminalReader

        return TerminalReader(status, lambda: None, stop_turn=interrupts.stop_turn)
    if manner == "typed":
        typed = TypedLines(status)
        interrupts.when_idle = typed.interrupted
        return typed
    return LineReader(as_json=manner == "json")


def _screen(manner: Manner) -> Screen:
    if manner == "json":
        from ekiden.cli.chat.json_screen import JsonScreen

        return JsonScreen()
    if manner == "drawn":
        from ekiden.cli.chat.rich_screen import RichScreen

        return RichScreen(markdown=True)
    from ekiden.cli.chat.plain_screen import PlainScreen

    return PlainScreen(stream=manner == "typed")
