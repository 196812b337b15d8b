"""Handoffs of live sessions, in which a person talks to the active agent over an open connection.

A live session has no steps that another process could resume. The controller checks and records its
handoffs like all other handoffs. The target has the conversation at once, so each handoff is
completed in the transaction that makes the handoff. The conversation continues while people are
asked for approval.
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
"""The result of a handoff. `waiting` means that the handoff waits for approval in the inbox."""

_LONGEST_WAIT_S = 1.0


async def hand_over(run: RunState, attempt: Attempt) -> LiveHandoff:
    """Attempt the handoff, and store the result. Only one attempt may be active.

    The reason of a refusal is in `attempt.failure`. After people have decided, call this function
    again with the same attempt. Raises `GuardrailError`, like `carry_out`.
    """
    try:
        with acting_as(run.agent.name), logging_for(run):
            is_made = await transfer(run, attempt)
    except Suspended:
        await _store_question(run)
        return "waiting"
    except UserError as exc:
        refuse(run, attempt, exc)
        is_made = False
    return await _store_result(run, is_made=is_made)


async def refuse_at_once(run: RunState, attempt: Attempt, exc: Exception) -> LiveHandoff:
    """Record that the handoff is refused, without asking people or user code."""
    attempt.begin(run)
    attempt.validate()
    refuse(run, attempt, exc)
    return await _store_result(run, is_made=False)


async def _store_result(run: RunState, *, is_made: bool) -> LiveHandoff:
    cursor = run.cursor
    if is_made:
        confirm_handoffs(run)
    elif not cursor.handoffs.tried:
        cursor.progress.turn += 1  # An approval applies to one attempt, so the step keys change.
    cursor.progress.phase = "end"
    run.memo = {}
    await run.commit()
    return "made" if is_made else "refused"


async def _store_question(run: RunState) -> None:
    """Store the handoff and the question to people."""
    replaced, run.cursor.questions.open = run.cursor.questions.open, {}
    questions, run.questions, run.kept = run.questions or {}, None, None
    if replaced:
        await withdraw(run, replaced, by=run.agent.name)
    for put in questions.values():
        put()
    await run.commit()


def is_waiting(run: RunState, attempt: Attempt) -> bool:
    """Whether the handoff still waits for approval."""
    return any(each.id == attempt.id for each in run.cursor.handoffs.tried)


async def is_decided(run: RunState) -> bool:
    """Whether people have decided about the handoff. If so, this call stores the decision."""
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
    """Start a new chain of handoffs after a person's message. Depth and cycles are counted from
    here."""
    run.cursor.handoffs.new_task(run.agent.name)


async def end_live(run: RunState) -> None:
    """Withdraw open approvals, because the connection is closed."""
    if run.cursor.handoffs.tried or run.cursor.questions.open:
        # If the store fails, the next owner of the session withdraws them.
        with suppress(SessionError, StoreError):
            await withdraw_questions(run)
            await run.commit()
