"""`/session …` and `/fork`: show, list, search, switch and fork sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ekiden.cli.chat.screens.screen import CommandReply, Lines, Pairs, Table, told
from ekiden.cli.chat.typed.picker import session_options
from ekiden.cli.errors import UsageError
from ekiden.cli.ids import session_id as find_session, sessions_of
from ekiden.cli.terminal.transcript import shorten, transcript
from ekiden.cli.views.sessions import HIT_HEADERS, hit_rows, session_heading
from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.documents import to_json
from ekiden.core.values import dumps
from ekiden.sessions import said

if TYPE_CHECKING:
    from ekiden.cli.chat.conversation import Chat
    from ekiden.core.events import Event


_LISTED = 20
_LOOK_BACK = 60
"""How many of the last events are searched for the last messages."""
_RECALLED = 4
"""How many messages are shown again."""
_LONGEST_MESSAGE = 300


async def current(chat: Chat, argument: str) -> CommandReply:
    """`/session`."""
    from ekiden.api.local.sessions import summary_of

    if chat.row is None:
        return told(
            "session",
            f"{chat.session.session_id} is new and has no messages yet",
            session_id=chat.session.session_id,
            agent=chat.active,
            events=0,
        )
    found = summary_of(chat.row)
    return CommandReply(
        type="session",
        record=to_json(found),
        shapes=(Pairs(pairs=session_heading(found)),),
    )


async def listed(chat: Chat, argument: str) -> CommandReply:
    """`/session list`."""
    from ekiden.api.local.sessions import summary_of
    from ekiden.cli.terminal.tables import Id, TimeCell
    from ekiden.storage.base import SessionFilter

    page = await chat.store.list(SessionFilter(user_id=chat.user), limit=_LISTED)
    rows = [
        (
            "*" if row.id == chat.session.session_id else "",
            Id(row.id),
            row.agent,
            row.outcome or row.status,
            TimeCell(row.updated_at_us / 1e6),
            str(row.meta.get("title", "")),
        )
        for row in page.sessions
    ]
    table = Table(
        headers=("", "session", "agent", "state", "changed", "title"),
        rows=rows,
        empty="no sessions",
    )
    record = {"sessions": [to_json(summary_of(row)) for row in page.sessions]}
    return CommandReply(type="sessions", record=record, shapes=(table,))


async def new(chat: Chat, argument: str) -> CommandReply:
    """`/session new`."""
    from ekiden.sessions import Session

    await chat.enter(Session(store=chat.store, user_id=chat.user))
    return await entered(chat, f"{chat.session.session_id} is new")


async def resume(chat: Chat, argument: str) -> CommandReply | None:
    """`/session resume [ID]`."""
    from ekiden.sessions import Session

    session_id: str | None = argument
    if not argument:
        if not chat.reader.can_choose:
            raise UsageError("name the session: /session resume ID; /session list shows them")
        session_id = await choose_session(chat)
        if session_id is None:
            return None
    found = await find_session(sessions_of(chat.store, chat.roster.project), str(session_id))
    await chat.check_owner(found)
    row = await chat.store.get(found)
    await chat.enter(Session(row.id, store=chat.store))
    return await entered(chat, f"session {row.id}, with {row.agent}")


async def choose_session(chat: Chat) -> str | None:
    """The session that the person picks; `None` for none of them. `UsageError` if there are no
    sessions."""
    options = await session_options(chat.store, limit=_LISTED, user_id=chat.user)
    if not options:
        raise UsageError("there are no sessions yet: type a message to start one")
    place = await chat.reader.choose(
        "Which session? ↑ ↓ and Enter; Esc for none", [each.label for each in options]
    )
    return None if place is None else options[place].session_id


async def show(chat: Chat, argument: str) -> CommandReply:
    """`/session show [ID]`."""
    from ekiden.api.local.sessions import details_of

    if not argument and chat.row is None:
        return await current(chat, "")
    session_id = argument or chat.session.session_id
    session_id = await find_session(sessions_of(chat.store, chat.roster.project), session_id)
    await chat.check_owner(session_id)
    row = await chat.store.get(session_id)
    events = await chat.store.events(row.id)
    found = details_of(row, events)
    return CommandReply(
        type="conversation",
        record=to_json(found),
        shapes=(Pairs(pairs=session_heading(found)), Pairs(pairs=transcript(events))),
    )


async def export(chat: Chat, argument: str) -> CommandReply:
    """`/session export [FILE]`."""
    from ekiden.runtime.history.session_document import export_session

    if chat.row is None:
        raise UsageError("there are no messages yet: nothing to export")
    record = await export_session(chat.store, chat.row.id)
    path = _written(argument or f"{chat.row.id}.json", dumps(record) + "\n")
    return told(
        "export",
        f"{chat.row.id} is in {path}",
        session_id=chat.row.id,
        path=str(path),
    )


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
        text = f"session {chat.session.session_id}, with {chat.active}"
    if chat.is_unfinished:
        text = f"{text}; its last turn is unfinished: /resume continues it"
    if chat.is_waiting:
        text = f"{text}; it waits for {await chat.waits_for()}: /inbox shows it"
    record = {
        "session_id": chat.session.session_id,
        "agent": chat.active,
        "events": 0 if chat.row is None else chat.row.seq,
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
    if chat.row is None:
        return []
    recent = await chat.session.events(after=max(chat.row.seq - _LOOK_BACK, 0))
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
    from ekiden.runtime.history.fork import fork_session

    if chat.row is not None:
        await chat.check_owner(chat.row.id)
    row = None if chat.row is None else await chat.store.get(chat.row.id)
    if row is None or not row.seq:
        raise UsageError("there are no messages yet: nothing to fork")
    number = argument.removeprefix("#") or str(row.seq)
    if not (number.isdecimal() and number.isascii() and 1 <= int(number[:9]) <= row.seq):
        raise UsageError(
            f"there is no event {argument[:40]!r}: write /fork with a number from 1 to {row.seq}; "
            "/agents trace shows them"
        )
    branch = await fork_session(chat.store, row.id, at_seq=int(number))
    at = branch.meta["forked_at"]
    await chat.enter(branch)
    text = f"{branch.session_id} is new and continues from after event {at}; {row.id} is unchanged"
    return await entered(chat, text, forked_from=row.id, forked_at=at)


async def search(chat: Chat, argument: str) -> CommandReply:
    """`/session search TEXT`."""
    from ekiden.sessions.search import search_sessions

    if not argument:
        raise UsageError("give the text to search for: /session search TEXT")
    own = chat.session.user_id if chat.row is None else chat.row.user_id
    hits = await search_sessions(chat.store, argument, user_id=chat.user or own)
    table = Table(headers=HIT_HEADERS, rows=hit_rows(hits), empty="nothing found")
    return CommandReply(type="hits", record={"hits": to_json(hits)}, shapes=(table,))


_LONGEST = 100


async def rewind(chat: Chat, argument: str) -> CommandReply | None:
    """`/rewind [N]`: without a number, list the messages, and let the person choose one if
    possible."""
    from ekiden.runtime.history.fork import fork_session, messages_to

    places = messages_to(await chat.events()) if chat.row is not None else []
    if not places:
        raise UsageError("there are no messages yet: nothing to rewind")
    if argument:
        place = _place(argument, len(places))
    elif chat.reader.can_choose:
        labels = [f"{number}  {_said(event)}" for number, event in enumerate(places, 1)]
        chosen = await chat.reader.choose(
            "Rewind to before which message? ↑ ↓ and Enter; Esc for none",
            labels,
            start=len(labels) - 1,
        )
        if chosen is None:
            return None
        place = chosen
    else:
        return _listed(places)
    before = places[place]
    old = chat.session.session_id
    await chat.enter(await fork_session(chat.store, old, before_seq=before.seq))
    text = (
        f"rewound to before message {place + 1} ({_said(before)}), in the new session "
        f"{chat.session.session_id}; {old} is unchanged"
    )
    return await entered(chat, text, forked_from=old, forked_at=before.seq)


def _place(argument: str, count: int) -> int:
    number = argument.removeprefix("#")
    if not (number.isdecimal() and number.isascii() and 1 <= int(number[:9]) <= count):
        raise UsageError(
            f"there is no message {argument[:40]!r}: write /rewind with a number from 1 to {count}"
        )
    return int(number) - 1


def _listed(places: list[Event]) -> CommandReply:
    texts = [_said(event) for event in places]
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


def _said(event: Event) -> str:
    texts = [text_of(item) for item in event.items if is_message(item)]
    return shorten(" ".join(" ".join(texts).split()), _LONGEST)
