"""Branching off: a new session that goes on from an earlier point of another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from ekiden.core.errors import SessionError, StoreError, UserError
from ekiden.core.events import Event
from ekiden.runtime.history.point_in_time import Past, past_of
from ekiden.runtime.history.replay import beginning, runs_begun
from ekiden.runtime.questions.sessions import ANSWERS, FIXED_LIMITS, OWN_LIMITS
from ekiden.runtime.state.calls import to_the_end
from ekiden.runtime.state.cursor import PendingHandoff
from ekiden.runtime.state.leases import owner_name
from ekiden.runtime.state.snapshot import is_snapshot_key, snapshot_without_grants
from ekiden.sessions import Session, is_rewind, standing
from ekiden.storage.base import Claim, Commit, NewSession, SessionPatch, SessionRow, Store
from ekiden.storage.chain import chained

_LEASE_S = 30.0
NOT_OF_A_BRANCH = (ANSWERS, FIXED_LIMITS, OWN_LIMITS, "asked_in", "purses")
"""In a session's meta: what ties it to whoever waits for its answer."""


async def fork_session(
    store: Store,
    session_id: str,
    *,
    before_seq: int | None = None,
    at_seq: int | None = None,
    new_id: str | None = None,
) -> Session:
    """A new session that continues from an earlier point of `session_id`.

    The point is given in one of two ways:

    * `before_seq`: before the message of that event;
    * `at_seq`: after that event. Everything stored together with it belongs to it: a turn with all
      outputs of its tools, an answer with the end of its run. `meta["forked_at"]` is the resulting
      event.

    The original session is unchanged, and may be running. The new one continues as if later events
    had never happened: the same agent has it, with the same view, variables and unfinished run,
    which `Runner.resume` continues. Unanswered tool calls are made again, and approvals for them
    are asked for again: an approval is for one call. "Always" approvals of the original session do
    not apply. Unconfirmed handoffs count as confirmed. Open queries are asked again; finished tasks
    of a plan are not repeated. Variables of its user and its app are not copied.

    Before the first message there is nothing to store: then the first run creates the session, as
    usual. A crash in between leaves at most an empty session.

    Raises `SessionNotFound`; `SessionExists` if `new_id` is taken; `UserError` if there is no such
    event, or its state is unknown, because an older Ekiden stored it. For example::

        branch = await fork_session(store, "customer-42", before_seq=7)
        await Runner.run(team, "Let me put it differently.", session=branch)
    """
    if (before_seq is None) == (at_seq is None):
        raise UserError("say where to branch off: before_seq=, a message, or at_seq=, any event")
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
    past = await past_of(store, row, at_seq)
    if before_seq is None:
        branch.meta["forked_at"] = past.seq
    content = await _content(store, past, branch.session_id)
    await store_anew(store, branch.draft(past.agent), content)
    return branch


async def _content(store: Store, past: Past, session_id: str) -> Commit:
    """What the new session consists of."""
    events = [moved(event, session_id) for event in past.events]
    events += confirmations(
        past.confirmed, session_id, past.seq, agent=past.agent, at_us=await store.now_us()
    )
    cursor = past.cursor
    cursor.questions.always = {}
    if cursor.audit.head or any("hash" in (event.details or {}) for event in events):
        events, cursor.audit = chained(events)
    return Commit(
        patch=SessionPatch(
            agent=past.agent,
            status="idle",
            outcome=past.outcome,
            cursor=cursor.to_json(),
            variables=past.variables,
        ),
        events=events,
        steps={key: _of_a_branch(key, value) for key, value in past.steps.items()},
        release=True,
    )


def _of_a_branch(key: str, value: Any) -> Any:
    """What is remembered; of how the session stood, without what need not be asked about in it."""
    return snapshot_without_grants(value) if is_snapshot_key(key) else value


def confirmations(
    pending: Iterable[PendingHandoff], session_id: str, after: int, *, agent: str, at_us: int
) -> list[Event]:
    """The events that tell that handoffs count as confirmed, numbered on from `after`."""
    return [
        Event(
            session_id=session_id,
            seq=seq,
            type="handoff",
            at_us=at_us,
            agent=agent,
            details={
                "id": each.id,
                "from": each.source,
                "to": each.target,
                "status": "completed",
                "moves": ["completed"],
            },
        )
        for seq, each in enumerate(pending, after + 1)
    ]


def messages_to(events: Sequence[Event]) -> list[Event]:
    """The messages that begin a run and stand: the points that a session can be gone back to."""
    return [
        event
        for event in runs_begun(standing(events))
        if event.type == "message" and not is_rewind(event)
    ]


async def _before_message(store: Store, row: SessionRow, seq: Any) -> int:
    """The number of the last event before the run of that message; `UserError` if it is none."""
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
    """Make the session with all that is in it; `SessionExists`. Whatever fails leaves nothing."""
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
    """The event as one of another session."""
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
