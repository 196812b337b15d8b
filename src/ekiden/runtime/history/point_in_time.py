"""The state of a session at an earlier point in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.conversation.model import begins_chain
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.runs import Conclusion
from ekiden.runtime.history.replay import Replay, beginning, begins_run, is_given, runs_begun
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.cursor_handoffs import PendingHandoff
from ekiden.runtime.state.step_record import (
    REWOUND,
    is_shared_step,
    kept_until,
    run_of,
    snapshot_key,
    turn_of,
)
from ekiden.runtime.state.versions import SENT
from ekiden.sessions import current_events, is_rewind, variables_at
from ekiden.sessions.conclusion import recorded_conclusion
from ekiden.sessions.session import STARTED_BEFORE, RunProgress
from ekiden.sessions.state import recorded_changes
from ekiden.storage.base import SessionRow, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class PointInTime:
    """A session as it was at a point from which a run could have continued."""

    seq: int
    """The number of the last event."""
    agent: str
    outcome: str
    """The outcome of the last run; empty if the run was in progress."""
    conclusion: Conclusion | None
    cursor: Cursor
    """The cursor without open questions, open handoffs and shared budgets."""
    confirmed: list[PendingHandoff]
    """The handoffs that were open and now count as confirmed."""
    variables: dict[str, Any]
    events: list[Event]
    """All events up to `seq`."""
    steps: dict[str, Any]
    """The stored results up to `seq`, without decisions of people in the current turn. A decision
    is valid only once, so a rewind must not reuse the decision."""


async def point_in_time(store: Store, row: SessionRow, seq: int) -> PointInTime:
    """The session as it was after event `seq` and all events that were stored together with it.

    Raises `UserError` if the event does not exist, or the state after it is unknown.
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


def _past(row: SessionRow, events: list[Event], steps: Mapping[str, Any], seq: int) -> PointInTime:
    begun = runs_begun([event for event in events if event.seq <= seq])
    if seq < row.seq and begins_run(events[seq]) and beginning(events, events[seq]) == seq:
        # Event `seq` only prepares the beginning of a run, and was stored together with it.
        seq, begun = seq + 1, [*begun, events[seq]]
    run = len(begun)
    replay = _start(row, events, steps, begun)
    first = begun[-1].seq if begun else 1
    point = first if begun else seq
    for event in events[first - 1 :] if begun else ():
        if event.seq > seq and not replay.was_stored_with_last(event):
            break
        if event.seq > first or event.type == "handoff":
            replay.apply(event)
        else:
            replay.note(event)
        point = event.seq
    known = _stored_state(row, events, steps, point, run)
    is_stored = known is not None
    if known is None:
        known = {
            "agent": replay.agent,
            "outcome": replay.outcome,
            "cursor": replay.cursor.to_json(),
        }
        known["variables"] = _variables(row, events, steps, point, run)
        _check_age(row, events, steps, run, replay.cursor)
    cursor = Cursor.from_json(known["cursor"])
    if cursor.handoffs.is_rolling_back:
        raise UserError(
            f"a handoff of session {row.id!r} is being rolled back at event {point}: resume the "
            "session to finish the rollback, or choose an earlier event"
        )
    confirmed = cursor.settle()
    # The keys of a branch or of a rewound run are new: under these keys, no call was started.
    cursor.questions.unknown = ()
    cursor.progress.tools = STARTED_BEFORE if cursor.progress.tools else ()
    remembered = _remembered(events[:point], steps, cursor.progress, run, is_stored=is_stored)
    remembered |= kept_until(steps, point)
    if cursor.view.base is not None and cursor.view.base not in remembered:
        raise _unknown(row.id, point)
    outcome = "" if known["outcome"] == "waiting" else known["outcome"] or ""
    return PointInTime(
        seq=point,
        agent=known["agent"],
        outcome=outcome,
        conclusion=recorded_conclusion(events[first - 1 : point]) if outcome else None,
        cursor=cursor,
        confirmed=confirmed,
        variables=dict(known["variables"]),
        events=events[:point],
        steps=remembered,
    )


async def cursor_before(store: Store, event: Event, events: Sequence[Event]) -> Cursor:
    """The cursor of the run when `event` was recorded. `events` are all events up to it."""
    row, steps = await store.get(event.session_id), await store.steps(event.session_id)
    earlier = [each for each in events if each.seq < event.seq]
    begun = runs_begun(earlier)
    replay = _start(row, earlier, steps, begun)
    for each in earlier[begun[-1].seq - 1 :] if begun else ():
        if each.seq > begun[-1].seq or each.type == "handoff":
            replay.apply(each)
        else:
            replay.note(each)
    return replay.cursor


def _start(
    row: SessionRow, events: list[Event], steps: Mapping[str, Any], begun: Sequence[Event]
) -> Replay:
    """The replay of the last run, at its start."""
    if not begun:
        return Replay(agent=events[0].agent or row.agent, cursor=Cursor())
    first, run = begun[-1], len(begun)
    before = steps.get(snapshot_key(run))
    if before is None and beginning(events, first) > 1:
        raise _unknown(row.id, first.seq)
    before = before or {"agent": first.agent, "cursor": {}}
    if is_rewind(first):
        after = before[REWOUND]
        return Replay(
            agent=after["agent"], cursor=Cursor.from_json(after["cursor"]), outcome=after["outcome"]
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
    replay = Replay(agent=agent, cursor=cursor)
    if is_given(events, first):
        replay.apply(events[first.seq - 2])
    return replay


def _stored_state(
    row: SessionRow, events: list[Event], steps: Mapping[str, Any], point: int, run: int
) -> dict[str, Any] | None:
    """The stored state at exactly this point: the current row, or the snapshot before the next
    run; `None` if there is neither."""
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
    """The variables according to the events. If no event records variables, they did not change
    during the run, so the snapshots before and after it must agree."""
    if any(recorded_changes(event) is not None for event in events):
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
    """Raise `UserError` if an older Ekiden restricted tools by a handoff and did not record this in
    the event: the agent must not get more tools than it had."""
    later = steps.get(snapshot_key(run + 1))
    stored = Cursor.from_json(row.cursor if later is None else later["cursor"])
    is_known = any("tools" in (event.details or {}) for event in events if event.type == "handoff")
    if stored.handoffs.tools is not None and now.handoffs.tools is None and not is_known:
        raise _unknown(row.id, now.progress.first)


def _remembered(
    events: list[Event],
    steps: Mapping[str, Any],
    progress: RunProgress,
    run: int,
    *,
    is_stored: bool,
) -> dict[str, Any]:
    """The steps up to the end of `events`, without values of shared variables.

    Of the current turn, only steps that an event names are included, or all if the state itself is
    stored (`is_stored`), and no decisions of people. `progress.turn` is the last finished turn."""
    from ekiden.runtime.history.import_parts import is_of_people

    recorded = set(steps) if is_stored else {event.step for event in events if event.step}
    recorded |= {event.details[SENT] for event in events if event.details and SENT in event.details}
    if not is_stored:
        events = [event for event in current_events(events) if event.seq >= progress.first]
        recorded |= _of_plan(events, steps, f"{run}.{progress.turn + 1}.")

    def counts(key: str, value: Any) -> bool:
        of = run_of(key)
        if of != run or turn_of(key) <= progress.turn:
            return 0 < of <= run
        return key in recorded and not is_of_people(key, value)

    return {
        key: value for key, value in steps.items() if not is_shared_step(key) and counts(key, value)
    }


def _of_plan(events: list[Event], steps: Mapping[str, Any], turn: str) -> set[str]:
    """The steps of a plan in the current turn, whose keys begin with `turn`: the plan itself, and
    the steps of finished tasks. `events` are the run's events that were not undone."""
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
