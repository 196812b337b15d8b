"""Replays events: where a run stood, and the state of its session, after any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ekiden.core.conversation.model import Item, Usage, begins_chain, is_message, text_of
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.events import AUDITED, Event
from ekiden.handoff.records.requests import TriedHandoff
from ekiden.runtime.handoff.controller import passed_digest
from ekiden.runtime.history.session_export import is_shared_step
from ekiden.runtime.state.attempt import WORDS, received
from ekiden.runtime.state.cursor import Cursor, PendingHandoff
from ekiden.runtime.state.snapshot import REWOUND, kept_until, run_of, snapshot_key, turn_of
from ekiden.sessions import current_events, is_rewind, is_transfer, variables_at
from ekiden.sessions.progress import RunProgress
from ekiden.sessions.state import told_state
from ekiden.storage.base import SessionRow, Store

GIVEN = "given"
_BROKEN_OFF = ("cancelled", "failed", "out_of_budget")


class Fold:
    """A run's cursor, brought from event to event by `apply`.

    Seconds are those that models and tools took. What no event tells is at its default: questions
    that were open, and how to undo what was done while a handoff was open.
    """

    __slots__ = ("_calls", "_given", "_is_inside", "_last", "agent", "cursor", "outcome")

    def __init__(self, *, agent: str, cursor: Cursor, outcome: str = "") -> None:
        self.agent = agent
        self.cursor = cursor
        self.outcome = outcome
        self._calls: dict[str, Item] = {}
        """Of the turn under way: those that are not answered."""
        self._is_inside = False
        """Whether what was applied last was not stored alone."""
        self._last: Event | None = None
        self._given: int | None = None
        """The event before that has what a handoff adds to the task."""

    def apply(self, event: Event) -> None:
        """The event happened."""
        told, before, self._last = told_state(event), self._last, event
        self._given = before.seq if before is not None and GIVEN in (before.details or {}) else None
        if told is not None and (before is None or "undoes" not in (before.details or {})):
            # Not how often each was set, but whether anything was: that is what is asked for.
            self.cursor.handoffs.work += len(told.get("set", ())) + len(told.get("deleted", ()))
        if event.error is not None:
            self.cursor.progress.errors += 1
        if event.type in ("llm_call", "message") and _kind(event) == "m":
            self._answer(event)
            return
        match event.type:
            case "agent_start":
                self.cursor.progress.started = True
            case "tool_call":
                self._tool(event)
            case "handoff":
                self._handoff(event, event.details or {})
            case "route":
                self._route(event)
            case "message":
                self._message(event)
            case "agent_complete" | "agent_error":
                self._end(event)
            case _:
                pass

    def note(self, event: Event) -> None:
        """The run began with the event."""
        self._last = event

    def goes_on_with(self, event: Event) -> bool:
        """Whether `event` was stored together with the last applied one, in what matters here.

        A turn is stored with all its outputs, an answer with the end of the run; a rollback that
        was begun is finished when the run resumes.
        """
        last, details = self._last, event.details or {}
        if begins_run(event):
            return last is not None and _closes(last)
        if _confirms(event):
            return True
        if event.type == "route" and event.step is None:
            return last is not None and begins_run(last)
        if event.type == "guardrail" and last is not None and last.type == "tool_call":
            return True
        if _tells_state(event) and last is not None and last.type in AUDITED:
            return not _confirms(last) and self.cursor.progress.phase != "end"
        return self._is_inside and details.get("outcome") not in _BROKEN_OFF

    def _answer(self, event: Event) -> None:
        cursor = self.cursor
        cursor.progress.calls = event.seq
        cursor.progress.turn = _turn(event) - 1
        self._calls = {
            item["call_id"]: item for item in event.items if item.get("type") == "function_call"
        }
        if event.type == "llm_call":
            cursor.triggers.forget_signs()
            cursor.handoffs.work += any(
                is_message(item) and bool(text_of(item)) for item in event.items
            )
        self._count(event)
        if self._calls:
            cursor.progress.phase = "act"
        else:
            cursor.progress.turn += 1
            cursor.progress.phase = "answered"
        self._is_inside = not self._calls

    def _tool(self, event: Event) -> None:
        cursor = self.cursor
        if event.error is None:
            cursor.handoffs.work += 1
        else:
            name = event.error.partition(":")[0]
            cursor.triggers.note_tool_error(f"{name}: {event.error}")
        if _kind(event)[:1] != "c":  # Those of code are part of its own time.
            self._count(event)
        self._is_inside = False
        self._take_outputs(event)

    def _take_outputs(self, event: Event) -> None:
        """The turn is over when the last call is answered."""
        if not self._calls:
            return
        for item in event.items:
            if item.get("type") == "function_call_output":
                self._calls.pop(item["call_id"], None)
        self._is_inside = bool(self._calls)
        if not self._calls:
            self.cursor.progress.turn += 1
            self.cursor.progress.phase = "think"

    def _handoff(self, event: Event, details: dict[str, Any]) -> None:
        cursor = self.cursor
        number = str(details.get("id", "")).rpartition(".h")[2]
        if number.isdecimal() and number.isascii():
            cursor.handoffs.count = max(cursor.handoffs.count, int(number))
        elif "initiated" in details.get("moves", ()):
            cursor.handoffs.count += 1
        cursor.handoffs.drop_tried(details.get("id"))
        if "compensation" in details:
            self._is_inside = True
        elif is_transfer(event):
            self._transfer(event, details)
        elif "undoes" in details:
            self._roll_back(details)
        elif details.get("status") in ("initiated", "validating"):
            names = (details["id"], details["from"], details["to"])
            cursor.handoffs.tried = (*cursor.handoffs.tried, TriedHandoff(event.step or "", *names))
        elif details.get("status") == "completed":
            cursor.handoffs.open = [
                each for each in cursor.handoffs.open if each.id != details["id"]
            ]
        else:
            if "place" in details:
                cursor.triggers.note_fired(details["place"])
            self._take_outputs(event)

    def _transfer(self, event: Event, details: dict[str, Any]) -> None:
        cursor, source, target = self.cursor, details["from"], details["to"]
        chain = list(cursor.handoffs.chain)
        cursor.handoffs.chain = list(details.get("chain", chain))
        call_id = next((item["call_id"] for item in event.items if "call_id" in item), None)
        words = _words(details, self._calls.get(call_id) if call_id else None)
        if details.get("by", {}).get("kind") == "person" and "request" not in details:
            cursor.handoffs.work += 1
        if "place" in details:
            cursor.triggers.note_fired(details["place"])
        pending = cursor.way_back(
            details["id"], source, target, call_id=call_id, seq=self._given or event.seq
        )
        pending.mark(
            begins_run=bool(details.get("begins_run")), chain=chain if "chain" in details else None
        )
        cursor.handoffs.open.append(pending)
        if "filter" in details:
            cursor.view.base, cursor.view.after = details["filter"], event.seq
        is_return = target in cursor.handoffs.chain
        cursor.transfer(
            source,
            target,
            received=words,
            tools=details.get("tools"),
            budget=dict(details["budget"]) if "budget" in details else None,
            passed=passed_digest(source, target, words) if is_return else None,
            since_s=cursor.budget.spent_s,
        )
        cursor.progress.turn = _turn(event)
        self._hand_to(target, started=False)

    def _roll_back(self, details: dict[str, Any]) -> None:
        cursor = self.cursor
        while cursor.handoffs.open[-1].id != details["id"]:  # IndexError: it was opened by nobody.
            cursor.handoffs.open.pop()
        pending = cursor.handoffs.open[-1]
        cursor.roll_back(pending)
        self._hand_to(pending.source, started=True)
        if pending.begins_run:
            cursor.progress.phase = "end"
            self._is_inside = True

    def _hand_to(self, agent: str, *, started: bool) -> None:
        self.agent = agent
        self.cursor.progress.phase = "think"
        self.cursor.progress.started = started
        self._calls, self._is_inside = {}, False

    def _route(self, event: Event) -> None:
        if event.step is None:
            return
        self.cursor.handoffs.route = None
        self._count(event)
        target = (event.details or {}).get("agent")
        if target:
            self.cursor.handoffs.chain[-1] = target
            self._hand_to(target, started=False)
        else:
            self._is_inside = True

    def _message(self, event: Event) -> None:
        name = (event.details or {}).get("published")
        if _tells_state(event) and self.cursor.progress.phase == "act":
            self._is_inside = True  # Some tool of the turn was done, and its output comes later.
        if GIVEN in (event.details or {}):
            self._is_inside = True  # The handoff that brings it follows.
        if name is not None:
            self._is_inside = True
            self.cursor.triggers.note_published(name)

    def _end(self, event: Event) -> None:
        outcome = (event.details or {}).get("outcome", "done")
        if outcome in ("done", "refused"):
            self.cursor.progress.phase = "end"
        self.outcome = "" if outcome in ("cancelled", "waiting") else outcome
        self._is_inside = False

    def _count(self, event: Event) -> None:
        cursor, seconds = self.cursor, (event.duration_us or 0) / 1e6
        used = Usage.from_json((event.details or {}).get("usage") or {})
        cursor.budget.usage.add(used)
        cursor.budget.spent_s += seconds
        if event.agent is not None and (used.tokens or seconds):
            cursor.budget.spend(event.agent, used.tokens, seconds, used.cost)


def begins_run(event: Event) -> bool:
    """Whether a run begins with the event: a message, a handoff requested while the session was not
    run, or a rewind."""
    if event.type == "message":
        return is_rewind(event) or (event.step is None and bool(event.items))
    return is_transfer(event) and bool(event.details and event.details.get("begins_run"))


def _confirms(event: Event) -> bool:
    """Whether it tells that a handoff stands: stored with the answer of its target."""
    return event.type == "handoff" and (event.details or {}).get("moves") == ["completed"]


def _tells_state(event: Event) -> bool:
    """Whether it is there only to tell what became of variables."""
    return event.type == "message" and not event.items and told_state(event) is not None


def _closes(event: Event) -> bool:
    """Whether it only closes calls of the run before, and the message follows, or brings what a
    handoff adds to the task, which follows."""
    details = event.details or {}
    return event.type == "message" and ("closes" in details or GIVEN in details)


def is_given(events: list[Event], first: Event) -> bool:
    """Whether the event before `first` has what that, a handoff, adds to the task."""
    return first.seq > 1 and GIVEN in (events[first.seq - 2].details or {})


def runs_begun(events: list[Event]) -> list[Event]:
    """The events that begin runs, in order: that of run number 1 comes first."""
    return [event for event in events if begins_run(event) and not _closes(event)]


def beginning(events: list[Event], first: Event) -> int:
    """The number of the event that the run of `first` was stored with, and that came first."""
    before = events[first.seq - 2] if first.seq > 1 else None
    return first.seq - 1 if before is not None and _closes(before) else first.seq


def _words(details: dict[str, Any], call: Item | None) -> dict[str, Any]:
    """What the target was handed: what the event tells, or what the model's call said."""
    if "received" in details:
        return dict(details["received"])
    words = {"from": details["from"], **{key: details[key] for key in WORDS if key in details}}
    if call is not None:
        with suppress(ModelBehaviorError):
            return received(details["from"], call["arguments"])
    return words


def _kind(event: Event) -> str:
    """The last part of the key of the event's step."""
    return (event.step or "").rpartition(".")[2]


def _turn(event: Event) -> int:
    return int((event.step or "").split(".")[1])


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
