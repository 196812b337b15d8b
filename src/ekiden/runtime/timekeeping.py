"""Doing what is due: time-outs of questions, deadlines and escalations of inbox items.

Anybody who waits may call it, as often as it likes; each timer is seen to by one of them.
"""

from __future__ import annotations

from contextlib import suppress

from ekiden.core.errors import SessionError
from ekiden.core.message_answers import error_json
from ekiden.core.message_errors import QueryTimeout
from ekiden.core.messages import Letter
from ekiden.runtime.asking import QUERY_TIMER
from ekiden.runtime.cursor import Cursor
from ekiden.storage.base import Batch, MessageFilter, MessageSettle, Store, StoredMessage
from ekiden.storage.timers import Timer, due_timers, next_due_us, timer_removal, timer_write

_SESSION = "session:"
_A_MOMENT_S = 0.001
_A_WHILE_S = 0.1


async def run_timers(store: Store) -> int:
    """See to what is due; how many timers that were."""
    if await next_due_us(store) is None:
        return 0
    now_us = await store.now_us()
    done, after, kinds = 0, "", set[str]()
    while timers := await due_timers(store, now_us=now_us, after=after):
        for timer in timers:
            kinds.add(timer.kind)
            if timer.kind == QUERY_TIMER:
                await _end_query(store, timer, now_us)
                done += 1
        after = timers[-1].key
    if "inbox" in kinds:
        from ekiden.inbox import run_due

        done += await run_due(store, now_us=now_us)
    if "collaboration" in kinds:
        from ekiden.collaboration import run_due as expire_collaborations

        done += await expire_collaborations(store, now_us=now_us)
    return done


async def seconds_to_timer(store: Store, longest_s: float) -> float:
    """How long to wait at most before looking at timers again."""
    due_us = await next_due_us(store)
    if due_us is None:
        return longest_s
    left_s = (due_us - await store.now_us()) / 1e6
    # One that is due already belongs to somebody else, or came due just now.
    return min(left_s + _A_MOMENT_S if left_s > 0 else _A_WHILE_S, longest_s)


async def _end_query(store: Store, timer: Timer, now_us: int) -> None:
    """The time of a question is over: tell the asker, unless whoever answers waits for a person."""
    found = await store.find_messages(MessageFilter(keys=[timer.id]), limit=1)
    if not found or found[0].state != "open":
        await store.write_documents([timer_removal(timer)])
        return
    message = Letter.from_json(found[0].body).message
    if await _waits_for_person(store, found[0]):
        later = Timer(
            due_us=now_us + int(message.timeout_seconds * 1e6), kind=timer.kind, id=timer.id
        )
        await store.write_documents([timer_removal(timer), timer_write(later)])
        return
    late = QueryTimeout(
        message.from_agent,
        message.to_agent or "",
        message.timeout_seconds,
        message_id=message.id,
    )
    settle = MessageSettle(
        key=timer.id, state="timed_out", answer=error_json(str(late), code=late.code)
    )
    await store.write(Batch(documents=[timer_removal(timer)], settles=[settle]))


async def _waits_for_person(store: Store, message: StoredMessage) -> bool:
    """Whether the session that is to answer, or one that it asked, waits for a person."""
    owner = message.owner or ""
    if not owner.startswith(_SESSION):
        return False
    return await _person_in(store, owner.removeprefix(_SESSION))


async def _person_in(store: Store, session_id: str) -> bool:
    with suppress(SessionError):
        row = await store.get(session_id)
        if row.status != "waiting":
            return False
        asks = Cursor.from_json(row.cursor).asks
        if not asks or any(question.kind == "inbox" for question in asks.values()):
            return True
        for question in asks.values():
            if question.session is not None and await _person_in(store, question.session):
                return True
    return False
