"""The commands of a chat with a server."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from ekiden.cli.chain_view import CHAIN_HEADERS, chain_line, chain_rows
from ekiden.cli.chat.catalogue import COMMANDS, find_command
from ekiden.cli.chat.inbox_commands import split_answer
from ekiden.cli.chat.screen import Cleared, Lines, Pairs, Quoted, Reply, Shape, Table, told
from ekiden.cli.errors import UsageError
from ekiden.cli.exits import Exit
from ekiden.cli.questions_view import answer_words, question_line, question_record
from ekiden.cli.remote.inbox import find_item
from ekiden.cli.tables import clock_time
from ekiden.tools.text import spelled_out

if TYPE_CHECKING:
    from ekiden.cli.remote.talking import RemoteChat

Answer: TypeAlias = Callable[["RemoteChat", str], Awaitable[Reply]]

_LISTED = 20


async def run_command(chat: RemoteChat, line: str) -> int:
    """Do what `line`, without its slash, says; `UsageError` for what cannot be done at a server."""
    command, argument = find_command(line)
    if command.name == "quit":
        chat.is_over = True
        return Exit.OK
    if command.name == "resume":
        return await chat.resume()
    answer = _ANSWERS.get(command.name)
    if answer is None:
        raise UsageError(f"/{command.name} is for chats without --server; /help lists the others")
    own = chat.row is not None and chat.row.status == "waiting"
    chat.screen.reply(await answer(chat, argument))
    if command.name == "inbox answer" and own and not await chat.questions():
        return await chat.follow()
    return Exit.OK


async def _help(chat: RemoteChat, argument: str) -> Reply:
    names = {*_ANSWERS, "resume", "quit"}
    rows = [(each.line, each.help) for each in COMMANDS if each.name in names]
    record = {"commands": [{"command": line, "help": text} for line, text in rows]}
    text = "a text goes to whoever has the session, @NAME TEXT to that agent, @auto TEXT is routed"
    return Reply(type="help", record=record, shapes=(Pairs(pairs=rows), Lines(text=text)))


async def _agents(chat: RemoteChat, argument: str) -> Reply:
    found = [each async for each in chat.client.agents.list()]
    rows = [(each.name, each.title or each.description or "", each.scope) for each in found]
    return Reply(
        type="agents",
        record={"agents": [dict(each.raw) for each in found]},
        shapes=(Table(headers=("agent", "description", "scope"), rows=rows),),
    )


async def _agent(chat: RemoteChat, argument: str) -> Reply:
    from ekiden.cli.agent_view import detail_pairs

    if not argument:
        raise UsageError("say which agent: /agents show NAME")
    record = dict((await chat.client.agents.get(argument.removeprefix("@"))).raw)
    return Reply(type="agent", record=record, shapes=(Pairs(pairs=list(detail_pairs(record))),))


async def _route(chat: RemoteChat, argument: str) -> Reply:
    from ekiden.cli.routing_view import route_line

    if not argument:
        raise UsageError("say what is to be routed: /agents route TEXT")
    found = await chat.client.agents.route(argument)
    return Reply(type="route", record=found.raw, shapes=(Lines(text=route_line(found.raw)),))


async def _chain(chat: RemoteChat, argument: str) -> Reply:
    record = (await chat.client.sessions.chain(_session(chat))).raw
    table = Table(headers=CHAIN_HEADERS, rows=chain_rows(record))
    shapes: list[Shape] = [Lines(text=chain_line(record)), table]
    return Reply(type="chain", record=record, shapes=shapes)


async def _inbox(chat: RemoteChat, argument: str) -> Reply:
    from ekiden.cli.inbox_view import span

    own = await chat.questions()
    mine = {item.id for item in own}
    page = await chat.client.inbox.list().page(limit=_LISTED)
    items = [*own, *(item for item in page.items if item.id not in mine)]
    if not items:
        return told("inbox", "nothing waits for people", items=[])
    rows = [
        (
            "*" if item.id in mine else "",
            item.id,
            span(time.time() - item.created_at_us / 1e6),
            item.role if item.assignee is None else f"{item.role}: {item.assignee}",
            question_line(item, with_role=False),
            answer_words(item, in_chat=True),
        )
        for item in items
    ]
    record = {"items": [{**question_record(item), "own": item.id in mine} for item in items]}
    headers = ("", "item", "age", "for", "question", "answers")
    shapes: list[Shape] = [Table(headers=headers, rows=rows)]
    if own:
        shapes.append(Lines(text="* is what this session waits for"))
    return Reply(type="inbox", record=record, shapes=shapes)


async def _item(chat: RemoteChat, argument: str) -> Reply:
    from ekiden.cli.inbox_view import item_facts, item_record, item_texts, quoted

    if not argument:
        raise UsageError("say which question: /inbox show ID; /inbox lists them")
    item = await find_item(chat.client, argument)
    facts = item_facts(item, round(time.time() * 1e6))
    shapes: list[Shape] = [Pairs(pairs=[(name, text) for name, text in facts if text])]
    for heading, text in item_texts(item):
        if text:
            shapes += [Lines(text=f"{heading}:"), Quoted(text=quoted(text))]
    return Reply(type="inbox_item", record=item_record(item), shapes=shapes)


async def _answer(chat: RemoteChat, argument: str) -> Reply:
    from ekiden.cli.inbox_view import item_record

    item_id, _, said = argument.partition(" ")
    if not item_id:
        raise UsageError("say which question and what you answer: /inbox answer ID CHOICE [TEXT]")
    item = await find_item(chat.client, item_id)
    if not said.strip():
        raise UsageError(
            f"say what you answer: /inbox answer {item.id} {answer_words(item, in_chat=True)}"
        )
    choice, text = split_answer(said.strip(), item.options)
    done = await chat.client.inbox.answer(item.id, choice, text=text)
    given = done.answer.choice or done.answer.text if done.answer is not None else ""
    line = f"{item.id} answered: {spelled_out(given)}"
    record = {**item_record(done), "text": line}
    return Reply(type="answered", record=record, shapes=(Lines(text=line),))


async def entered(chat: RemoteChat, argument: str = "") -> Reply:
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
    return Reply(type="session", record=record, shapes=(Lines(text=text),))


async def _sessions(chat: RemoteChat, argument: str) -> Reply:
    page = await chat.client.sessions.list(user=chat.user).page(limit=_LISTED)
    rows = [
        (each.session_id, each.agent, each.status, clock_time(each.created_at),
         str(each.meta.get("title", "")))
        for each in page.items
    ]  # fmt: skip
    headers = ("session", "agent", "status", "created", "title")
    return Reply(
        type="sessions",
        record={"sessions": [dict(each.raw) for each in page.items]},
        shapes=(Table(headers=headers, rows=rows, empty="no sessions"),),
    )


async def _new(chat: RemoteChat, argument: str) -> Reply:
    await chat.enter(None)
    return await entered(chat)


async def _other(chat: RemoteChat, argument: str) -> Reply:
    if not argument:
        raise UsageError("say which session: /session resume ID; /session list has them")
    await chat.client.sessions.get(argument)
    await chat.enter(argument)
    return await entered(chat)


async def _shown(chat: RemoteChat, argument: str) -> Reply:
    from ekiden.cli.transcript import transcript

    session = argument or _session(chat)
    found = await chat.client.sessions.get(session)
    lines = transcript([event async for event in chat.client.sessions.events(session)])
    pairs = [(line.who, line.what) for line in lines]
    return Reply(type="session_show", record=found.raw, shapes=(Pairs(pairs=pairs),))


async def _clear(chat: RemoteChat, argument: str) -> Reply:
    return Reply(type="cleared", shapes=(Cleared(),))


def _session(chat: RemoteChat) -> str:
    if chat.session_id is None:
        raise UsageError("nothing was said yet")
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
