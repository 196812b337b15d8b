"""`/fork` and `/session search`: other sessions, made of this one or found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.chat.screen import Reply, Table
from ekiden.cli.chat.session_commands import entered
from ekiden.cli.errors import UsageError
from ekiden.cli.views.sessions import HIT_HEADERS, hit_rows
from ekiden.core.documents import to_json

if TYPE_CHECKING:
    from ekiden.cli.chat.conversation import Chat


async def fork(chat: Chat, argument: str) -> Reply:
    """`/fork [SEQ]`: without a number, from where the session stands."""
    from ekiden.runtime.fork import fork_session

    if chat.row is not None:
        await chat.check_owner(chat.row.id)
    row = None if chat.row is None else await chat.store.get(chat.row.id)
    if row is None or not row.seq:
        raise UsageError("nothing was said yet: there is nothing to fork")
    number = argument.removeprefix("#") or str(row.seq)
    if not (number.isdecimal() and number.isascii() and 1 <= int(number[:9]) <= row.seq):
        raise UsageError(
            f"there is no event {argument[:40]!r}: write /fork with a number from 1 to {row.seq}; "
            "/agents trace shows them"
        )
    branch = await fork_session(chat.store, row.id, at_seq=int(number))
    at = branch.meta["forked_at"]
    await chat.enter(branch)
    text = f"{branch.session_id} is new and goes on from after event {at}; {row.id} is as it was"
    return await entered(chat, text, forked_from=row.id, forked_at=at)


async def search(chat: Chat, argument: str) -> Reply:
    """`/session search TEXT`."""
    from ekiden.sessions.search import search_sessions

    if not argument:
        raise UsageError("say what to look for: /session search TEXT")
    own = chat.session.user_id if chat.row is None else chat.row.user_id
    hits = await search_sessions(chat.store, argument, user_id=chat.user or own)
    table = Table(headers=HIT_HEADERS, rows=hit_rows(hits), empty="nothing is found")
    return Reply(type="hits", record={"hits": to_json(hits)}, shapes=(table,))
