"""Limits of a run that are reached while other sessions work for it.

An asked agent spends what the asker has left. If that is used up, it has not failed: it stops where
it is and gives no answer. The asker is out of budget as well, as soon as no other agent works for
it. Its questions stay open. When it is resumed with a higher limit, the asked agents resume with
what there is now.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

from ekiden.core.conversation.messages import Letter
from ekiden.core.errors import SessionBusy, SessionError
from ekiden.core.runs import OutOfBudget
from ekiden.core.values import owner_name
from ekiden.runtime.outcome import outcome_told
from ekiden.runtime.questions.answers import count_used
from ekiden.runtime.questions.questions import QUERY_TIMER
from ekiden.runtime.questions.sessions import OWN_LIMITS
from ekiden.runtime.state.budget import Spent, left_of
from ekiden.runtime.state.cursor import Cursor, OpenQuestion, RunBudget
from ekiden.runtime.state.state import RunState
from ekiden.runtime.turn.turn import over_limit
from ekiden.storage.base import Commit, MessageFilter, SessionPatch, SessionRow
from ekiden.storage.timers import Timer, timer_write

_LEASE_S = 10.0


def is_at_limit(row: SessionRow) -> bool:
    """Whether the session stopped in the middle of a run, at a limit."""
    return row.status == "idle" and row.outcome == "out_of_budget"


async def check_helpers(run: RunState) -> None:
    """`Spent` if all who are to answer stopped at a limit of the run; what they used is stored."""
    queries = _queries(run)
    if not queries or len(queries) < len(run.cursor.questions.open):
        return
    rows = [row for each in queries if (row := await _row(run, each)) is not None]
    if not all(map(is_at_limit, rows)) or len(rows) < len(queries):
        return
    for question, row in zip(queries, rows, strict=True):
        count_helper(run, question, RunBudget.from_json(row.cursor))
    await run.commit()
    raise Spent(over_limit(run) or await _told(run, rows[0]))


def count_helper(run: RunState, question: OpenQuestion, now: RunBudget) -> None:
    """Count in what the session that is asked used and was not counted yet."""
    count_used(run, question, now.usage, now.spent_s)
    question.counted = now.usage.to_json()


async def revive_helpers(run: RunState) -> None:
    """The run is resumed: those who were asked go on, with what it has left; `Spent` if that is
    nothing."""
    stopped = [each for each in _queries(run) if not each.due_us]
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
    """Make the session ready again; one that a process has continues anyway."""
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
    """What the session may use now, counted from its beginning."""
    used, own = cursor.used(), row.meta.get(OWN_LIMITS, {})
    budget = {name: round(used[name] + left, 6) for name, left in left_of(run).items()}
    for name, limit in own.items():
        budget[name] = min(limit, budget.get(name, limit))
    return budget


def _queries(run: RunState) -> list[OpenQuestion]:
    return [each for each in run.cursor.questions.open.values() if each.session is not None]


async def _row(run: RunState, question: OpenQuestion) -> SessionRow | None:
    try:
        return await run.store.get(question.session or "")
    except SessionError:
        return None


async def _told(run: RunState, row: SessionRow) -> OutOfBudget:
    """What the session itself said: a limit of each session, such as that of turns."""
    last = await run.store.events(row.id, after=row.seq - 1)
    told = outcome_told(last[-1]) if last else None
    return told if isinstance(told, OutOfBudget) else OutOfBudget("turns", 0, 0)
