"""`/rewind`: back to before one of the person's messages, in a session that branches off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.chat.screen import Reply, Table
from ekiden.cli.chat.session_commands import entered
from ekiden.cli.errors import UsageError
from ekiden.cli.transcript import shorten
from ekiden.core.items import is_message, text_of

if TYPE_CHECKING:
    from ekiden.cli.chat.conversation import Chat
    from ekiden.core.events import Event

_LONGEST = 100


async def rewind(chat: Chat, argument: str) -> Reply | None:
    """`/rewind [N]`: without a number the messages are shown, to choose one where that works."""
    from ekiden.runtime.fork import fork_session, messages_to

    places = messages_to(await chat.events()) if chat.row is not None else []
    if not places:
        raise UsageError("nothing was said yet: there is nothing to go back to")
    if argument:
        place = _place(argument, len(places))
    elif chat.reader.can_choose:
        labels = [f"{number}  {_said(event)}" for number, event in enumerate(places, 1)]
        chosen = await chat.reader.choose(
            "Go back to before which message? ↑ ↓ and Enter; Esc for none",
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
        f"back to before message {place + 1} ({_said(before)}), in the new session "
        f"{chat.session.session_id}; {old} is as it was"
    )
    return await entered(chat, text, forked_from=old, forked_at=before.seq)


def _place(argument: str, count: int) -> int:
    number = argument.removeprefix("#")
    if not (number.isdecimal() and number.isascii() and 1 <= int(number[:9]) <= count):
        raise UsageError(
            f"there is no message {argument[:40]!r}: write /rewind with a number from 1 to {count}"
        )
    return int(number) - 1


def _listed(places: list[Event]) -> Reply:
    texts = [_said(event) for event in places]
    messages = [
        {"number": number, "seq": event.seq, "text": text}
        for number, (event, text) in enumerate(zip(places, texts, strict=True), 1)
    ]
    table = Table(
        headers=("#", "message"),
        rows=[(str(number), text) for number, text in enumerate(texts, 1)],
        heading="/rewind N goes back to before message N:",
    )
    return Reply(type="messages", record={"messages": messages}, shapes=(table,))


def _said(event: Event) -> str:
    texts = [text_of(item) for item in event.items if is_message(item)]
    return shorten(" ".join(" ".join(texts).split()), _LONGEST)
