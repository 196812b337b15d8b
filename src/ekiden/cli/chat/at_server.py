"""Chats with the team of a server, and their commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from ekiden.cli.chat.catalogue import COMMANDS, find_command
from ekiden.cli.chat.commands.inbox import answer_reply, item_reply, list_reply
from ekiden.cli.chat.screens.screen import (
    Cleared,
    CommandReply,
    Lines,
    Pairs,
    Shape,
    Table,
    told,
)
from ekiden.cli.chat.start import (
    Manner,
    Options,
    line_reader,
    manner_here,
    screen_for,
    until_left,
)
from ekiden.cli.chat.typed.reader import Interrupts, Reader, Status, StatusOf
from ekiden.cli.errors import NoSessions, UsageError
from ekiden.cli.exits import Exit
from ekiden.cli.ids import begun_session_id, session_id
from ekiden.cli.terminal.output import say
from ekiden.cli.terminal.tables import Id, TimeCell
from ekiden.cli.views.sessions import CHAIN_HEADERS, chain_line, chain_rows
from ekiden.core.documents import to_json

if TYPE_CHECKING:
    from ekiden.cli.chat.server_talk import RemoteChat
    from ekiden.client import AsyncClient


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
    manner = manner_here(as_json=options.as_json)
    return await until_left(
        manner,
        lambda interrupts: _hold(client, options, manner, interrupts, session=session, user=name),
    )


async def _hold(
    client: AsyncClient,
    options: Options,
    manner: Manner,
    interrupts: Interrupts,
    *,
    session: str | None,
    user: str | None,
) -> int:
    from ekiden.cli.chat.server_talk import RemoteChat

    at_terminal = manner in ("drawn", "typed")
    talk: list[RemoteChat] = []

    def status() -> Status:
        return talk[0].status() if talk else Status(agent="…", session_id="")

    held = RemoteChat(
        client=client,
        screen=screen_for(manner, markdown=True),
        reader=_reader(manner, status, interrupts),
        interrupts=interrupts,
        command=run_command,
        asks=at_terminal,
        user=user,
        strategy=options.strategy,
        limits=options.limits,
        session_id=session,
    )
    talk.append(held)
    if at_terminal:
        say(f"ekiden at {client.url}: /help lists the commands")
    await held.look()
    if manner == "json" or session is not None:
        held.screen.reply(await entered(held))
    code = await held.run()
    return Exit.OK if at_terminal else code


def _reader(manner: Manner, status: StatusOf, interrupts: Interrupts) -> Reader:
    if manner == "drawn":
        from ekiden.cli.chat.typed.prompt import TerminalReader

        return TerminalReader(status, lambda: None, stop_turn=interrupts.stop_turn)
    return line_reader(manner, status, interrupts)


Answer: TypeAlias = Callable[["RemoteChat", str], Awaitable[CommandReply]]

_LISTED = 20


async def run_command(chat: RemoteChat, line: str) -> int:
    """Run the command in `line`, which has no slash; `UsageError` for commands that a server
    lacks."""
    command, argument = find_command(line)
    if command.name == "quit":
        chat.is_over = True
        return Exit.OK
    if command.name == "resume":
        return await chat.resume()
    answer = _ANSWERS.get(command.name)
    if answer is None:
        raise UsageError(f"/{command.name} works only without --server; /help lists the others")
    own = chat.row is not None and chat.row.status == "waiting"
    chat.screen.reply(await answer(chat, argument))
    if command.name == "inbox answer" and own and not await chat.questions():
        return await chat.follow()
    return Exit.OK


async def _help(chat: RemoteChat, argument: str) -> CommandReply:
    names = {*_ANSWERS, "resume", "quit"}
    rows = [(each.line, each.help) for each in COMMANDS if each.name in names]
    record = {"commands": [{"command": line, "help": text} for line, text in rows]}
    text = (
        "a text goes to the agent that has the session, @NAME TEXT to that agent, @auto "
        "TEXT is routed"
    )
    return CommandReply(type="help", record=record, shapes=(Pairs(pairs=rows), Lines(text=text)))


async def _agents(chat: RemoteChat, argument: str) -> CommandReply:
    found = [each async for each in chat.client.agents.list()]
    rows = [(each.name, each.title or each.description or "", each.scope) for each in found]
    return CommandReply(
        type="agents",
        record={"agents": to_json(found)},
        shapes=(Table(headers=("agent", "description", "scope"), rows=rows),),
    )


async def _agent(chat: RemoteChat, argument: str) -> CommandReply:
    from ekiden.cli.views.agents import detail_pairs

    if not argument:
        raise UsageError("name the agent: /agents show NAME")
    found = await chat.client.agents.get(argument)
    return CommandReply(
        type="agent", record=to_json(found), shapes=(Pairs(pairs=detail_pairs(found)),)
    )


async def _route(chat: RemoteChat, argument: str) -> CommandReply:
    from ekiden.cli.terminal.transcript import route_line

    if not argument:
        raise UsageError("give the text to route: /agents route TEXT")
    record = to_json(await chat.client.agents.route(argument))
    return CommandReply(type="route", record=record, shapes=(Lines(text=route_line(record)),))


async def _chain(chat: RemoteChat, argument: str) -> CommandReply:
    found = await chat.client.sessions.chain(_session(chat))
    table = Table(headers=CHAIN_HEADERS, rows=chain_rows(found))
    shapes: list[Shape] = [Lines(text=chain_line(found)), table]
    return CommandReply(type="chain", record=to_json(found), shapes=shapes)


async def _inbox(chat: RemoteChat, argument: str) -> CommandReply:
    shown = await list_reply(chat.client.inbox, await chat.questions())
    return shown or told("inbox", "the inbox is empty", items=[])


async def _item(chat: RemoteChat, argument: str) -> CommandReply:
    return await item_reply(chat.client.inbox, argument)


async def _answer(chat: RemoteChat, argument: str) -> CommandReply:
    return await answer_reply(chat.client.inbox, argument, await chat.questions())


async def entered(chat: RemoteChat, argument: str = "") -> CommandReply:
    """Tells which session the chat is in."""
    row = chat.row
    status = chat.status()
    name = chat.session_id or "a new session"
    text = f"session {name}, with {status.agent}"
    if status.details:
        text = f"{text}; {status.details}"
    record = {
        "session_id": chat.session_id,
        "agent": status.agent,
        "events": 0 if row is None else row.events,
        "waiting": row is not None and row.status == "waiting",
        "text": text,
    }
    return CommandReply(type="session", record=record, shapes=(Lines(text=text),))


async def _sessions(chat: RemoteChat, argument: str) -> CommandReply:
    page = await chat.client.sessions.list(user=chat.user).page(limit=_LISTED)
    rows = [
        (
            Id(each.session_id),
            each.agent,
            each.status,
            TimeCell(each.created_at),
            each.title or "",
        )
        for each in page.items
    ]
    headers = ("session", "agent", "status", "created", "title")
    return CommandReply(
        type="sessions",
        record={"sessions": to_json(page.items)},
        shapes=(Table(headers=headers, rows=rows, empty="no sessions"),),
    )


async def _new(chat: RemoteChat, argument: str) -> CommandReply:
    await chat.enter(None)
    return await entered(chat)


async def _other(chat: RemoteChat, argument: str) -> CommandReply:
    if not argument:
        raise UsageError("name the session: /session resume ID; /session list shows them")
    session = await session_id(chat.client.ekiden.sessions, argument)
    await chat.client.sessions.get(session)
    await chat.enter(session)
    return await entered(chat)


async def _shown(chat: RemoteChat, argument: str) -> CommandReply:
    from ekiden.cli.terminal.transcript import transcript

    session = await session_id(chat.client.ekiden.sessions, argument or _session(chat))
    found = await chat.client.sessions.get(session)
    lines = transcript([each.event async for each in chat.client.sessions.events(session)])
    pairs = [(line.who, line.what) for line in lines]
    return CommandReply(type="session_show", record=to_json(found), shapes=(Pairs(pairs=pairs),))


async def _clear(chat: RemoteChat, argument: str) -> CommandReply:
    return CommandReply(type="cleared", shapes=(Cleared(),))


def _session(chat: RemoteChat) -> str:
    if chat.session_id is None:
        raise UsageError("there are no messages yet")
    return chat.session_id


_ANSWERS: Mapping[str, Answer] = {
    "agents": _agents,
    "agents show": _agent,
    "agents route": _route,
    "agents handoff-chain": _chain,
    "inbox": _inbox,
    "inbox show": _item,
    "inbox answer": _answer,
    "session": entered,
    "session list": _sessions,
    "session new": _new,
    "session resume": _other,
    "session show": _shown,
    "clear": _clear,
    "help": _help,
}
