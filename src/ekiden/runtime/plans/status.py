"""Where a stored plan stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.conversation.quotes import last_request
from ekiden.core.errors import OutOfBudgetError, UserError
from ekiden.core.events import Event
from ekiden.core.plan import MultiAgentState
from ekiden.core.runs import OutOfBudget
from ekiden.runtime.outcome import outcome_told
from ekiden.runtime.state.cursor import Cursor
from ekiden.sessions import said
from ekiden.storage.base import Store
from ekiden.supervisor import state_of

_PLAN = ".s.plan"
_MOST_LIVES = 100
"""So often a run is looked at that ended and was resumed."""


async def plan_state(store: Store, session_id: str) -> MultiAgentState:
    """The plan of the last run of the session, with its progress. Raises `SessionNotFound`.

    Raises `UserError` if that run had no supervisor. For example::

        state = await plan_state(store, "customer-7")
        print(state.phase, [task.agent for task in state.pending_tasks])
        for result in state.results:
            print(result.agent, result.data if result.success else result.error)
    """
    await store.open()
    row = await store.get(session_id)
    cursor = Cursor.from_json(row.cursor)
    events = [each for each in await store.events(session_id) if each.seq >= cursor.progress.first]
    steps = await store.steps(session_id, prefix=f"{cursor.progress.run}.")
    plans = sorted((key for key in steps if key.endswith(_PLAN)), key=_turn)
    if not plans and not any(event.type == "task" for event in events):
        problem = _error(events)
        if problem is None:
            raise UserError(f"the last run of session {session_id!r} had no plan")
    prefix = plans[-1].removesuffix("plan") if plans else None
    return state_of(
        last_request([item for event in said(events) for item in event.items]),
        session_id=session_id,
        decomposition=None if prefix is None else steps[f"{prefix}plan"],
        results=()
        if prefix is None
        else _results(steps, prefix, len(steps[f"{prefix}plan"]["tasks"])),
        started=() if prefix is None else _started(steps, prefix),
        final_response=_answer(events) if row.outcome == "done" else None,
        error=_error(events),
    )


def _turn(key: str) -> int:
    return int(key.split(".")[1])


def _results(steps: Mapping[str, Any], first: str, count: int) -> list[Mapping[str, Any]]:
    """The results of all tasks, in the order in which they came: of those that were tried again in
    a later life of the run, the last."""
    found: dict[int, tuple[int, Mapping[str, Any]]] = {}
    for life in range(_MOST_LIVES):
        prefix = first if life == 0 else f"{first[:-1]}{life}."
        for place in range(count):
            stored = steps.get(f"{prefix}{place}.result")
            if stored is None:
                continue
            number, result, attempt = stored
            if attempt:
                answer = steps[f"{prefix}{place}.try.{attempt}"]["answer"] or {}
                payload = answer.get("payload")
                result = {**result, "data": "" if payload is None else payload}
            found[place] = (number, result)
    return [result for _, result in sorted(found.values(), key=lambda each: each[0])]


def _started(steps: Mapping[str, Any], prefix: str) -> list[str]:
    return [key for key in steps if key.startswith(prefix) and key.endswith(".began")]


def _answer(events: Sequence[Event]) -> str | None:
    texts = [
        text_of(item)
        for event in said(events)
        for item in event.items
        if is_message(item) and item.get("role") == "assistant"
    ]
    return texts[-1] if texts else None


def _error(events: Sequence[Event]) -> str | None:
    if not events:
        return None
    last = events[-1]
    if last.type == "agent_error":
        return last.error
    outcome = outcome_told(last)
    return (
        str(OutOfBudgetError(outcome.limit, outcome.allowed, outcome.used))
        if isinstance(outcome, OutOfBudget)
        else None
    )
