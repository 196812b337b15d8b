"""`/fork` and `/session search`: fork this session, or find another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.chat.commands.sessions import entered
from ekiden.cli.chat.screens.screen import CommandReply, Table
from ekiden.cli.errors import UsageError
from ekiden.cli.transcript import shorten
from ekiden.cli.views.sessions import HIT_HEADERS, hit_rows
from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.documents import to_json

if TYPE_CHECKING:
    from ekiden.cli.chat.conversation import Chat
if TYPE_CHECKING:
    from ekiden.cli.chat.conversation import Chat
    from ekiden.core.events import Event


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
