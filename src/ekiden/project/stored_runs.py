"""Reads stored runs: their status, open questions and events."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from ekiden.core.conversation.model import Usage, is_message, text_of
from ekiden.core.errors import OutOfBudgetError, SessionError
from ekiden.core.errors.server import RunNotFound
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import (
    ACTIVE,
    Done,
    OutOfBudget,
    ReachedLimit,
    Run,
    RunError,
    RunStatus,
    parse_run_id,
    run_id_of,
)
from ekiden.runtime.history.replay import beginning, runs_begun
from ekiden.runtime.outcome import recorded_outcome
from ekiden.runtime.questions.questions import read_item
from ekiden.runtime.state.cursor import Cursor, open_questions
from ekiden.runtime.state.state import RunState
from ekiden.sessions import is_transfer, said
from ekiden.sessions.conclusion import recorded_conclusion
from ekiden.sessions.conversation import is_model_call
from ekiden.sessions.session import run_number
from ekiden.storage.base import SessionRow, Store

ENDINGS = ("agent_complete", "agent_error")
"""The types of the events at the end of a run, and at the end of an agent's part in a run."""
_LOOK_EVERY_S = 1.0


async def questions_to_people(store: Store, session_id: str) -> list[InboxItem]:
    """The open inbox items that the session waits for, directly or through agents that it asked.

    The result is empty if the session does not wait, or waits only for agents.
    """
    found: dict[str, InboxItem] = {}
    seen: set[str] = set()
    todo = [session_id]
    while todo:
        session = todo.pop(0)
        if session in seen:
            continue
        seen.add(session)
        try:
            row = await store.get(session)
        except SessionError:
            continue
        for question in open_questions(row).values():
            if question.session is not None:
                todo.append(question.session)
            item = await read_item(store, question.id) if question.kind == "inbox" else None
            if item is not None and item.status == "open":
                found[item.id] = item
    return list(found.values())


async def run_status(store: Store, row: SessionRow) -> RunStatus:
    """The status of the session's last run. It is `running` while agents work on its queries."""
    status = _own_status(row)
    if status == "waiting" and open_questions(row):
        return "waiting" if await questions_to_people(store, row.id) else "running"
    return status


def _own_status(row: SessionRow) -> RunStatus:
    if row.owner is not None and row.outcome is None:
        return "running"
    if row.status == "ready":
        return "queued" if row.owner is None else "running"
    if row.status == "waiting":
        return "waiting"
    match row.outcome:
        case "done" | "refused" | "failed" | "out_of_budget" | "waiting":
            return row.outcome
        case _:
            return "stopped"


async def until_free(
    store: Store, session_id: str, *, number: int | None = None, timeout_s: float = math.inf
) -> None:
    """Wait until the session, or its run with this number, is not active, or until the timeout.
    Raises `SessionNotFound`."""
    clock = asyncio.get_running_loop()
    deadline = clock.time() + timeout_s
    while (left_s := deadline - clock.time()) > 0:
        row = await store.get(session_id)
        if number not in (None, run_number(row)) or await run_status(store, row) not in ACTIVE:
            return
        await store.wait_for_change(min(left_s, _LOOK_EVERY_S))


async def run_range(store: Store, run_id: str) -> tuple[int, int | None]:
    """Return the numbers of the first and the last event of the run. For the session's last run,
    the number of the last event is `None`. Raises `RunNotFound` and `SessionNotFound`."""
    session_id, number = parse_run_id(run_id)
    cursor = Cursor.from_json((await store.get(session_id)).cursor)
    if not 1 <= number <= cursor.progress.run:
        raise RunNotFound(run_id)
    if number == cursor.progress.run:
        return max(cursor.progress.first, 1), None
    events = _events_of(number, list(await store.events(session_id)))
    if not events:
        raise RunNotFound(run_id)
    return events[0].seq, events[-1].seq


async def read_run(store: Store, run_id: str) -> Run:
    """The current state of the run. Raises `RunNotFound` and `SessionNotFound`."""
    session_id, number = parse_run_id(run_id)
    row = await store.get(session_id)
    cursor = Cursor.from_json(row.cursor)
    if not 1 <= number <= cursor.progress.run:
        raise RunNotFound(run_id)
    if number != cursor.progress.run:
        return _earlier_run(row, number, _events_of(number, list(await store.events(session_id))))
    events = await store.events(session_id, after=max(cursor.progress.first - 1, 0))
    status = await run_status(store, row)
    questions = await questions_to_people(store, session_id) if cursor.questions.open else ()
    return Run(
        run_id=run_id_of(row.id, number),
        session_id=row.id,
        status=status,
        agent=row.agent,
        output=answer_of(events) if status == "done" else None,
        outcome=row.outcome,
        conclusion=recorded_conclusion(events) if status not in ACTIVE else None,
        chain=tuple(cursor.handoffs.chain),
        handoffs=_handoffs(events),
        usage=cursor.budget.usage,
        error=_error(events),
        reached=_reached(events) if status == "out_of_budget" else None,
        questions=tuple(item.id for item in questions),
        started_at=_started_at(row, events),
        updated_at=_updated_at(row, events),
    )


def done_run(run: RunState, events: Sequence[Event]) -> Run | None:
    """Create the record of a run that has just ended, equal to the result of `read_run`.

    Returns `None` if the record must be read from the store, because the run did not end with a
    text, or because `events` are not complete.
    """
    cursor, outcome, output = run.cursor, run.outcome, answer_of(events)
    if not isinstance(outcome, Done) or output is None or outcome.output != output:
        return None
    numbers = range(cursor.progress.first, run.next_seq)
    if cursor.questions.open or [event.seq for event in events] != [*numbers]:
        return None
    return Run(
        run_id=run_id_of(run.session_id, cursor.progress.run),
        session_id=run.session_id,
        status="done",
        agent=run.agent.name,
        output=output,
        outcome="done",
        conclusion=recorded_conclusion(events),
        chain=tuple(cursor.handoffs.chain),
        handoffs=_handoffs(events),
        usage=cursor.budget.usage,
        error=_error(events),
        started_at=events[0].at_us / 1e6,
        updated_at=events[-1].at_us / 1e6,
    )


def _earlier_run(row: SessionRow, number: int, events: Sequence[Event]) -> Run:
    """The record of a run that is not the session's last run."""
    ending = next((event for event in reversed(events) if event.type in ENDINGS), None)
    outcome = _outcome(ending)
    if outcome == "waiting":  # A later message ended the wait.
        outcome = "stopped"
    chain = ["user", *([events[0].agent] if events and events[0].agent else [])]
    chain += [event.details["to"] for event in events if is_transfer(event) and event.details]
    return Run(
        run_id=run_id_of(row.id, number),
        session_id=row.id,
        status=outcome or "stopped",
        agent=chain[-1] if len(chain) > 1 else row.agent,
        output=answer_of(events) if outcome == "done" else None,
        outcome=None if outcome == "stopped" else outcome,
        conclusion="stopped" if outcome == "stopped" else recorded_conclusion(events),
        chain=tuple(chain),
        handoffs=_handoffs(events),
        usage=_usage(events),
        error=_error(events),
        reached=_reached(events) if outcome == "out_of_budget" else None,
        started_at=_started_at(row, events),
        updated_at=_updated_at(row, events),
    )


def _handoffs(events: Sequence[Event]) -> tuple[str, ...]:
    return tuple(event.details["id"] for event in events if is_transfer(event) and event.details)


def _reached(events: Sequence[Event]) -> ReachedLimit | None:
    """The limit in the last event of a run that is out of budget."""
    ending = next((event for event in reversed(events) if event.type in ENDINGS), None)
    outcome = None if ending is None else recorded_outcome(ending)
    if not isinstance(outcome, OutOfBudget):
        return None
    return ReachedLimit(
        limit=outcome.limit, allowed=outcome.allowed, used=outcome.used, scope=outcome.scope
    )


def _error(events: Sequence[Event]) -> RunError | None:
    reached = _reached(events)
    if reached is not None:
        exc = OutOfBudgetError(reached.limit, reached.allowed, reached.used, scope=reached.scope)
        return RunError(code=exc.code, message=str(exc))
    failed = next((event for event in reversed(events) if event.type == "agent_error"), None)
    if failed is None or _outcome(failed) in ("done", "waiting"):
        return None
    code = (failed.details or {}).get("code") or f"run.{_outcome(failed)}"
    return RunError(code=code, message=failed.error or "the run failed")


def _started_at(row: SessionRow, events: Sequence[Event]) -> float:
    return events[0].at_us / 1e6 if events else row.created_at_us / 1e6


def _updated_at(row: SessionRow, events: Sequence[Event]) -> float:
    return events[-1].at_us / 1e6 if events else row.updated_at_us / 1e6


def answer_of(events: Sequence[Event]) -> str | None:
    """The text of the last answer; `None` if there is no answer."""
    answer: str | None = None
    for event in said(events):
        texts = [
            text_of(item)
            for item in event.items
            if is_message(item) and item.get("role") == "assistant"
        ]
        if any(texts):
            answer = "\n".join(filter(None, texts))
    return answer


def _outcome(ending: Event | None) -> RunStatus | None:
    if ending is None:
        return None
    told = (ending.details or {}).get("outcome")
    if told in ("refused", "failed", "out_of_budget", "waiting"):
        found: RunStatus = told
        return found
    if told == "cancelled":
        return "stopped"
    return "failed" if ending.type == "agent_error" else "done"


def _usage(events: Sequence[Event]) -> Usage:
    total = Usage()
    for event in events:
        if is_model_call(event):
            total.add(Usage.from_json((event.details or {}).get("usage") or {}))
    return total


def _events_of(number: int, events: list[Event]) -> list[Event]:
    """The events of an earlier run: from its beginning up to the beginning of the next run. The
    number of a run is its place among the runs that the session has begun."""
    begun = runs_begun(events)[number - 1 : number + 1]
    if len(begun) < 2:
        return []
    first, last = (beginning(events, event) for event in begun)
    return events[first - 1 : last - 1]
