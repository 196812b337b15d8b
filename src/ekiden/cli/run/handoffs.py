"""Reports of handoffs that a person requests on the command line."""

from __future__ import annotations

from ekiden.api.handoffs import CancelledHandoff, HandoffEnd
from ekiden.cli.exits import Exit, exit_for_outcome, exit_for_refusal
from ekiden.cli.terminal.output import complain, emit, note, say, show
from ekiden.core.documents import to_json
from ekiden.core.errors import HandoffSettled, UnknownAgent
from ekiden.core.handoffs.handoff import DEFAULT_TIMEOUT_S
from ekiden.core.values import dumps
from ekiden.handoff.records.query import HandoffQuery, open_requests
from ekiden.handoff.records.records import records_of
from ekiden.runtime import RunResult
from ekiden.storage.base import SessionRow, Store

_REFUSED = "handoff.refused"
_UNDONE = "handoff.rolled_back"


def tell_busy(row: SessionRow, timeout_s: float | None, *, as_json: bool) -> None:
    """Print that the process that runs the session is asked to hand it over."""
    if row.owner is None:
        return
    longest_s = timeout_s or DEFAULT_TIMEOUT_S
    facts = {"session_id": row.id, "owner": row.owner, "at_most_s": longest_s}
    note(
        dumps({"waiting": facts})
        if as_json
        else f"session {row.id} is being run by {row.owner}, which is asked to hand it over, "
        f"at most {longest_s:g} s …"
    )


async def stopped(store: Store, session_id: str, *, to: str, by: str, how_to_resume: str) -> str:
    """The message after Ctrl-C: the request that is still open, or how to resume."""
    waiting = await open_requests(
        store, HandoffQuery(session_id=session_id, target=to, status="initiated")
    )
    for record in reversed(waiting):
        if record.by.name == by:
            return (
                "stopped; the handoff request is still open, withdraw it with: ekiden handoff "
                f"cancel {record.id}"
            )
    row = await store.get(session_id)
    if row.outcome is not None or not how_to_resume:
        return "stopped; the session is kept"
    return f"stopped; the session is kept, continue with: {how_to_resume}"


def report_start(end: HandoffEnd, *, hint: str, as_json: bool) -> int:
    """Report a requested handoff, and return the exit code.

    `hint` is the command that resumes the session.
    """
    if as_json:
        emit(to_json(end))
    else:
        say(_line(end))
        if end.output is not None:
            say(f"{end.speaker}: {end.output}")
    if end.error is not None:
        _complain_of(end.status, end.error.code, end.error.message, end.id, as_json=as_json)
        return exit_for_refusal(end.error.code)
    if end.problem is not None:
        message = end.problem.message
        text = f"{message}; continue with: {hint}" if hint else message
        complain(end.problem.code, text, as_json=as_json)
        return exit_for_outcome(end.outcome or "failed")
    if not as_json and end.standing == "waiting":
        note(f"the session waits for people: ekiden handoff answer {end.session_id} TEXT")
    elif not as_json and end.completed_at is None and end.standing != "running" and hint:
        note(f"{end.target} has the session but has not worked on it yet; continue with: {hint}")
    return Exit.OK


def report_cancel(cancelled: CancelledHandoff, *, as_json: bool) -> int:
    """Report the cancellation of a handoff, and return the exit code."""
    show(cancelled, _line(cancelled), as_json=as_json)
    if cancelled.error is not None and cancelled.error.code == "CANCELLED":
        return Exit.OK
    if cancelled.is_pending:
        message = "the process that runs the session did not roll it back in time; try again"
        complain("session.busy", message, as_json=as_json)
        return Exit.BUSY
    message = (
        f"handoff {cancelled.id} is settled ({cancelled.status}) and is unchanged; hand the "
        "session on with `ekiden handoff start`"
    )
    complain(HandoffSettled.code, message, as_json=as_json, status=cancelled.status)
    return Exit.FAILED


def report_unknown(error: UnknownAgent, *, as_json: bool) -> Exit:
    """Report that the target agent does not exist; returns the exit code."""
    refusal = error.refusal or ""
    complain(error.code, str(error), as_json=as_json, refusal=refusal, handoff=error.handoff_id)
    return exit_for_refusal(refusal)


def tell_refusals(result: RunResult, *, as_json: bool) -> None:
    """Print why handoffs of the run were refused."""
    for record in records_of(result.events):
        if record.status == "failed":
            error, handoff_id = record.result().error, record.id
            assert error is not None
            _complain_of(record.status, error.code, error.message, handoff_id, as_json=as_json)


def _complain_of(status: str, refusal: str, message: str, handoff: str, *, as_json: bool) -> None:
    """Print why a handoff was refused or rolled back."""
    code = _REFUSED if status == "failed" else _UNDONE
    complain(code, f"{refusal}: {message}", as_json=as_json, refusal=refusal, handoff=handoff)


def _line(handoff: HandoffEnd | CancelledHandoff) -> str:
    return f"{handoff.id}: {handoff.source} → {handoff.target} {handoff.status}"
