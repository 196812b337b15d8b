"""Waiting for answers: a worker leaves the session, everybody else runs whoever is to answer.

In a process without workers nobody else would run the agents that are asked. So whoever runs the
asking session runs theirs, too, and parks it only when all that is left is to wait for people.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from ekiden.core.errors import SessionBusy, SessionError, StoreError, UserError
from ekiden.core.faults import fault_point
from ekiden.core.messages import wait_node
from ekiden.core.outcomes import Waiting
from ekiden.runtime.circumstances import Circumstances
from ekiden.runtime.cursor import Cursor, OpenQuestion
from ekiden.runtime.finish import finish
from ekiden.runtime.inboxes import read_item
from ekiden.runtime.opening import claimed, taken_up
from ekiden.runtime.state import RunState
from ekiden.runtime.timekeeping import run_timers, seconds_to_timer
from ekiden.runtime.withdrawing import is_left
from ekiden.storage.base import MessageFilter, SessionRow, Store

_log = logging.getLogger("ekiden.runtime")

_LONGEST_WAIT_S = 1.0


Advance: TypeAlias = Callable[[RunState], AsyncGenerator[Any, None]]
"""What takes a session to an outcome."""


async def wait_for_answers(run: RunState, advance: Advance) -> None:
    """Store what was asked; then wait here while agents can answer, or park the session.

    Afterwards the run has an outcome (`Waiting`), or there is an answer to be collected.
    """
    if run.questions:
        run.ask_questions()
        fault_point("ask.question.before_commit")
        if run.status == "ready":
            await run.commit()
        else:
            await run.commit(status="ready", outcome="")
        fault_point("ask.question.after_commit")
    # Also if nothing is new: of several one may have failed, so that the others are those who wait
    # for us, or somebody died before looking.
    await break_deadlocks(run)
    if run.around.drives:
        async with run.work.stopped():
            if await _drive(run, advance):
                return
        await run.see_wakes()
        if await _is_answered(run):
            return
    await park(run)


async def park(run: RunState) -> None:
    """Leave the session until it is woken; what woke it meanwhile leaves it ready."""
    reason = await waiting_reason(run.store, run.cursor)
    if run.status == "waiting":
        await run.commit(status="waiting", outcome="waiting", release=True)
        run.outcome = Waiting(reason)
        return
    await finish(run, Waiting(reason))


async def break_deadlocks(run: RunState) -> None:
    """Look whether the questions that were just stored close a circle of waits."""
    if not any(question.kind == "query" for question in run.cursor.asks.values()):
        return
    from ekiden.bus.deadlocks import break_deadlock

    await break_deadlock(
        run.store,
        wait_node(run.agent.name, run.task_id),
        policy=run.config.deadlock_victim,
        now_us=await run.store.now_us(),
    )


async def waiting_reason(store: Store, cursor: Cursor) -> str:
    """Whom a parked run waits for in the end: ``person:role`` if it takes a person."""
    agents = []
    for question in cursor.asks.values():
        if question.kind == "inbox":
            return f"person:{question.who}"
        agents.append(f"agent:{question.who}")
        row = await _row(store, question.session)
        if row is not None and row.status == "waiting":
            return await waiting_reason(store, Cursor.from_json(row.cursor))
    return agents[0] if agents else "person"


async def _drive(run: RunState, advance: Advance) -> bool:
    """Run those who are to answer until one has; `False` if only people can go on."""
    store = run.store
    while True:
        if await _is_answered(run):
            return True
        rows = [await _row(store, each.session) for each in _queries(run)]
        ready = [row for row in rows if row is not None and await _can_go_on(store, row)]
        if ready:
            await _advance_all(run, ready, advance)
            continue
        under_way = [row for row in rows if row is not None and await _is_under_way(store, row)]
        if not under_way and not _on_bus(_queries(run)):
            return False
        if not await run_timers(store):
            await store.wait_for_change(await seconds_to_timer(store, _LONGEST_WAIT_S))


def _queries(run: RunState) -> list[OpenQuestion]:
    return [each for each in run.cursor.asks.values() if each.kind == "query"]


def _on_bus(queries: Iterable[OpenQuestion]) -> bool:
    return any(question.session is None for question in queries)


async def _is_under_way(store: Store, row: SessionRow) -> bool:
    """Whether somebody else works on it, or on something that it waits for."""
    if row.owner is not None:
        return True
    if row.status != "waiting":
        return False
    asks = Cursor.from_json(row.cursor).asks.values()
    queries = [question for question in asks if question.kind == "query"]
    if _on_bus(queries):
        return True
    for question in queries:
        child = await _row(store, question.session)
        if child is not None and await _is_under_way(store, child):
            return True
    return False


async def _can_go_on(store: Store, row: SessionRow) -> bool:
    """Whether running the session would lead anywhere: it, or one that it waits for, is ready."""
    if row.owner is not None:
        return False
    if row.status == "ready" or is_left(row):
        return True
    if row.status == "waiting":
        for question in Cursor.from_json(row.cursor).asks.values():
            child = await _row(store, question.session)
            if child is not None and await _can_go_on(store, child):
                return True
    return False


async def is_ready(store: Store, session_id: str) -> bool:
    """Whether a session that waits could go on if somebody ran it."""
    return await _can_go_on(store, await store.get(session_id))


async def _is_answered(run: RunState) -> bool:
    keys = [question.id for question in _queries(run)]
    if len(keys) < len(run.cursor.asks) and await _person_answered(run):
        return True
    if not keys:
        return False
    found = await run.store.find_messages(MessageFilter(keys=keys), limit=len(keys))
    return len(found) < len(keys) or any(message.state != "open" for message in found)


async def _is_enough(run: RunState) -> bool:
    """Whether there is a good answer to one of several questions of which one is enough."""
    keys = [question.id for question in _queries(run) if question.group is not None]
    if not keys:
        return False
    where = MessageFilter(keys=keys, states={"answered"})
    return bool(await run.store.find_messages(where, limit=1))


async def _person_answered(run: RunState) -> bool:
    for question in run.cursor.asks.values():
        if question.kind == "inbox":
            item = await read_item(run.store, question.id)
            if item is None or item.status != "open":
                return True
    return False


async def _row(store: Store, session_id: str | None) -> SessionRow | None:
    try:
        return None if session_id is None else await store.get(session_id)
    except SessionError:
        return None


async def _advance_all(run: RunState, rows: list[SessionRow], advance: Advance) -> None:
    """Run the sessions side by side until each has an outcome, there is an answer that is enough,
    or a question's time is over."""
    tasks = [asyncio.create_task(_run_session(run, row.id, advance)) for row in rows]
    try:
        pending = set(tasks)
        while pending:
            longest_s = await seconds_to_timer(run.store, _LONGEST_WAIT_S)
            done, pending = await asyncio.wait(
                pending, timeout=longest_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not pending or (done and await _is_enough(run)):
                return
            if await run_timers(run.store) and await _is_answered(run):
                return
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run_session(run: RunState, session_id: str, advance: Advance) -> None:
    """Run another session to an outcome; a failure of it is its answer."""
    around, store = run.around, run.store
    own = Circumstances(
        root=around.root,
        config=replace(around.config, on_busy="refuse"),
        context=around.context,
        hooks=around.hooks,
        is_reachable=around.is_reachable,
        left_as="ready",
    )
    try:
        claim, row = await claimed(store, session_id, own.config)
        async with taken_up(own, store, claim, row) as child:
            async for _ in advance(child):
                pass
    except SessionBusy:
        return
    except (SessionError, StoreError, UserError) as exc:
        _log.warning("session %s cannot be run: %s", session_id, exc)


async def run_told(run: RunState, advance: Advance) -> None:
    """Let agents that were told something work on it, now that the run is over."""
    told, run.told = run.told or [], None
    for session_id in told:
        row = await _row(run.store, session_id)
        if row is not None and await _can_go_on(run.store, row):
            await _run_session(run, session_id, advance)
