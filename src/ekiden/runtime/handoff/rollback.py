"""Settles handoffs: confirms them, or rolls them back and runs their compensations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ekiden.core.conversation.model import Item, function_output
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import HandoffError, HandoffRefused, StaleDocument
from ekiden.core.faults import fault_point
from ekiden.core.handoffs import RefusalCode, StatusName
from ekiden.core.runs import Failed
from ekiden.handoff.requests import move_details
from ekiden.runtime.conversation import not_undone
from ekiden.runtime.outcome import describe, describe_to_others, finish, log_error
from ekiden.runtime.questions.cancel_question import withdraw_questions
from ekiden.runtime.questions.questions import tell_people
from ekiden.runtime.state.calls import function_of, settled, takes_rollback
from ekiden.runtime.state.cursor_handoffs import Compensation, PendingHandoff
from ekiden.runtime.state.state import RunState
from ekiden.runtime.state.step_record import KEPT, REDACTED, events_until, kept_again, read_step
from ekiden.runtime.state.variables import GONE, body_of, value_of, write_of
from ekiden.sessions import history_length, visible_items
from ekiden.storage.base import DocumentWrite
from ekiden.tools.under_way import CallUnderWay, unfinished_calls

_ATTEMPTS = 3


def confirm_handoffs(run: RunState) -> None:
    """Confirm all open handoffs, because the active agent took over the conversation.

    The caller commits the confirmation together with the agent's answer.
    """
    for pending in run.cursor.handoffs.settle():
        run.record("handoff", details=_details(pending, "completed"))


def _details(pending: PendingHandoff, status: StatusName) -> dict[str, Any]:
    return move_details(pending.id, pending.source, pending.target, "transferring", status)


def failure_code(exc: BaseException) -> RefusalCode:
    """The code of a rollback that happens because of `exc`."""
    if isinstance(exc, HandoffRefused):
        code: RefusalCode = exc.refusal
        return code
    return "TARGET_FAILED"


async def give_back(
    run: RunState,
    exc: BaseException,
    *,
    writes: Sequence[DocumentWrite] = (),
    release: bool = True,
) -> None:
    """Roll back the last open handoff because of `exc`, so that its source continues.

    The source gets the reason as the output of its call, and sees no items of the target. The
    session's variables are restored. Shared variables are restored unless other sessions have
    changed them since. The compensations of the target run first. Each success is stored, so that
    the rollback continues with the next compensation after a crash. `writes` are part of the
    transaction that begins the rollback. If the run started with the handoff, the run ends. The
    session is then released unless `release` is False.
    """
    # Calls that cannot be stopped come first: their effects, compensations and variables still
    # belong to the target.
    run.interruption.take_time()
    unfinished = await unfinished_calls(run.session_key, run.config.rollback_wait_s)
    run.discard()
    pending = run.cursor.handoffs.pending
    assert pending is not None
    for each in writes:
        run.write(each)
    if unfinished:
        leave_to_people(run, pending, unfinished)
    if pending.failure is None:
        pending.failure = [failure_code(exc), describe_to_others(exc)]
        # Effects outside the session are undone one by one. The begin of the rollback is stored
        # first, so that after a crash the rollback continues, and not the target.
        if pending.compensations or pending.shared_steps:
            fault_point("handoff.rollback.before_begin")
            await run.commit()
            fault_point("handoff.rollback.after_begin")
    await finish_rollback(run, release=release)


async def finish_rollback(run: RunState, *, release: bool = True) -> None:
    """Finish the rollback that has begun."""
    pending = run.cursor.handoffs.pending
    assert pending is not None
    assert pending.failure is not None
    code, reason = pending.failure
    left_over: list[str] = []
    if pending.compensations:
        run.interruption.take_time()
        # Before the variables are restored: a compensation may read what the target left.
        left_over = await compensate(run, pending, reason)
    if run.cursor.questions.open:
        await withdraw_questions(run)
    not_restored = await restore_shared(run, pending) if pending.shared_steps else []
    await _restore(run, pending)
    # The events stay in the journal for the audit; readers of the conversation skip this range.
    undoes = [pending.seq, run.next_seq - 1]
    details = {**_details(pending, "rolled_back"), "code": code, "undoes": undoes}
    if pending.kept:
        details["keeps"] = pending.kept
    if left_over:
        details["not_compensated"] = left_over
    if not_restored:
        details["not_restored"] = not_restored
    run.record("handoff", items=_output(pending, reason, left_over), details=details, error=reason)
    run.may_be_rolled_back = True
    shown = reason if run.config.trace_include_sensitive_data else REDACTED
    if left_over:
        await tell_people(run, _case(pending, shown, left_over))
    if run.config.escalate_to is not None:
        await tell_people(run, _escalation(pending, shown, run.config.escalate_to))
    is_over = pending.begins_run
    if is_over:
        # No message started the run, so the source has nothing to answer.
        run.cursor.progress.phase = "end"
    fault_point("handoff.rollback.before_commit")
    if is_over:
        await finish(run, Failed(HandoffError.code, reason), release=release)
    else:
        await run.commit()
    fault_point("handoff.rollback.after_commit")


def _output(pending: PendingHandoff, reason: str, left_over: list[str]) -> tuple[Item, ...]:
    """The output of the source's call, for which its model waits; empty if there was no call."""
    if pending.call_id is None:
        return ()
    text = (
        f"Error: the handoff to {pending.target} failed ({reason}); you have the conversation again"
    )
    if left_over:
        text = f"{text}. {not_undone(left_over)}"
    return (function_output(pending.call_id, text),)


def _case(pending: PendingHandoff, reason: str, left_over: list[str]) -> dict[str, Any]:
    """The inbox item about effects that could not be undone."""
    return {
        "kind": "rollback_failed",
        "handoff": pending.id,
        "from": pending.target,
        "subject": f"a handoff's effects could not be undone: {', '.join(left_over)}"[:500],
        "not_compensated": left_over,
        "reason": reason,
    }


def _escalation(pending: PendingHandoff, reason: str, role: str) -> dict[str, Any]:
    return {
        "kind": "escalation",
        "role": role,
        "handoff": pending.id,
        "from": pending.source,
        "subject": f"the handoff to {pending.target} was rolled back",
        "reason": reason,
    }


async def _restore(run: RunState, pending: PendingHandoff) -> None:
    run.agent = run.find_agent(pending.source)
    if pending.variables is not None:
        stored = await read_step(run.store, run.session_id, pending.variables)
        run.variables.restore(stored)
    kept = await run.store.steps(run.session_id, prefix=KEPT)
    for key, value in kept_again(kept, pending.seq, at_seq=run.next_seq).items():
        run.remember(key, value)
    run.cursor.roll_back(pending)
    run.offer.prompt_block = None
    run.memo = {}
    await _restore_view(run, pending)


async def _restore_view(run: RunState, pending: PendingHandoff) -> None:
    base: list[Item] = []
    if pending.base is not None:
        base = await read_step(run.store, run.session_id, pending.base)
    events = await events_until(run.store, run.session_id, run.stored_seq, with_items=True)
    kept = [event for event in events if event.seq < pending.seq or event.seq in pending.kept]
    run.replace_view(visible_items(kept, base=base, after=pending.after))
    run.history_length = history_length(
        kept, base=base, after=pending.after, first=run.cursor.progress.first
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """The argument of a compensation, a function that was registered with ``ctx.on_rollback``."""

    key: str
    arguments: Any
    """The `arguments` that were passed to ``ctx.on_rollback``."""
    handoff_id: str
    agent: str
    """The agent that registered the compensation."""
    reason: str
    """Why the handoff is rolled back."""
    context: Any
    """The caller's own object, as in ``ctx.context``."""
    idempotency_key: str
    """The idempotency key of the compensation. It is the same for every attempt. Pass this key to
    external systems."""
    epoch: int = 0
    """The fencing token, as in ``ctx.epoch``."""


async def compensate(run: RunState, pending: PendingHandoff, reason: str) -> list[str]:
    """Run the compensations in reverse order. Each success is stored before the next compensation
    starts.

    Returns the keys of compensations that failed in all attempts, which a person must handle.
    """
    for each in reversed(pending.compensations):
        while each.state == "open":
            await _attempt(run, pending, each, reason)
    return [each.key for each in pending.compensations if each.state == "failed"]


def leave_to_people(
    run: RunState, pending: PendingHandoff, unfinished: Sequence[CallUnderWay]
) -> None:
    """Leave the effects of calls that did not end in time to a person. The caller commits this.

    A compensation might run before the effect that it undoes. So the compensations that these calls
    registered, or the calls themselves, count as failed.
    """
    waited_s = run.config.rollback_wait_s
    for call in unfinished:
        problem = f"{call.name} was still at work after {waited_s:g} s and may yet have an effect"
        keys = call.registered()
        concerned = [each for each in pending.compensations if each.key in keys]
        if not concerned:
            concerned = [Compensation(call.name, None, agent=run.agent.name)]
            pending.compensations += concerned
        for each in concerned:
            each.state = "failed"
            run.record(
                "handoff",
                details={**_attempt_details(pending, each), "rollback_failed": True},
                error=problem,
            )


def _attempt_details(pending: PendingHandoff, each: Compensation) -> dict[str, Any]:
    return {
        "id": pending.id,
        "from": pending.source,
        "to": pending.target,
        "status": "transferring",
        "moves": [],
        "compensation": each.key,
        "attempt": each.attempts,
    }


async def _attempt(run: RunState, pending: PendingHandoff, each: Compensation, reason: str) -> None:
    each.attempts += 1
    problem: str | None = None
    try:
        function = function_of(each)
        fault_point("handoff.compensation.before_call")
        await _call(function, _rollback(run, pending, each, reason))
        fault_point("handoff.compensation.after_call")
    except asyncio.CancelledError:
        raise
    except Exception as exc:
        log_error(run, f"compensation {each.key!r}", exc)
        problem = describe(exc)
    details = _attempt_details(pending, each)
    if problem is None:
        each.state = "done"
    else:
        details["rollback_failed"] = True
        if each.attempts >= _ATTEMPTS:
            each.state = "failed"
    run.record("handoff", details=details, error=problem)
    fault_point("handoff.compensation.before_commit")
    await run.commit()
    fault_point("handoff.compensation.after_commit")
    if each.state == "open":
        # The attempt is already stored, so a crash during this pause does not lose the count.
        await asyncio.sleep(run.config.compensation_backoff_s * 2 ** (each.attempts - 1))


def _rollback(run: RunState, pending: PendingHandoff, each: Compensation, reason: str) -> Rollback:
    return Rollback(
        key=each.key,
        arguments=each.arguments,
        handoff_id=pending.id,
        agent=each.agent,
        reason=reason,
        context=run.context.context,
        idempotency_key=f"{pending.id}:{run.created_at_us:x}:{each.key}",
        epoch=run.epoch,
    )


async def _call(function: Callable[..., Any], rollback: Rollback) -> None:
    await settled(function(rollback) if takes_rollback(function) else function())


async def undo_staged(
    run: RunState, handoff_id: str, staged: list[Compensation], reason: str
) -> None:
    """Run the compensations that callbacks of a refused handoff registered, in reverse order.

    Failures are left to a person. The caller commits the result.
    """
    owner = PendingHandoff(handoff_id, run.agent.name, "", None, 0, None, 0, None)
    failed = []
    for each in reversed(staged):
        try:
            await _call(function_of(each), _rollback(run, owner, each, reason))
        except Exception as exc:
            log_error(run, f"compensation {each.key!r}", exc)
            # Only one attempt: the handoff was never made, so no rollback is stored that a later
            # process could continue.
            failed.append(f"{each.key} ({describe(exc)})")
    if failed:
        case: dict[str, Any] = {
            "kind": "rollback_failed",
            "handoff": handoff_id,
            "from": run.agent.name,
            "subject": "effects of a handoff that was refused could not be undone",
            "not_compensated": failed,
        }
        await tell_people(run, case)


async def restore_shared(run: RunState, pending: PendingHandoff) -> list[str]:
    """Restore the shared variables, and return the names of the variables that other sessions have
    changed since.

    Each variable is written separately, and marked as restored by this session. So after a crash no
    variable is restored twice.
    """
    undoing: dict[tuple[Any, str, str | None], list[Any] | None] = {}
    for key in pending.shared_steps:
        for scope, name, before, *where in await read_step(run.store, run.session_id, key):
            # The first of several steps has the oldest value.
            undoing.setdefault((scope, name, _place(run, scope, where)), before)
    left = []
    for (scope, name, place), before in undoing.items():
        if place is None or not await _restored(run, place, name, before):
            left.append(f"{scope}:{name}")
    await run.load_shared_variables()
    return left


def _place(run: RunState, scope: Any, where: list[str]) -> str | None:
    """The collection of the variable. It is stored with newer handoffs, because the resumed run may
    belong to another app."""
    if where:
        return where[0]
    shared = run.variables.shared.get(scope)
    return None if shared is None else shared.collection


async def _restored(run: RunState, collection: str, name: str, before: list[Any] | None) -> bool:
    """Restore one variable, and return True; or False if another session has changed it."""
    value = GONE if before is None else before[0]
    while True:
        document = await run.store.get_document(collection, name)
        if document is None:
            return before is None
        body = document.body
        if body.get("session") != run.session_id:
            return bool(body.get("undone") == run.session_id or value_of(document) == value)
        undone = {**body_of(value), "undone": run.session_id}
        try:
            await run.store.write_documents(
                [write_of(collection, name, undone, version=document.version)]
            )
        except StaleDocument:
            continue
        return True
