"""Waits for answers of other agents and people.

A worker suspends the asking session, and other workers run the asked agents. Without workers, no
other process would run the asked agents. So the process of the asking session also runs the asked
sessions. It suspends the asking session only when the remaining answers must come from people.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from ekiden.core.conversation.messages import Letter, wait_node
from ekiden.core.errors import SessionBusy, SessionError, StoreError, StoreUnavailable, UserError
from ekiden.core.events import Event
from ekiden.core.faults import fault_point
from ekiden.core.runs import OutOfBudget, Waiting
from ekiden.core.values import owner_name
from ekiden.runtime.config import RunConfig, RunOptions
from ekiden.runtime.loop.claim import claimed, resumed_run
from ekiden.runtime.outcome import finish, recorded_outcome, store_end
from ekiden.runtime.questions.answers import count_used
from ekiden.runtime.questions.cancel_question import is_left
from ekiden.runtime.questions.due import run_timers, seconds_to_timer
from ekiden.runtime.questions.questions import read_item
from ekiden.runtime.questions.sessions import OWN_LIMITS, QUERY_TIMER
from ekiden.runtime.state.budget import Spent, keep_limit, left_of
from ekiden.runtime.state.cursor import Cursor, OpenQuestion, RunBudget, open_questions
from ekiden.runtime.state.state import RunState
from ekiden.runtime.turn import over_limit
from ekiden.storage.base import Claim, Commit, MessageFilter, SessionPatch, SessionRow, Store
from ekiden.storage.timers import Timer, timer_write

_log = logging.getLogger("ekiden.runtime")

_LONGEST_WAIT_S = 1.0
_GATHER_S = 0.02
"""Seconds to gather further changes before they are checked together."""


Advance: TypeAlias = Callable[[RunState], AsyncGenerator[Any, None]]
"""The type of the function `advance`. An import of the function itself would be circular."""


async def wait_for_answers(run: RunState, advance: Advance) -> None:
    """Store the questions. Then wait in this process while agents can answer, or suspend the
    session.

    Afterwards the run has the outcome `Waiting`, or an answer can be collected.
    """
    if run.questions:
        run.ask_questions()
        fault_point("ask.question.before_commit")
        if run.status == "ready":
            await run.commit()
        else:
            await run.commit(status="ready", outcome="")
        fault_point("ask.question.after_commit")
    await keep_limit(run)
    await revive_helpers(run)
    # Checked even without new questions: another question may have failed, which changes the
    # cycle, or the process that should have checked may have died.
    await break_deadlocks(run)
    if run.options.drives:
        async with run.work.stopped():
            if await _drive(run, advance):
                return
        # Noted before the check: an answer that comes after it lets `suspend` make the session
        # ready.
        await run.see_wakes()
        if await _is_answered(run):
            return
    await check_helpers(run)
    await suspend(run)


async def suspend(run: RunState) -> None:
    """Suspend the session until it is woken. If the session was woken in the meantime, it becomes
    ready."""
    reason = await waiting_reason(run.store, run.cursor.questions.open)
    if run.status == "waiting":
        await store_end(run, Waiting(reason), None)
        return
    await finish(run, Waiting(reason))


async def break_deadlocks(run: RunState) -> None:
    """Find and break the cycle of waits, if the run's questions completed one."""
    if not any(question.kind == "query" for question in run.cursor.questions.open.values()):
        return
    from ekiden.bus.deadlocks import break_deadlock

    await break_deadlock(
        run.store,
        wait_node(run.agent.name, run.task_id),
        policy=run.config.bus.victim,
        now_us=await run.store.now_us(),
    )


async def waiting_reason(store: Store, questions: Mapping[str, OpenQuestion]) -> str:
    """The agent or people that a suspended run waits for. The result is ``person:role`` if a person
    must answer, directly or through other agents."""
    agents = []
    for question in questions.values():
        if question.kind == "inbox":
            return f"person:{question.recipient}"
        agents.append(f"agent:{question.recipient}")
        row = await _row(store, question.session)
        if row is not None and row.status == "waiting":
            return await waiting_reason(store, open_questions(row))
    return agents[0] if agents else "person"


async def _drive(run: RunState, advance: Advance) -> bool:
    """Run the asked sessions until there is an answer to collect and return True; or False if only
    people can continue.

    An `eager` run collects each answer on arrival, and the other sessions keep running. Any other
    run collects when all have answered, when one answer is enough, or when one has timed out.
    """
    if await _is_answered(run):
        return True
    try:
        while True:
            await _start_children(run, advance)
            if not run.children.tasks:
                if await _is_answered(run):
                    return True
                if not await _others_at_work(run):
                    return False
            await _news(run)
            if await _should_collect(run):
                return True
    finally:
        if not run.children.eager:
            await run.children.stop()


async def _start_children(run: RunState, advance: Advance) -> None:
    """Run, concurrently, the asked sessions that no process runs."""
    for question in _queries(run):
        if question.session is None or question.session in run.children.tasks:
            continue
        row = await _row(run.store, question.session)
        if row is not None and await _can_go_on(run.store, row):
            run.children.tasks[row.id] = asyncio.create_task(_run_session(run, row.id, advance))


async def _others_at_work(run: RunState) -> bool:
    """Whether another process will answer, or runs a session that will."""
    queries = _queries(run)
    if _on_bus(queries):
        return True
    rows = [await _row(run.store, each.session) for each in queries]
    for row in rows:
        if row is not None and await _is_under_way(run.store, row):
            return True
    return False


async def _news(run: RunState) -> None:
    """Wait until a session of this process ends, the store changes, or a timer may be due."""
    longest_s = await seconds_to_timer(run.store, _LONGEST_WAIT_S)
    hint = asyncio.create_task(run.store.wait_for_change(longest_s))
    children = set(run.children.tasks.values())
    try:
        done, _ = await asyncio.wait(
            {hint, *children}, timeout=longest_s, return_when=asyncio.FIRST_COMPLETED
        )
        if children and not done & children:
            await asyncio.wait(children, timeout=_GATHER_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        hint.cancel()
        await asyncio.gather(hint, return_exceptions=True)
    for session_id, task in list(run.children.tasks.items()):
        if task.done():
            del run.children.tasks[session_id]
    await run_timers(run.store)


async def _should_collect(run: RunState) -> bool:
    if run.children.eager or not run.children.tasks:
        return await _is_answered(run)
    return await _is_enough(run) or await _has_timed_out(run)


async def _has_timed_out(run: RunState) -> bool:
    """Whether a question has timed out while its session still works on it."""
    keys = [each.id for each in _queries(run) if each.session in run.children.tasks]
    where = MessageFilter(keys=keys, states={"timed_out"})
    return bool(await run.store.find_messages(where, limit=1))


def _queries(run: RunState) -> list[OpenQuestion]:
    return [each for each in run.cursor.questions.open.values() if each.kind == "query"]


def _on_bus(queries: Iterable[OpenQuestion]) -> bool:
    return any(question.session is None for question in queries)


async def _is_under_way(store: Store, row: SessionRow) -> bool:
    """Whether another process runs the session, or one that it waits for."""
    if row.owner is not None:
        return True
    if row.status != "waiting":
        return False
    asks = open_questions(row).values()
    queries = [question for question in asks if question.kind == "query"]
    if _on_bus(queries):
        return True
    for question in queries:
        child = await _row(store, question.session)
        if child is not None and await _is_under_way(store, child):
            return True
    return False


async def _can_go_on(store: Store, row: SessionRow) -> bool:
    """Whether running the session makes progress: it, or a session that it waits for, is ready."""
    if row.owner is not None:
        return False
    if row.status == "ready" or is_left(row):
        return True
    if row.status == "waiting":
        for question in open_questions(row).values():
            child = await _row(store, question.session)
            if child is not None and await _can_go_on(store, child):
                return True
    return False


async def is_ready(store: Store, session_id: str) -> bool:
    """Whether a waiting session could continue if it were run."""
    return await _can_go_on(store, await store.get(session_id))


async def _is_answered(run: RunState) -> bool:
    keys = [question.id for question in _queries(run)]
    if len(keys) < len(run.cursor.questions.open) and await _person_answered(run):
        return True
    if not keys:
        return False
    found = await run.store.find_messages(MessageFilter(keys=keys), limit=len(keys))
    # A message that does not exist any more is handled like an answer: the answer is lost.
    return len(found) < len(keys) or any(message.state != "open" for message in found)


async def _is_enough(run: RunState) -> bool:
    """Whether a question of a group, where one answer is enough, is answered."""
    keys = [question.id for question in _queries(run) if question.group is not None]
    if not keys:
        return False
    where = MessageFilter(keys=keys, states={"answered"})
    return bool(await run.store.find_messages(where, limit=1))


async def _person_answered(run: RunState) -> bool:
    for question in run.cursor.questions.open.values():
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


async def _run_session(run: RunState, session_id: str, advance: Advance) -> None:
    """Run an asked session to an outcome. Its failure is stored as its answer."""
    options, store = run.options, run.store
    show = options.show or (run.outbox.show if run.live else None)
    own = RunOptions(
        root=options.root,
        config=replace(options.config, on_busy="refuse", given={}),
        context=options.context,
        hooks=options.hooks,
        is_reachable=options.is_reachable,
        status_on_cancel="ready",
        live=show is not None,
        show=show,
    )
    try:
        claim, row = await claimed(store, session_id, own.config)
        async with resumed_run(own, store, claim, row) as child:
            async for shown in advance(child):
                if show is not None and isinstance(shown, Event):
                    show(shown)
                elif show is not None:
                    show(replace(shown, session_id=shown.session_id or session_id))
    except SessionBusy:
        return
    except (SessionError, StoreError, UserError) as exc:
        _log.warning("session %s cannot be run: %s", session_id, exc)


async def run_notified(run: RunState, advance: Advance) -> None:
    """After the end of the run, run the sessions that got notices from it."""
    notified, run.children.notified = run.children.notified or [], None
    for session_id in notified:
        row = await _row(run.store, session_id)
        if row is not None and await _can_go_on(run.store, row):
            await _run_session(run, session_id, advance)


_POLL_S = 1.0
"""The store is read after this many seconds even if it reported no change."""
_RETRY_S = 0.5
"""Seconds before an unreachable store or a busy session is tried again."""


async def check_waits(store: Store, session_id: str) -> None:
    """Raise `UserError` if the session does not wait."""
    if (await store.get(session_id)).status == "idle":
        raise UserError(f"session {session_id!r} does not wait: send it a message, or resume it")


async def until_ready(
    store: Store,
    session_id: str,
    *,
    timeout_s: float | None = None,
    on_outage: Callable[[StoreUnavailable], None] | None = None,
) -> SessionRow | None:
    """Wait until the session can continue, and return its row if another process ended its run.

    This function also waits while the store is unreachable. Each failure is passed to `on_outage`,
    or logged. Raises `TimeoutError`.
    """
    async with asyncio.timeout(timeout_s):
        while True:
            try:
                row = await store.get(session_id)
                if _is_over(row):
                    return row
                if await is_ready(store, session_id):
                    return None
                if not await run_timers(store):
                    await store.wait_for_change(await seconds_to_timer(store, _POLL_S))
            except StoreUnavailable as exc:
                if on_outage is None:
                    _log.warning("session %s is waited for, trying again: %s", session_id, exc)
                else:
                    on_outage(exc)
                await asyncio.sleep(_RETRY_S)


async def taken_if_free(
    store: Store, session_id: str, config: RunConfig
) -> tuple[Claim, SessionRow] | None:
    """Claim the session. Returns `None` if another process claimed it first, or the store is
    unreachable."""
    try:
        claim, row = await claimed(store, session_id, replace(config, on_busy="refuse"))
        if not _is_over(row):
            return claim, row
        await store.release(claim)
    except (SessionBusy, StoreUnavailable):
        await asyncio.sleep(_RETRY_S)
    return None


def _is_over(row: SessionRow) -> bool:
    """Whether the session's run has ended and does not wait."""
    return row.status == "idle" and not is_left(row)


# Helpers: asked agents spend from what the asking run has left. When it is used up, a helper stops
# without an answer, and this is not a failure. When no helper is working any more, the asking run
# is also out of budget, and its questions stay open. If it is resumed with higher limits, the
# helpers resume as well.
_LEASE_S = 10.0


def is_at_limit(row: SessionRow) -> bool:
    """Whether the session stopped at a limit in the middle of a run."""
    return row.status == "idle" and row.outcome == "out_of_budget"


async def check_helpers(run: RunState) -> None:
    """If all asked sessions (helpers) stopped at a limit, store their usage and raise `Spent`."""
    queries = _helper_questions(run)
    if not queries or len(queries) < len(run.cursor.questions.open):
        return
    rows = [row for each in queries if (row := await _row(run.store, each.session)) is not None]
    if not all(map(is_at_limit, rows)) or len(rows) < len(queries):
        return
    # A helper that used up a budget of its own has answered, in the commit that ended it.
    if await _is_answered(run):
        return
    for question, row in zip(queries, rows, strict=True):
        count_helper(run, question, RunBudget.from_json(row.cursor))
    await run.commit()
    raise Spent(over_limit(run) or await _recorded_limit(run, rows[0]))


def count_helper(run: RunState, question: OpenQuestion, now: RunBudget) -> None:
    """Count the part of an asked session's usage that is not counted yet."""
    count_used(run, question, now.usage, now.spent_s)
    question.counted = now.usage.to_json()


async def revive_helpers(run: RunState) -> None:
    """Let the stopped asked sessions (helpers) of a resumed run continue with the run's current
    limits. Raises `Spent` if nothing is left."""
    stopped = [each for each in _helper_questions(run) if not each.due_us]
    if not stopped:
        return
    over = over_limit(run)
    if over is not None:
        raise Spent(over)
    found = await run.store.find_messages(
        MessageFilter(keys=[each.id for each in stopped]), limit=len(stopped)
    )
    timeouts = {
        each.key: Letter.from_json(each.body).message.timeout_seconds
        for each in found
        if each.state == "open"
    }
    now_us = await run.store.now_us()
    for question in stopped:
        await _revive(run, question)
        due_us = now_us + int(timeouts.get(question.id, 0.0) * 1e6)
        question.due_us = due_us
        run.write(timer_write(Timer(due_us=due_us, kind=QUERY_TIMER, id=question.id)))
    await run.commit(status="ready", outcome="")


async def _revive(run: RunState, question: OpenQuestion) -> None:
    """Make the helper's session ready again, unless a process runs it."""
    assert question.session is not None
    with suppress(SessionError):
        try:
            claim, row = await run.store.claim(
                question.session, owner=owner_name(), lease_s=_LEASE_S
            )
        except SessionBusy:
            return
        cursor = Cursor.from_json(row.cursor)
        if cursor.progress.phase == "end" or row.outcome in ("done", "failed", "refused"):
            await run.store.release(claim)
            return
        cursor.budget.narrowed = _budget(run, row, cursor)
        status: Literal["waiting", "ready"] = "waiting" if row.status == "waiting" else "ready"
        patch = SessionPatch(
            cursor=cursor.to_json(),
            status=status,
            outcome=None if status == "waiting" else "",
        )
        await run.store.commit(claim, Commit(patch=patch, events=(), steps={}, release=True))


def _budget(run: RunState, row: SessionRow, cursor: Cursor) -> dict[str, float]:
    """The limits of the helper's session now, counted from the start of its run."""
    used, own = cursor.used(), row.meta.get(OWN_LIMITS, {})
    budget = {name: round(used[name] + left, 6) for name, left in left_of(run).items()}
    for name, limit in own.items():
        budget[name] = min(limit, budget.get(name, limit))
    return budget


def _helper_questions(run: RunState) -> list[OpenQuestion]:
    return [each for each in run.cursor.questions.open.values() if each.session is not None]


async def _recorded_limit(run: RunState, row: SessionRow) -> OutOfBudget:
    """The limit at which the helper's session stopped, for example its number of turns."""
    last = await run.store.events(row.id, after=row.seq - 1)
    outcome = recorded_outcome(last[-1]) if last else None
    return outcome if isinstance(outcome, OutOfBudget) else OutOfBudget("turns", 0, 0)
