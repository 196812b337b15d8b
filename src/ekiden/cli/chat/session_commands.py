"""`/session …`, `/fork`, `/rewind`, `/state`, `/cost`, `/memory`: sessions and what they hold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ekiden.api.sessions import SessionSummary
from ekiden.cli.chat.catalogue import session_options
from ekiden.cli.chat.local import LocalChat
from ekiden.cli.chat.screen import CommandReply, Lines, Pairs, Shape, Table, text_reply
from ekiden.cli.errors import UsageError
from ekiden.cli.ids import session_id
from ekiden.cli.transcript import shorten, transcript
from ekiden.cli.views.sessions import (
    HEADERS,
    HIT_HEADERS,
    cost_headers,
    cost_rows,
    found_table,
    hit_rows,
    memory_table,
    session_heading,
    shared_rows,
    state_pairs,
    unpriced_note,
    variable_rows,
)
from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.documents import to_json
from ekiden.core.values import dumps
from ekiden.sessions import said

if TYPE_CHECKING:
    from ekiden.cli.chat.conversation import Chat
    from ekiden.core.events import Event
    from ekiden.memory import Memory
    from ekiden.runtime.history.session_state import SharedVariable
    from ekiden.sessions.state import SharedScope

_LISTED = 20
_LOOK_BACK = 60
"""How many of the last events are searched for the last messages."""
_RECALLED = 4
"""How many messages are shown again."""
_LONGEST_MESSAGE = 300


async def current(chat: Chat, argument: str) -> CommandReply:
    """`/session`."""
    found = chat.summary
    if found is None:
        name = chat.session_id or "this session"
        return text_reply(
            "session",
            f"{name} is new and has no messages yet",
            session_id=chat.session_id,
            agent=chat.active,
            events=0,
        )
    return CommandReply(
        type="session",
        record=_summary_record(found),
        shapes=(Pairs(pairs=session_heading(found)),),
    )


async def listed(chat: Chat, argument: str) -> CommandReply:
    """`/session list`."""
    from ekiden.cli.output import Id, TimeCell

    page = await chat.api.sessions.list(user=chat.user).page(limit=_LISTED)
    rows = [
        (
            "*" if each.session_id == chat.session_id else "",
            Id(each.session_id),
            each.agent,
            each.outcome or each.status,
            TimeCell(each.updated_at),
            each.title or "",
        )
        for each in page.items
    ]
    table = Table(
        headers=("", "session", "agent", "state", "changed", "title"),
        rows=rows,
        empty="no sessions",
    )
    return CommandReply(type="sessions", record={"sessions": to_json(page.items)}, shapes=(table,))


async def new(chat: Chat, argument: str) -> CommandReply:
    """`/session new`."""
    await chat.enter(None)
    return await entered(chat, f"{chat.session_id or 'the session'} is new")


async def resume(chat: Chat, argument: str) -> CommandReply | None:
    """`/session resume [ID]`."""
    session: str | None = argument
    if not argument:
        # Labels of the list have the last words of each session, which a server is not asked for.
        if not (chat.reader.can_choose and isinstance(chat, LocalChat)):
            raise UsageError("name the session: /session resume ID; /session list shows them")
        session = await choose_session(chat)
        if session is None:
            return None
    found = await session_id(chat.api.sessions, str(session))
    await chat.check_owner(found)
    await chat.api.sessions.get(found)
    await chat.enter(found)
    return await entered(chat)


async def choose_session(chat: LocalChat) -> str | None:
    """The session that the person picks; `None` for none of them. `UsageError` if there are no
    sessions."""
    options = await session_options(chat.store, limit=_LISTED, user_id=chat.user)
    if not options:
        raise UsageError("there are no sessions yet; type a message to start one")
    place = await chat.reader.choose(
        "Which session? ↑ ↓ and Enter; Esc for none", [each.label for each in options]
    )
    return None if place is None else options[place].session_id


async def show(chat: Chat, argument: str) -> CommandReply:
    """`/session show [ID]`."""
    if not argument and chat.summary is None:
        return await current(chat, "")
    sessions = chat.api.sessions
    session = await session_id(sessions, argument or str(chat.session_id))
    await chat.check_owner(session)
    found = await sessions.get(session)
    events = [each.event async for each in sessions.events(session)]
    return CommandReply(
        type="conversation",
        record=to_json(found),
        shapes=(Pairs(pairs=session_heading(found)), Pairs(pairs=transcript(events))),
    )


async def export(chat: Chat, argument: str) -> CommandReply:
    """`/session export [FILE]`."""
    session = chat.stored_session("nothing to export").session_id
    record = await chat.api.sessions.export(session)
    path = _written(argument or f"{session}.json", dumps(record) + "\n")
    return text_reply("export", f"{session} is in {path}", session_id=session, path=str(path))


def _written(name: str, text: str) -> Path:
    path = Path(os.path.expanduser(name))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise UsageError(f"cannot write {name!r}: {reason}; name another file") from exc
    return path


async def entered(chat: Chat, text: str = "", **facts: Any) -> CommandReply:
    """Tells which session the chat is in now, with its last messages."""
    if not text:
        text = f"session {chat.session_id or 'a new session'}, with {chat.active}"
    if chat.is_unfinished:
        text = f"{text}; its last turn is unfinished: /resume continues it"
    if chat.is_waiting:
        text = f"{text}; it waits for {await chat.waits_for()}: /inbox shows it"
    record = {
        "session_id": chat.session_id,
        "agent": chat.active,
        "events": 0 if chat.summary is None else chat.summary.events,
        "unfinished": chat.is_unfinished,
        "waiting": chat.is_waiting,
        **facts,
        "text": text,
    }
    return CommandReply(
        type="session",
        record=record,
        shapes=(Pairs(pairs=await _said_last(chat)), Lines(text=text)),
    )


async def _said_last(chat: Chat) -> list[tuple[str, str]]:
    """The last messages of the person and the agents, without calls and handoffs."""
    if chat.summary is None:
        return []
    recent = await chat.events(after=max(chat.summary.events - _LOOK_BACK, 0))
    lines = [
        ("you", shorten(text_of(item), _LONGEST_MESSAGE))
        if item.get("role") == "user"
        else (event.agent or "agent", shorten(text_of(item), _LONGEST_MESSAGE))
        for event in said(recent)
        for item in event.items
        if is_message(item) and text_of(item)
    ]
    return lines[-_RECALLED:]


async def fork(chat: Chat, argument: str) -> CommandReply:
    """`/fork [SEQ]`: without a number, from the session's last event."""
    await chat.look()  # Another process may have continued the session meanwhile.
    last = chat.stored_session("nothing to fork")
    old = last.session_id
    await chat.check_owner(old)
    number = argument.removeprefix("#") or str(last.events)
    if not _is_number(number, last.events):
        raise UsageError(
            f"there is no event {argument[:40]!r}: write /fork with a number from 1 to "
            f"{last.events}; /agents trace shows them"
        )
    made = await chat.api.sessions.fork(old, at=int(number))
    await chat.enter(made.session_id)
    at = made.forked_at
    text = f"{made.session_id} is new and continues from after event {at}; {old} is unchanged"
    return await entered(chat, text, forked_from=old, forked_at=at)


async def search(chat: Chat, argument: str) -> CommandReply:
    """`/session search TEXT`."""
    if not argument:
        raise UsageError("give the text to search for: /session search TEXT")
    own = None if chat.summary is None else chat.summary.user_id
    hits = (await chat.api.sessions.search(argument, user=chat.user or own).page()).items
    table = Table(headers=HIT_HEADERS, rows=hit_rows(hits), empty="nothing found")
    return CommandReply(type="hits", record={"hits": to_json(hits)}, shapes=(table,))


_LONGEST = 100


async def rewind(chat: Chat, argument: str) -> CommandReply | None:
    """`/rewind [N]`: without a number, list the messages, and let the person choose one if
    possible."""
    from ekiden.runtime.history.fork import messages_to

    messages = messages_to(await chat.events())
    if not messages:
        raise UsageError("there are no messages yet: nothing to rewind")
    if argument:
        place = _place(argument, len(messages))
    elif chat.reader.can_choose:
        labels = [f"{number}  {_words(event)}" for number, event in enumerate(messages, 1)]
        chosen = await chat.reader.choose(
            "Rewind to before which message? ↑ ↓ and Enter; Esc for none",
            labels,
            start=len(labels) - 1,
        )
        if chosen is None:
            return None
        place = chosen
    else:
        return _listed(messages)
    before = messages[place]
    old = str(chat.session_id)
    await chat.enter_copy(before=before.seq)
    text = (
        f"rewound to before message {place + 1} ({_words(before)}), in the new session "
        f"{chat.session_id or ''}; {old} is unchanged"
    )
    return await entered(chat, text, forked_from=old, forked_at=before.seq)


def _summary_record(found: SessionSummary) -> dict[str, Any]:
    """The session without its messages, also of one that was read with them."""
    record = to_json(found)
    return {each.name: record[each.name] for each in fields(SessionSummary)}


def _is_number(text: str, most: int) -> bool:
    """Whether it is a number from 1 to `most`."""
    return text.isdecimal() and text.isascii() and 1 <= int(text[:9]) <= most


def _place(argument: str, count: int) -> int:
    number = argument.removeprefix("#")
    if not _is_number(number, count):
        raise UsageError(
            f"there is no message {argument[:40]!r}: write /rewind with a number from 1 to {count}"
        )
    return int(number) - 1


def _listed(places: Sequence[Event]) -> CommandReply:
    texts = [_words(event) for event in places]
    messages = [
        {"number": number, "seq": event.seq, "text": text}
        for number, (event, text) in enumerate(zip(places, texts, strict=True), 1)
    ]
    table = Table(
        headers=("#", "message"),
        rows=[(str(number), text) for number, text in enumerate(texts, 1)],
        heading="/rewind N rewinds to before message N:",
    )
    return CommandReply(type="messages", record={"messages": messages}, shapes=(table,))


def _words(event: Event) -> str:
    texts = [text_of(item) for item in event.items if is_message(item)]
    return shorten(" ".join(" ".join(texts).split()), _LONGEST)


_NOTHING = "there are no messages yet: no state"


async def state(chat: LocalChat, argument: str) -> CommandReply:
    """`/state [at SEQ]`."""

    at = _number(argument)
    if chat.row is None:
        raise UsageError(_NOTHING)
    await chat.check_owner(chat.row.id)
    found = await chat.session.state(at)
    shapes: list[Shape] = [
        Pairs(pairs=state_pairs(found)),
        Table(
            headers=("variable", "value"),
            rows=variable_rows(found.variables),
            empty="the session has no variables",
        ),
    ]
    record: dict[str, Any] = {"state": found.to_json()}
    if at is None:
        shapes += await _shared(chat, record)
    return CommandReply(type="state", record=record, shapes=shapes)


async def cost(chat: LocalChat, argument: str) -> CommandReply:
    """`/cost`."""
    from ekiden.api.local.traces import summary_of
    from ekiden.models.prices import has_price_list
    from ekiden.sessions.costs import cost_report, events_with_asked

    events = []
    if chat.row is not None:
        events = await events_with_asked(chat.store, chat.session.session_id)
    report = summary_of(cost_report(events, chat.config.prices))
    table = Table(
        headers=cost_headers(report), rows=cost_rows(report), empty="there were no model calls"
    )
    missing = unpriced_note(report, has_list=has_price_list())
    shapes: list[Shape] = [table]
    if missing:
        shapes.append(Lines(text=missing))
    return CommandReply(type="cost", record=to_json(report), shapes=shapes)


async def _shared(chat: LocalChat, record: dict[str, Any]) -> list[Shape]:
    """The variables of the session's user and of the app, if there are any."""
    from ekiden.runtime.history.session_state import shared_state

    assert chat.row is not None
    owners: tuple[tuple[SharedScope, str | None], ...] = (
        ("user", chat.row.user_id),
        ("app", chat.config.app),
    )
    shapes: list[Shape] = []
    for scope, owner in owners:
        if owner:
            found: dict[str, SharedVariable] = await shared_state(chat.store, scope, owner)
            record[scope] = to_json(dict(sorted(found.items())))
            if found:
                heading = f"of the {scope} {owner}"
                shapes.append(Table(headers=HEADERS, rows=shared_rows(found), heading=heading))
    return shapes


def _number(argument: str) -> int | None:
    if not argument:
        return None
    number = argument.removeprefix("at ").strip()
    if not number.isascii() or not number.isdecimal() or len(number) > 15:
        raise UsageError("give the event: /state at 7; `/agents trace` lists them")
    return int(number)


_MEMORIES_LISTED = 50


async def memories(chat: LocalChat, argument: str) -> CommandReply:
    """`/memory`."""
    from ekiden.api.local.memory import entry_of

    found = await _memory(chat).list(limit=_MEMORIES_LISTED + 1)
    page = [entry_of(each) for each in found[:_MEMORIES_LISTED]]
    headers, rows = memory_table(page)
    table = Table(headers=headers, rows=rows, empty="there are no memories")
    shapes: list[Shape] = [table]
    if len(found) > _MEMORIES_LISTED:
        shapes.append(Lines(text="there are more: /memory search TEXT finds them"))
    record = {"memories": to_json(page)}
    return CommandReply(type="memories", record=record, shapes=shapes)


async def search_memory(chat: LocalChat, argument: str) -> CommandReply:
    """`/memory search TEXT`."""
    from ekiden.api.local.memory import found_of

    if not argument:
        raise UsageError("give the text to search for: /memory search TEXT")
    answer = await _memory(chat).recall(argument)
    found = [found_of(each) for each in answer.found]
    headers, rows = found_table(found)
    table = Table(headers=headers, rows=rows, empty="no memory matches")
    record = {"memories": to_json(found)}
    shapes: list[Shape] = [table, *(Lines(text=text) for text in answer.notes)]
    return CommandReply(type="memories", record=record, shapes=shapes)


async def forget(chat: LocalChat, argument: str) -> CommandReply:
    """`/memory forget KEY`."""
    from ekiden.core.errors.memory import MemoryNotFound

    if not argument:
        raise UsageError("name the key: /memory forget KEY; /memory lists the keys")
    if not await _memory(chat).forget(argument):
        raise MemoryNotFound(argument)
    return text_reply("forgotten", f"{argument} is forgotten", key=argument)


def _memory(chat: LocalChat) -> Memory:
    """The memory of the agent that has the conversation; keyword search if it has none."""
    from ekiden.core.profile import MemorySettings
    from ekiden.memory import Memory

    project, config = chat.roster.project, chat.config
    agent = project.agents.get(chat.active)
    settings = None if agent is None else agent.memory
    row = chat.row
    return Memory(
        chat.store,
        user=chat.session.user_id if row is None else row.user_id,
        app=config.app,
        settings=settings or MemorySettings(top_k=project.settings.memory.top_k),
        embedder=config.embedder,
    )
