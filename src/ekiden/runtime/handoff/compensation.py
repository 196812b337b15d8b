"""Undoing what was done while a handoff was open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.faults import fault_point
from ekiden.runtime.outcome import describe, log_error
from ekiden.runtime.questions.inboxes import tell_people
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.cursor import Compensation, PendingHandoff
from ekiden.runtime.state.registration import forget, found, takes_rollback
from ekiden.runtime.state.state import RunState
from ekiden.tools.under_way import CallUnderWay

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """The argument of a function registered with ``ctx.on_rollback``."""

    key: str
    arguments: Any
    """As they were registered."""
    handoff_id: str
    agent: str
    """Who did what is to be undone."""
    reason: str
    """Why the handoff is rolled back."""
    context: Any
    """The caller's own object, as in ``ctx.context``."""
    idempotency_key: str
    """The same when the compensation is made again: pass it on."""
    epoch: int = 0
    """The fencing token, as in ``ctx.epoch``."""


async def compensate(run: RunState, pending: PendingHandoff, reason: str) -> list[str]:
    """Undo in reverse order; each success is stored before the next one begins.

    Gives the keys of those that failed for good: a person has to look at them.
    """
    for each in reversed(pending.compensations):
        while each.state == "open":
            await _attempt(run, pending, each, reason)
    return [each.key for each in pending.compensations if each.state == "failed"]


def leave_to_people(
    run: RunState, pending: PendingHandoff, unfinished: Sequence[CallUnderWay]
) -> None:
    """Calls that did not end in time may have their effect later: whatever undoes them would come
    too early. The compensations that they registered, or the calls themselves, are a case for a
    person; the caller commits it."""
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
                details={**_told(pending, each), "rollback_failed": True},
                error=problem,
            )


def _told(pending: PendingHandoff, each: Compensation) -> dict[str, Any]:
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
        function = found(pending, each)
        fault_point("handoff.compensation.before_call")
        await _call(function, _rollback(run, pending, each, reason))
        fault_point("handoff.compensation.after_call")
    except asyncio.CancelledError:
        raise
    except Exception as exc:
        log_error(run, f"compensation {each.key!r}", exc)
        problem = describe(exc)
    details = _told(pending, each)
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
    """Undo what the callbacks of a handoff did that was refused after all, in reverse order.

    What cannot be undone is a case for a person; the caller commits it.
    """
    owner = PendingHandoff(handoff_id, run.agent.name, "", None, 0, None, 0, None)
    failed = []
    for each in reversed(staged):
        try:
            await _call(found(owner, each), _rollback(run, owner, each, reason))
        except Exception as exc:
            log_error(run, f"compensation {each.key!r}", exc)
            failed.append(f"{each.key} ({describe(exc)})")
    owner.compensations = staged
    forget(owner)
    if failed:
        case: dict[str, Any] = {
            "kind": "rollback_failed",
            "handoff": handoff_id,
            "from": run.agent.name,
            "subject": "effects of a handoff that was refused could not be undone",
            "not_compensated": failed,
        }
        await tell_people(run, case)
