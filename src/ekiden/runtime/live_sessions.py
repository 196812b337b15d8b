"""Handoffs of live sessions: people talk to the active agent over an open connection.

A live session takes no steps, and no process could resume them. Its handoffs are checked and
recorded by the controller, as all are. A target has the conversation at once, so a handoff is
completed in the transaction that makes it. The conversation continues while people are asked for
approval.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, TypeAlias

from ekiden.core.current_agent import acting_as, logging_for
from ekiden.core.errors import SessionError, StoreError, UserError
from ekiden.runtime.handoff.controller import refuse, transfer
from ekiden.runtime.handoff.rollback import confirm_handoffs
from ekiden.runtime.questions.answers import note_answers
from ekiden.runtime.questions.cancel_question import withdraw, withdraw_questions
from ekiden.runtime.questions.due import run_timers, seconds_to_timer
from ekiden.runtime.questions.questions import Suspended
from ekiden.runtime.state.attempt import Attempt
from ekiden.runtime.state.state import RunState, load_memo

LiveHandoff: TypeAlias = Literal["made", "refused", "waiting"]
"""What came of a handoff; `waiting`: people are asked in the inbox whether they approve."""

_LONGEST_WAIT_S = 1.0


async def hand_over(run: RunState, attempt: Attempt) -> LiveHandoff:
    """Try the handoff, and store what came of it; one at a time.

    `attempt.failure` is why it was refused. Call it again with the same attempt when people
    decided. Raises `GuardrailError` as `carry_out` does.
    """
    try:
        with acting_as(run.agent.name), logging_for(run):
            is_made = await transfer(run, attempt)
    except Suspended:
        await _ask(run)
        return "waiting"
    except UserError as exc:
        refuse(run, attempt, exc)
        is_made = False
    return await _settled(run, is_made=is_made)


async def refuse_at_once(run: RunState, attempt: Attempt, exc: Exception) -> LiveHandoff:
    """Record that the handoff is refused, without asking people or user code."""
    attempt.begin(run)
    attempt.validate()
    refuse(run, attempt, exc)
    return await _settled(run, is_made=False)


async def _settled(run: RunState, *, is_made: bool) -> LiveHandoff:
    cursor = run.cursor
    if is_made:
        confirm_handoffs(run)
    elif not cursor.handoffs.tried:
        cursor.progress.turn += 1  # What people said counts for this attempt, and for no other.
    cursor.progress.phase = "end"
    run.memo = {}
    await run.commit()
    return "made" if is_made else "refused"


async def _ask(run: RunState) -> None:
    """Store the handoff, which waits for approval, and the question to people."""
    replaced, run.cursor.questions.open = run.cursor.questions.open, {}
    questions, run.questions, run.kept = run.questions or {}, None, None
    if replaced:
        await withdraw(run, replaced, by=run.agent.name)
    for put in questions.values():
        put()
    await run.commit()


def is_waiting(run: RunState, attempt: Attempt) -> bool:
    """Whether people are asked about it still."""
    return any(each.id == attempt.id for each in run.cursor.handoffs.tried)


async def is_decided(run: RunState) -> bool:
    """Whether people decided about the handoff that waits for approval; that is stored then."""
    if not await note_answers(run):
        return False
    await run.commit()
    await load_memo(run)
    return True


async def news(run: RunState) -> None:
    """Wait until the store changes, or a deadline may have passed."""
    await run.store.wait_for_change(await seconds_to_timer(run.store, _LONGEST_WAIT_S))
    await run_timers(run.store)


def begin_chain(run: RunState) -> None:
    """A person said something: depth and cycles count from here."""
    run.cursor.handoffs.new_task(run.agent.name)


async def end_live(run: RunState) -> None:
    """The connection is closed: withdraw open approvals."""
    if run.cursor.handoffs.tried or run.cursor.questions.open:
        # What cannot be stored now, whoever takes the session next does.
        with suppress(SessionError, StoreError):
            await withdraw_questions(run)
            await run.commit()
