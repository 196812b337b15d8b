"""Stepping back: a session that stands again where it stood after an earlier event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.events import Event
from ekiden.core.values import Value
from ekiden.runtime.history.deletion import withdraw_item
from ekiden.runtime.history.fork import confirmations
from ekiden.runtime.history.point_in_time import Past, past_of
from ekiden.runtime.history.replay import runs_begun
from ekiden.runtime.questions.cancel_question import abandon, timer_end
from ekiden.runtime.state.budget import shared_budget_removals
from ekiden.runtime.state.cursor import Cursor, OpenQuestion, open_questions
from ekiden.runtime.state.leases import owner_name
from ekiden.runtime.state.snapshot import KEPT, REWOUND, kept_again, snapshot_key, snapshot_of
from ekiden.sessions.state import STATE, told_state
from ekiden.storage.base import Claim, Commit, MessageSettle, SessionPatch, SessionRow, Store
from ekiden.storage.chain import chained

_LEASE_S = 30.0
_REASON = "the session was rewound to before the question"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind(Value):
    """The result of a rewind."""

    session_id: str
    to_seq: int
    """The last event that still counts."""
    undone: int
    """How many events no longer count; with 0 nothing was stored."""
    agent: str
    """The agent that has the session now."""

    def __str__(self) -> str:
        if not self.undone:
            return f"{self.session_id} is unchanged: event {self.to_seq} is its last"
        many = "1 later event" if self.undone == 1 else f"{self.undone} later events"
        return (
            f"rewound {self.session_id} to event {self.to_seq}, agent {self.agent}; {many} undone. "
            "Effects of tools outside the session are not rolled back."
        )


async def rewind_session(store: Store, session_id: str, *, to_seq: int) -> Rewind:
    """Rewind the session to after event `to_seq`, or after what was stored with it.

    Nothing is deleted: an event records which ones no longer count, and a rewind to before that
    event undoes the rewind. The session's agent, view, variables and unfinished run are restored,
    as with `fork_session`; inside an agent that is code, to before its turn. Open questions to
    people and agents are withdrawn, and approvals for calls that were unanswered at that point are
    asked for again: an approval is for one call. Earlier "always" approvals still apply. Effects of
    tools outside are not rolled back. A crash leaves the session unchanged, or its questions
    withdrawn.

    Raises `SessionNotFound`, `SessionBusy` while it is running, and `UserError` if there is no such
    event, or its state is unknown. For example::

        print(await rewind_session(store, "customer-42", to_seq=7))
    """
    await store.open()
    claim, row = await store.claim(session_id, owner=owner_name(), lease_s=_LEASE_S)
    try:
        past = await _point(store, row, to_seq)
        undone = row.seq - past.seq
        asks: list[OpenQuestion] = []
        if undone:
            asks = list(open_questions(row).values())
            await _step_back(store, claim, row, past, asks)
        else:
            await store.release(claim)
    except BaseException:
        await store.release(claim)
        raise
    for question in asks:
        if question.session is not None:
            await abandon(store, question.session, question.id)
    return Rewind(session_id=row.id, to_seq=past.seq, undone=undone, agent=past.agent)


async def _point(store: Store, row: SessionRow, seq: int) -> Past:
    """Where the session will stand: never in the middle of a turn of code, whose calls are known
    by keys that a second time cannot have."""
    past = await past_of(store, row, seq)
    if past.seq == row.seq:
        return past
    turn = past.cursor.progress.step_key("c")
    made = [event.seq for event in past.events if event.step and event.step.startswith(turn)]
    return await past_of(store, row, made[0] - 1) if made else past


async def _step_back(
    store: Store, claim: Claim, row: SessionRow, past: Past, asks: Sequence[OpenQuestion]
) -> None:
    events = list(await store.events(row.id, limit=row.seq))
    run = len(runs_begun(events)) + 1
    steps = _steps_again(past, run)
    kept = await store.steps(row.id, prefix=KEPT)
    steps |= kept_again(kept, past.seq, at_seq=row.seq + 1)
    cursor, standing = past.cursor, Cursor.from_json(row.cursor)
    cursor.progress.run, cursor.handoffs.count = (
        run,
        max(standing.handoffs.count, cursor.handoffs.count),
    )
    shared_budgets = await shared_budget_removals(
        store, standing.budget.shared_budget, standing.budget.levels
    )
    told = await _told(store, row, past, events)
    cursor.audit = standing.audit
    if standing.audit.head:
        told, cursor.audit = chained(told, standing.audit)
    after: dict[str, Any] = {
        "agent": past.agent,
        "outcome": past.outcome,
        "cursor": cursor.to_json(),
        "variables": past.variables,
    }
    steps[snapshot_key(run)] = {**snapshot_of(row), REWOUND: after}
    for question in asks:
        if question.kind == "inbox":
            await withdraw_item(store, question, by=row.agent, reason=_REASON)
    queries = [question for question in asks if question.kind == "query"]
    await store.commit(
        claim,
        Commit(
            patch=SessionPatch(
                agent=past.agent,
                status="idle",
                outcome=past.outcome,
                cursor=after["cursor"],
                variables=past.variables,
            ),
            events=told,
            steps=steps,
            documents=[*(timer_end(question) for question in queries), *shared_budgets],
            settles=[MessageSettle(key=question.id, state="cancelled") for question in queries],
            wakes=[question.session for question in queries if question.session is not None],
            release=True,
        ),
    )


def _steps_again(past: Past, run: int) -> dict[str, Any]:
    """What is remembered of the turn under way, under the keys that the run has from now on: none
    is used twice."""
    prefix = past.cursor.progress.step_key("")
    return {
        f"{run}.{key.partition('.')[2]}": value
        for key, value in past.steps.items()
        if key.startswith(prefix) and past.cursor.progress.phase != "end"
    }


async def _told(store: Store, row: SessionRow, past: Past, events: Sequence[Event]) -> list[Event]:
    """The events that the step back consists of."""
    details: dict[str, Any] = {"rewound": past.seq, "undoes": [past.seq + 1, row.seq]}
    change = _change(row.variables, past.variables)
    if change:
        if row.variables and not any(told_state(event) for event in events):
            change["base"] = dict(row.variables)
        details[STATE] = change
    at_us = await store.now_us()
    back = Event(
        session_id=row.id,
        seq=row.seq + 1,
        type="message",
        at_us=at_us,
        agent=past.agent,
        details=details,
    )
    more = confirmations(past.confirmed, row.id, back.seq, agent=past.agent, at_us=at_us)
    return [back, *more]


def _change(now: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    change: dict[str, Any] = {}
    changed = {name: value for name, value in then.items() if now.get(name, change) != value}
    deleted = [name for name in now if name not in then]
    if changed:
        change["set"] = changed
    if deleted:
        change["deleted"] = deleted
    return change
