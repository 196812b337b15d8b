"""Forks a session from an earlier point, and rewinds a session to an earlier point."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ekiden.core.documents import Value
from ekiden.core.errors import SessionError, StoreError, UserError
from ekiden.core.events import Event
from ekiden.core.values import owner_name
from ekiden.handoff.requests import move_details
from ekiden.runtime.history.point_in_time import PointInTime, point_in_time
from ekiden.runtime.history.replay import beginning, runs_begun
from ekiden.runtime.questions.cancel_question import abandon, withdraw_stored
from ekiden.runtime.questions.sessions import ANSWERS, FIXED_LIMITS, OWN_LIMITS
from ekiden.runtime.state.budget import shared_budget_removals
from ekiden.runtime.state.calls import to_the_end
from ekiden.runtime.state.cursor import Cursor, OpenQuestion, open_questions
from ekiden.runtime.state.cursor_handoffs import PendingHandoff
from ekiden.runtime.state.step_record import (
    KEPT,
    REWOUND,
    is_snapshot_key,
    kept_again,
    snapshot_key,
    snapshot_of,
    snapshot_without_grants,
)
from ekiden.sessions import Session, current_events, is_rewind
from ekiden.sessions.request_parts import read_shared, stored_for
from ekiden.sessions.state import STATE, changes_between, recorded_changes
from ekiden.storage.base import Claim, Commit, NewSession, SessionPatch, SessionRow, Store
from ekiden.storage.chain import chained

_LEASE_S = 30.0
NOT_OF_A_BRANCH = (ANSWERS, FIXED_LIMITS, OWN_LIMITS, "asked_in", "purses")
"""The keys of a session's meta that connect the session with another one that waits for its
answer."""


async def fork_session(
    store: Store,
    session_id: str,
    *,
    before_seq: int | None = None,
    at_seq: int | None = None,
    new_id: str | None = None,
) -> Session:
    """Create a new session that continues from an earlier point of `session_id`.

    Give the number of an event in one of two ways:

    * `before_seq`: the new session continues from before this event, which must have a message;
    * `at_seq`: it continues from after this event and all events that were stored together with it.
      For example, a turn is stored together with all outputs of its tools, and an answer together
      with the end of its run.

    `meta["forked_at"]` of the new session is `before_seq`, or the number of the last copied event.
    The original session is unchanged, and may be running. The new session continues as if later
    events had never happened: it has the same agent, visible conversation, variables and unfinished
    run. `Runner.resume` continues the run. Unanswered tool calls are made again, and need a new
    approval, because an approval is valid for one call. "Always" approvals of the original session
    do not apply. Unconfirmed handoffs count as confirmed. Queries to other agents that have no
    answer yet are sent again. Finished tasks of a plan are not repeated. Variables of the user and
    of the app are not copied, because all sessions of the user or the app share them.

    A fork before the first message stores nothing: the first run creates the session, as usual. A
    crash during the call leaves at most an empty session.

    Raises `SessionNotFound`, and `SessionExists` if a session with the id `new_id` exists. Raises
    `UserError` if the event does not exist, or if the session's state at that point is unknown
    because an older version of Ekiden stored it. For example::

        branch = await fork_session(store, "customer-42", before_seq=7)
        await Runner.run(team, "Let me put it differently.", session=branch)
    """
    if (before_seq is None) == (at_seq is None):
        raise UserError("choose where to fork: give before_seq= (a message) or at_seq= (any event)")
    await store.open()
    row = await store.get(session_id)
    if before_seq is not None:
        at_seq = await _before_message(store, row, before_seq)
    branch = Session(new_id, store=store, user_id=row.user_id, priority=row.priority)
    branch.meta = {
        **{name: value for name, value in row.meta.items() if name not in NOT_OF_A_BRANCH},
        "forked_from": session_id,
        "forked_at": before_seq,
    }
    if not at_seq:
        if before_seq is None:
            raise UserError(f"session {session_id!r} has no event {at_seq}: events begin with 1")
        return branch
    past = await point_in_time(store, row, at_seq)
    if before_seq is None:
        branch.meta["forked_at"] = past.seq
    content = await _content(store, past, branch.session_id)
    await store_anew(store, branch.draft(past.agent), content)
    return branch


async def _content(store: Store, past: PointInTime, session_id: str) -> Commit:
    """The content of the new session."""
    events = [moved(event, session_id) for event in past.events]
    events += confirmations(
        past.confirmed, session_id, past.seq, agent=past.agent, at_us=await store.now_us()
    )
    cursor = past.cursor
    cursor.questions.always = []
    if cursor.audit.head or any("hash" in (event.details or {}) for event in events):
        events, cursor.audit = chained(events)
    return Commit(
        patch=SessionPatch(
            agent=past.agent,
            status="idle",
            outcome=past.outcome,
            conclusion=past.conclusion,
            cursor=cursor.to_json(),
            variables=past.variables,
        ),
        events=events,
        # "Always" approvals do not apply in a fork, so its snapshots must not have them either.
        steps={
            key: snapshot_without_grants(value) if is_snapshot_key(key) else value
            for key, value in past.steps.items()
        },
        documents=stored_for(session_id, await read_shared(store, past.events)),
        release=True,
    )


def confirmations(
    pending: Iterable[PendingHandoff], session_id: str, after: int, *, agent: str, at_us: int
) -> list[Event]:
    """Events that confirm these handoffs. Their numbers follow `after`."""
    return [
        Event(
            session_id=session_id,
            seq=seq,
            type="handoff",
            at_us=at_us,
            agent=agent,
            details=move_details(each.id, each.source, each.target, "transferring", "completed"),
        )
        for seq, each in enumerate(pending, after + 1)
    ]


def messages_to(events: Sequence[Event]) -> list[Event]:
    """The messages that began a run and were not undone. Their numbers are the possible values of
    `before_seq`."""
    return [
        event
        for event in runs_begun(current_events(events))
        if event.type == "message" and not is_rewind(event)
    ]


async def _before_message(store: Store, row: SessionRow, seq: Any) -> int:
    """The number of the last event before the run of this message. Raises `UserError` if the event
    is not a message."""
    if isinstance(seq, int) and seq >= 1:
        events = list(await store.events(row.id, limit=seq))
        begun = runs_begun(events)[-1:]
        if any(each.seq == seq and each.type == "message" and each.items for each in begun):
            return beginning(events, begun[0]) - 1
    raise UserError(
        f"event {seq} of session {row.id!r} is not a message to it: go back to one that is, "
        "such as event 1"
    )


async def store_anew(store: Store, draft: NewSession, content: Commit) -> None:
    """Create the session with its content. A failure leaves no session. Raises `SessionExists`."""
    await store.create(draft)
    claim: Claim | None = None
    try:
        claim, _ = await store.claim(draft.id, owner=owner_name(), lease_s=_LEASE_S)
        await store.commit(claim, content)
    except BaseException:
        await to_the_end(_remove(store, draft.id, claim))
        raise


async def _remove(store: Store, session_id: str, claim: Claim | None) -> None:
    with suppress(SessionError, StoreError):
        if claim is not None:
            await store.release(claim)
        await store.delete(session_id)


def moved(event: Event, session_id: str) -> Event:
    """A copy of the event for another session."""
    return Event(
        session_id=session_id,
        seq=event.seq,
        type=event.type,
        at_us=event.at_us,
        agent=event.agent,
        step=event.step,
        duration_us=event.duration_us,
        details=event.details,
        items=event.items,
        error=event.error,
    )


_REASON = "the session was rewound to before the question"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind(Value):
    """The result of a rewind."""

    session_id: str
    to_seq: int
    """The number of the last event that is still valid."""
    undone: int
    """The number of events that the rewind made invalid. If it is 0, nothing was stored."""
    agent: str
    """The active agent of the session after the rewind."""

    def __str__(self) -> str:
        if not self.undone:
            return f"{self.session_id} is unchanged: event {self.to_seq} is its last"
        many = "1 later event" if self.undone == 1 else f"{self.undone} later events"
        return (
            f"rewound {self.session_id} to event {self.to_seq}, agent {self.agent}; {many} undone. "
            "Effects of tools outside the session are not rolled back."
        )


async def rewind_session(store: Store, session_id: str, *, to_seq: int) -> Rewind:
    """Rewind the session to the point after event `to_seq` and the events stored together with it.

    Nothing is deleted: a new event records which events no longer count. To undo the rewind, rewind
    to a point before this new event. The session's agent, visible conversation, variables and
    unfinished run are restored, as with `fork_session`. If the point is inside the turn of a code
    agent, the session is rewound to the point before this turn. Open questions to people and agents
    are withdrawn. Tool calls that were unanswered at that point need a new approval, because an
    approval is valid for one call. Earlier "always" approvals still apply. Side effects of tools
    are not rolled back. If the process crashes during the call, the session is not rewound, but its
    questions may already be withdrawn.

    Raises `SessionNotFound`, and `SessionBusy` if the session is running. Raises `UserError` if the
    event does not exist, or if the session's state after the event is unknown because an older
    version of Ekiden stored it. For example::

        print(await rewind_session(store, "customer-42", to_seq=7))
    """
    await store.open()
    claim, row = await store.claim(session_id, owner=owner_name(), lease_s=_LEASE_S)
    try:
        past = await _rewind_point(store, row, to_seq)
        undone = row.seq - past.seq
        asks: list[OpenQuestion] = []
        if undone:
            asks = list(open_questions(row).values())
            await _rewind(store, claim, row, past, asks)
        else:
            await store.release(claim)
    except BaseException:
        await store.release(claim)
        raise
    for question in asks:
        if question.session is not None:
            await abandon(store, question.session, question.id)
    return Rewind(session_id=row.id, to_seq=past.seq, undone=undone, agent=past.agent)


async def _rewind_point(store: Store, row: SessionRow, seq: int) -> PointInTime:
    """The point for a rewind. It is never inside the turn of a code agent: calls of code are found
    by step keys, and the rewound run has new keys."""
    past = await point_in_time(store, row, seq)
    if past.seq == row.seq:
        return past
    turn = past.cursor.progress.step_key("c")
    made = [event.seq for event in past.events if event.step and event.step.startswith(turn)]
    return await point_in_time(store, row, made[0] - 1) if made else past


async def _rewind(
    store: Store, claim: Claim, row: SessionRow, past: PointInTime, asks: Sequence[OpenQuestion]
) -> None:
    events = list(await store.events(row.id, limit=row.seq))
    run = len(runs_begun(events)) + 1
    steps = _steps_of_new_run(past, run)
    kept = await store.steps(row.id, prefix=KEPT)
    steps |= kept_again(kept, past.seq, at_seq=row.seq + 1)
    cursor, stored = past.cursor, Cursor.from_json(row.cursor)
    cursor.questions.unknown = stored.questions.unknown
    # Both numbers are parts of keys and ids, which must not be used twice.
    cursor.progress.run, cursor.handoffs.count = (
        run,
        max(stored.handoffs.count, cursor.handoffs.count),
    )
    shared_budgets = await shared_budget_removals(
        store, stored.budget.shared_budget, stored.budget.levels
    )
    recorded = await _rewind_events(store, row, past, events)
    cursor.audit = stored.audit
    if stored.audit.head:
        recorded, cursor.audit = chained(recorded, stored.audit)
    after: dict[str, Any] = {
        "agent": past.agent,
        "outcome": past.outcome,
        "cursor": cursor.to_json(),
        "variables": past.variables,
    }
    steps[snapshot_key(run)] = {**snapshot_of(row), REWOUND: after}
    side = await withdraw_stored(store, asks, by=row.agent, reason=_REASON)
    await store.commit(
        claim,
        Commit(
            patch=SessionPatch(
                agent=past.agent,
                status="idle",
                outcome=past.outcome,
                conclusion=past.conclusion,
                cursor=after["cursor"],
                variables=past.variables,
            ),
            events=recorded,
            steps=steps,
            documents=[*side.documents, *shared_budgets],
            settles=side.settles,
            wakes=side.wakes,
            release=True,
        ),
    )


def _steps_of_new_run(past: PointInTime, run: int) -> dict[str, Any]:
    """The stored results of the current turn under the keys of the new run: a step key must never
    be used twice."""
    prefix = past.cursor.progress.step_key("")
    return {
        f"{run}.{key.partition('.')[2]}": value
        for key, value in past.steps.items()
        if key.startswith(prefix) and past.cursor.progress.phase != "end"
    }


async def _rewind_events(
    store: Store, row: SessionRow, past: PointInTime, events: Sequence[Event]
) -> list[Event]:
    """The events that record the rewind."""
    details: dict[str, Any] = {"rewound": past.seq, "undoes": [past.seq + 1, row.seq]}
    change = changes_between(row.variables, past.variables)
    if change:
        if row.variables and not any(recorded_changes(event) for event in events):
            change["base"] = dict(row.variables)
        details[STATE] = change
    at_us = await store.now_us()
    rewind = Event(
        session_id=row.id,
        seq=row.seq + 1,
        type="message",
        at_us=at_us,
        agent=past.agent,
        details=details,
    )
    confirmed = confirmations(past.confirmed, row.id, rewind.seq, agent=past.agent, at_us=at_us)
    return [rewind, *confirmed]
