"""Going back: a new session that branches off an earlier point of another."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ekiden.audit.chain import chained
from ekiden.core.errors import SessionError, StoreError, UserError
from ekiden.core.events import Event
from ekiden.runtime.calls import to_the_end
from ekiden.runtime.leases import owner_name
from ekiden.runtime.snapshot import run_of, snapshot_key
from ekiden.sessions import Session
from ekiden.storage.base import Claim, Commit, NewSession, SessionPatch, SessionRow, Store

_LEASE_S = 30.0


async def fork_session(
    store: Store, session_id: str, *, before_seq: int, new_id: str | None = None
) -> Session:
    """A new session that stands where `session_id` stood before the message of event `before_seq`.

    The session it branches off stays as it is, and may be running meanwhile. The new one goes on
    exactly as if what came later had never been said: the same agent has it, with the same view,
    variables and unfinished run. Its `meta` tells `forked_from` and `forked_at`. Before the first
    message there is nothing to store: then the session is made by its first run, as every new one.
    Killed in between, this leaves at most an empty session.

    Raises `SessionNotFound`; `SessionExists` if `new_id` is taken; `UserError` if `before_seq` is
    not the number of a message to the session, or the message is from before sessions could be
    gone back in. For example::

        branch = await fork_session(store, "customer-42", before_seq=7)
        await Runner.run(team, "Let me put it differently.", session=branch)
    """
    await store.open()
    row = await store.get(session_id)
    run = await _run_begun_by(store, row, before_seq)
    branch = Session(new_id, store=store, user_id=row.user_id)
    branch.meta = {**row.meta, "forked_from": session_id, "forked_at": before_seq}
    if before_seq == 1:
        return branch
    steps = await store.steps(session_id)
    before = steps.get(snapshot_key(run))
    if before is None:
        raise UserError(
            f"session {session_id!r} does not know how it stood before event {before_seq}: "
            "that message was stored by an older Ekiden; go back to a later one"
        )
    events = await store.events(session_id, limit=before_seq - 1)
    linked, head, count = chained([_moved(event, branch.session_id) for event in events])
    rechained = {"hd": head, "hn": count} if "hd" in before["cursor"] else {}
    if not rechained:
        linked = [_moved(event, branch.session_id) for event in events]
    await _store(
        store,
        branch.draft(before["agent"]),
        Commit(
            patch=SessionPatch(
                agent=before["agent"],
                status="idle",
                outcome=before["outcome"],
                cursor={**before["cursor"], **rechained},
                variables=before["variables"],
            ),
            events=linked,
            steps={key: value for key, value in steps.items() if 0 < run_of(key) < run},
            release=True,
        ),
    )
    return branch


def messages_to(events: Sequence[Event]) -> list[Event]:
    """The events that begin a run: the points that a session can be gone back to."""
    return [event for event in events if _begins_a_run(event)]


def _begins_a_run(event: Event) -> bool:
    """Messages that an agent or a router stored have a step; what people say has none."""
    return event.type == "message" and event.step is None and bool(event.items)


def _opens_a_run(event: Event) -> bool:
    """Whether a run began with a handoff that somebody asked for, and without a message."""
    return event.type == "handoff" and bool(event.details and event.details.get("begins_run"))


async def _run_begun_by(store: Store, row: SessionRow, seq: int) -> int:
    """The number of the run that event `seq` began."""
    if seq >= 1:
        events = await store.events(row.id, limit=seq)
        begun = [event for event in events if _begins_a_run(event) or _opens_a_run(event)]
        if begun and begun[-1].seq == seq and _begins_a_run(begun[-1]):
            return len(begun)
    raise UserError(
        f"event {seq} of session {row.id!r} is not a message to it: go back to one that is, "
        "such as event 1"
    )


async def _store(store: Store, draft: NewSession, content: Commit) -> None:
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


def _moved(event: Event, session_id: str) -> Event:
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
