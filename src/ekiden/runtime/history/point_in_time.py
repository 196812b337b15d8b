"""The state of a session after any of its events, for forks and rewinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.conversation.model import begins_chain
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.runtime.history.replay import Fold, beginning, begins_run, is_given, runs_begun
from ekiden.runtime.history.session_export import is_shared_step
from ekiden.runtime.state.cursor import Cursor, PendingHandoff
from ekiden.runtime.state.snapshot import REWOUND, kept_until, run_of, snapshot_key, turn_of
from ekiden.sessions import current_events, is_rewind, variables_at
from ekiden.sessions.progress import RunProgress
from ekiden.sessions.state import told_state
from ekiden.storage.base import SessionRow, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A session as it was at a point from which a run could have continued."""

    seq: int
    """The number of the last event."""
    agent: str
    outcome: str
    """Of the last run; empty if that was under way."""
    cursor: Cursor
    """Without open questions and handoffs, and without what it shared with those that it asked."""
    confirmed: list[PendingHandoff]
    """Handoffs that were open: they count as confirmed."""
    variables: dict[str, Any]
    events: list[Event]
    """All up to there."""
    steps: dict[str, Any]
    """The results stored by then, without decisions of people in the current turn: each decision
    counts once, and cannot be used again by going back."""


async def past_of(store: Store, row: SessionRow, seq: int) -> Past:
    """The session as it was after event `seq`, or after the last event stored with it.

    `UserError` if there is no such event, or the state at it is unknown.
    """
    if not isinstance(seq, int) or not 1 <= seq <= row.seq:
        raise UserError(
            f"session {row.id!r} has no event {seq}: choose one from 1 to {row.seq}; "
            f"`ekiden session show {row.id} --json` tells what happened"
        )
    events = list(await store.events(row.id, limit=row.seq))
    steps = await store.steps(row.id)
    try:
        return _past(row, events, steps, seq)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as exc:
        raise _unknown(row.id, seq) from exc


def _past(row: SessionRow, events: list[Event], steps: Mapping[str, Any], seq: int) -> Past:
    begun = runs_begun([event for event in events if event.seq <= seq])
    if seq < row.seq and begins_run(events[seq]) and beginning(events, events[seq]) == seq:
        seq, begun = seq + 1, [*begun, events[seq]]
    run = len(begun)
    fold = _start(row, events, steps, begun)
    first = begun[-1].seq if begun else 1
    point = first if begun else seq
    for event in events[first - 1 :] if begun else ():
        if event.seq > seq and not fold.goes_on_with(event):
            break
        if event.seq > first or event.type == "handoff":
            fold.apply(event)
        else:
            fold.note(event)
        point = event.seq
    known = _known(row, events, steps, point, run)
    is_whole = known is not None
    if known is None:
        known = {"agent": fold.agent, "outcome": fold.outcome, "cursor": fold.cursor.to_json()}
        known["variables"] = _variables(row, events, steps, point, run)
        _check_age(row, events, steps, run, fold.cursor)
    cursor = Cursor.from_json(known["cursor"])
    if cursor.handoffs.is_rolling_back:
        raise UserError(
            f"a handoff of session {row.id!r} is being rolled back at event {point}: resume the "
            "session to finish the rollback, or choose an earlier event"
        )
    confirmed = cursor.settle()
    remembered = _remembered(events[:point], steps, cursor.progress, run, is_whole=is_whole)
    remembered |= kept_until(steps, point)
    if cursor.view.base is not None and cursor.view.base not in remembered:
        raise _unknown(row.id, point)
    waited = known["outcome"] == "waiting"
    return Past(
        seq=point,
        agent=known["agent"],
        outcome="" if waited else known["outcome"] or "",
        cursor=cursor,
        confirmed=confirmed,
        variables=dict(known["variables"]),
        events=events[:point],
        steps=remembered,
    )


def _start(
    row: SessionRow, events: list[Event], steps: Mapping[str, Any], begun: Sequence[Event]
) -> Fold:
    """The last of the runs that were begun, before anything happened in it."""
    if not begun:
        return Fold(agent=events[0].agent or row.agent, cursor=Cursor())
    first, run = begun[-1], len(begun)
    before = steps.get(snapshot_key(run))
    if before is None and beginning(events, first) > 1:
        raise _unknown(row.id, first.seq)
    before = before or {"agent": first.agent, "cursor": {}}
    if is_rewind(first):
        after = before[REWOUND]
        return Fold(
            agent=after["agent"],
            cursor=Cursor.from_json(after["cursor"]),
            outcome=after["outcome"],
        )
    earlier = Cursor.from_json(before["cursor"])
    agent = before["agent"] if first.type == "handoff" else first.agent or row.agent
    is_same_task = first.type == "handoff" or not begins_chain(first.items)
    cursor = earlier.next_run(agent=agent, first=first.seq, is_same_task=is_same_task)
    if agent != before["agent"]:
        cursor.handoffs.received = cursor.handoffs.tools = None
    elif first.type == "message":
        cursor.handoffs.open = earlier.handoffs.still_open(first.seq)
    asked = (first.details or {}).get("message")
    if first.seq == 1 and isinstance(asked, Mapping):
        cursor.handoffs.received = {"from": asked.get("from_agent"), "reason": asked.get("subject")}
    fold = Fold(agent=agent, cursor=cursor)
    if is_given(events, first):
        fold.apply(events[first.seq - 2])
    return fold


def _known(
    row: SessionRow, events: list[Event], steps: Mapping[str, Any], point: int, run: int
) -> dict[str, Any] | None:
    """What is stored of that very point: the session as it is, or as it was before a run."""
    if point == row.seq:
        return {
            "agent": row.agent,
            "outcome": row.outcome,
            "cursor": row.cursor,
            "variables": row.variables,
        }
    if not begins_run(events[point]):
        return None
    before: dict[str, Any] | None = steps.get(snapshot_key(run + 1))
    if before is None:
        raise _unknown(row.id, point)
    return before


def _variables(
    row: SessionRow, events: list[Event], steps: Mapping[str, Any], point: int, run: int
) -> Mapping[str, Any]:
    """As the events tell it; where none does, they were so from the run's beginning to its end."""
    if any(told_state(event) is not None for event in events):
        return variables_at(events, point, now=row.variables)
    before: Mapping[str, Any] = steps.get(snapshot_key(run), {})
    began: Mapping[str, Any] = before.get(REWOUND, before).get("variables", {})
    ended = steps.get(snapshot_key(run + 1), {}).get("variables", row.variables)
    if began != ended:
        raise _unknown(row.id, point)
    return began


def _check_age(
    row: SessionRow, events: list[Event], steps: Mapping[str, Any], run: int, now: Cursor
) -> None:
    """An older Ekiden did not store which tools a handoff left: an agent must not get more of
    them."""
    later = steps.get(snapshot_key(run + 1))
    stored = Cursor.from_json(row.cursor if later is None else later["cursor"])
    told = any("tools" in (event.details or {}) for event in events if event.type == "handoff")
    if stored.handoffs.tools is not None and now.handoffs.tools is None and not told:
        raise _unknown(row.id, now.progress.first)


def _remembered(
    events: list[Event],
    steps: Mapping[str, Any],
    progress: RunProgress,
    run: int,
    *,
    is_whole: bool,
) -> dict[str, Any]:
    """The steps up to the end of `events`, but for values of users and apps: of the turn under way
    those that an event tells of, or all if nothing more came of it (`is_whole`), and none that
    people decided. `progress` tells the turn that was finished last."""
    from ekiden.runtime.history.import_parts import is_of_people

    told = set(steps) if is_whole else {event.step for event in events if event.step}
    if not is_whole:
        events = [event for event in current_events(events) if event.seq >= progress.first]
        told |= _of_plan(events, steps, f"{run}.{progress.turn + 1}.")

    def counts(key: str, value: Any) -> bool:
        of = run_of(key)
        if of != run or turn_of(key) <= progress.turn:
            return 0 < of <= run
        return key in told and not is_of_people(key, value)

    return {
        key: value for key, value in steps.items() if not is_shared_step(key) and counts(key, value)
    }


def _of_plan(events: list[Event], steps: Mapping[str, Any], turn: str) -> set[str]:
    """The steps of a plan in the turn under way, whose keys begin with `turn`: the plan itself, and
    those of tasks that have a result by then. `events` are those of the run that stand."""
    plan = steps.get(f"{turn}s.plan")
    if plan is None:
        return set()
    places = [task["task_id"] for task in plan["tasks"]]
    life, is_split, ended = 0, False, []
    for event in events:
        details = event.details or {}
        if details.get("outcome") == "failed":
            life += 1
        phase = details.get("phase") if event.type == "task" else None
        is_split = is_split or phase == "decomposed"
        if phase == "finished":
            ended.append(f"{turn}s{life or ''}.{places.index(details['task_id'])}.")
    if not is_split:
        return set()
    return {f"{turn}s.plan", *(key for key in steps if key.startswith(tuple(ended)))}


def _unknown(session_id: str, seq: int) -> UserError:
    return UserError(
        f"session {session_id!r} does not know how it stood at event {seq}: that was stored by an "
        "older Ekiden; choose a later event, or one right before a message to it"
    )
