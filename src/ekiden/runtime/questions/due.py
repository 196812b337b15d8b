"""Handles due timers: timeouts of questions, deadlines and escalations of inbox items.

Every waiting process may call these functions at any time. Each timer is handled by one process.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ekiden.core.conversation.messages import Letter, error_json, timeout_of
from ekiden.core.errors import SessionError, StoreError
from ekiden.runtime.questions.sessions import ANSWERS, QUERY_TIMER, bus_session_id
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.state import RunState
from ekiden.storage.base import (
    Batch,
    DocumentWrite,
    MessageFilter,
    MessageSettle,
    Store,
    StoredMessage,
)
from ekiden.storage.timers import Timer, due_timers, next_due_us, timer_removal, timer_write

_log = logging.getLogger("ekiden.runtime")

_SESSION = "session:"
_NOT_YET = -1
_LONGEST_CHAIN = 100
_A_MOMENT_S = 0.001
_A_WHILE_S = 0.1


async def run_timers(store: Store) -> int:
    """Handle all due timers, and return their number."""
    if await next_due_us(store) is None:
        return 0
    now_us = await store.now_us()
    done, after, kinds = 0, "", set[str]()
    while timers := await due_timers(store, now_us=now_us, after=after):
        for timer in timers:
            kinds.add(timer.kind)
            if timer.kind == QUERY_TIMER:
                done += await _handle(store, timer, now_us)
        after = timers[-1].key
    if "inbox" in kinds:
        from ekiden.inbox import run_due

        done += await run_due(store, now_us=now_us)
    if "collaboration" in kinds:
        from ekiden.collaboration import run_due as expire_collaborations

        done += await expire_collaborations(store, now_us=now_us)
    return done


async def _handle(store: Store, timer: Timer, now_us: int) -> int:
    """End the question of the timer. An unreadable question must not block the other timers."""
    try:
        await _end_query(store, timer, now_us)
    except StoreError:
        raise
    except Exception:
        _log.exception("the timer of message %s cannot be handled and is dropped", timer.id)
        await store.write_documents([timer_removal(timer)])
    return 1


async def seconds_to_timer(store: Store, longest_s: float) -> float:
    """Seconds to wait before the next check of timers, at most `longest_s`."""
    due_us = await next_due_us(store)
    if due_us is None:
        return longest_s
    left_s = (due_us - await store.now_us()) / 1e6
    # A timer that is already due is being handled by another process, or became due just now.
    return min(left_s + _A_MOMENT_S if left_s > 0 else _A_WHILE_S, longest_s)


async def handle_timers(store: Store, longest_s: float) -> float:
    """Handle due timers, and return the seconds to wait before the next check."""
    due_us = await next_due_us(store)
    if due_us is None:
        return longest_s
    left_s = (due_us - await store.now_us()) / 1e6
    if left_s > 0:
        return min(left_s + _A_MOMENT_S, longest_s)
    await run_timers(store)
    return await seconds_to_timer(store, longest_s)


async def _end_query(store: Store, timer: Timer, now_us: int) -> None:
    """End a question that timed out, unless its session waits for a person.

    In that case the timeout restarts with the person's decision, whose commit sets another timer.
    """
    found = await store.find_messages(MessageFilter(keys=[timer.id]), limit=1)
    if not found or found[0].state != "open":
        await store.write_documents([timer_removal(timer)])
        return
    message = Letter.from_json(found[0].body).message
    decided_us = await _decided_us(store, answering_session(found[0]))
    due_us = decided_us + int(message.timeout_seconds * 1e6)
    if decided_us == _NOT_YET:
        await store.write_documents([timer_removal(timer)])
        return
    if now_us < due_us:
        later = Timer(due_us=due_us, kind=timer.kind, id=timer.id)
        await store.write_documents([timer_removal(timer), timer_write(later)])
        return
    late = timeout_of(message)
    settle = MessageSettle(
        key=timer.id, state="timed_out", answer=error_json(str(late), code=late.code)
    )
    await store.write(Batch(documents=[timer_removal(timer)], settles=[settle]))


async def restart_timeouts(run: RunState) -> None:
    """Restart the timeouts of all sessions that wait for this run, directly or through other
    sessions. The reason is that the run no longer waits for a person. The caller commits the
    change."""
    questions = run.cursor.questions
    before_us, questions.person_us = questions.person_us, await run.store.now_us()
    for timer in await _timers_of_askers(run.store, run.meta, questions.person_us, before_us):
        run.write(timer)


async def _timers_of_askers(
    store: Store, meta: Mapping[str, Any], now_us: int, before_us: int
) -> list[DocumentWrite]:
    """The writes of new timers: for the question that the session with this `meta` answers, for the
    question that its asking session answers, and so on.

    The timers that started at `before_us` are removed.
    """
    timers: list[DocumentWrite] = []
    while (message_id := meta.get(ANSWERS)) is not None and len(timers) < 2 * _LONGEST_CHAIN:
        found = await store.find_messages(MessageFilter(keys=[message_id]), limit=1)
        if not found or found[0].state != "open" or found[0].session_id is None:
            break
        if before_us:
            timers.append(later_timer_end(found[0], before_us))
        timers.append(timer_write(_later_timer(found[0], now_us)))
        try:
            meta = (await store.get(found[0].session_id)).meta
        except SessionError:
            break
    return timers


def later_timer_end(message: StoredMessage, decided_us: int) -> DocumentWrite:
    """The write that removes the timer of a question whose timeout restarted when a person
    decided."""
    return timer_removal(_later_timer(message, decided_us))


def _later_timer(message: StoredMessage, decided_us: int) -> Timer:
    timeout_us = int(Letter.from_json(message.body).message.timeout_seconds * 1e6)
    return Timer(due_us=decided_us + timeout_us, kind=QUERY_TIMER, id=message.key or "")


def answering_session(message: StoredMessage) -> str:
    """The id of the session that answers the question."""
    owner = message.owner or ""
    if owner.startswith(_SESSION):
        return owner.removeprefix(_SESSION)
    return bus_session_id(message.queue, message.key or "")


async def _decided_us(store: Store, session_id: str, depth: int = 0) -> int:
    """The time of the last decision of a person for the session, or for one that it waits for; 0 if
    there was none. `_NOT_YET` while a person is asked, or a limit has to be raised."""
    try:
        row = await store.get(session_id)
    except SessionError:
        return 0
    if row.status == "idle" and row.outcome == "out_of_budget":
        return _NOT_YET  # The timeout restarts when the session is resumed.
    cursor = Cursor.from_json(row.cursor)
    decided_us = cursor.questions.person_us
    for question in cursor.questions.open.values():
        if question.kind == "inbox":
            return _NOT_YET
        if question.session is not None and depth < _LONGEST_CHAIN:
            child_us = await _decided_us(store, question.session, depth + 1)
            if child_us == _NOT_YET:
                return _NOT_YET
            decided_us = max(decided_us, child_us)
    return decided_us
