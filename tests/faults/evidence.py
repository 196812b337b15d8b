"""What the log of a session must contain, whichever process was killed when."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

from ekiden.core.errors import SessionNotFound
from ekiden.core.events import Event
from ekiden.sessions.state import variables_at
from ekiden.storage.base import SessionRow, Store
from tests.faults.ledger import Ledger, Line, keys_of, timeless
from tests.faults.lives import check_handoffs, owners_of, settled_keys

Said: TypeAlias = tuple[Any, ...]
"""An event without its times and without the session's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All that a store has of one session."""

    row: SessionRow
    events: Sequence[Event]
    steps: Mapping[str, Any]

    @property
    def done(self) -> set[str]:
        """The keys of the steps whose results are stored, in an event or by themselves."""
        return {event.step for event in self.events if event.step} | set(self.steps)

    @property
    def log(self) -> list[Said]:
        """The events as any unharmed run of the same scenario would have written them."""
        return [_said(event) for event in self.events]

    def without_cancellations(self) -> Record:
        """The log as without a suspension: without its events, numbered again."""
        return self._without(lambda event: event.details == {"outcome": "cancelled"})

    def without_tries(self) -> Record:
        """Without what everyone who goes on may do or say once more: attempts of compensations
        that failed, notes that a trigger did not fire, that a guardrail said no, and what tells
        nothing but changes of variables."""
        return self._without(_is_try)

    def _without(self, is_left_out: Callable[[Event], bool]) -> Record:
        numbers = {0: 0}
        kept = []
        for event in self.events:
            is_kept = not is_left_out(event)
            numbers[event.seq] = numbers[event.seq - 1] + is_kept
            if is_kept:
                kept.append(_renumbered(event, numbers))
        return replace(self, events=kept)

    @property
    def content(self) -> tuple[Any, ...]:
        """A value that changes if and only if a process writes to the session."""
        row = self.row
        written = (row.agent, row.status, row.outcome, row.cursor, row.variables, row.seq)
        return (*written, row.epoch, self.log, dict(self.steps))


async def read(store: Store, session_id: str) -> Record | None:
    """The session as it is stored, or `None`."""
    try:
        row = await store.get(session_id)
    except SessionNotFound:
        return None
    return Record(
        row=row, events=await store.events(session_id), steps=await store.steps(session_id)
    )


def _tells_state_only(event: Event) -> bool:
    return event.type == "message" and not event.items and set(event.details or ()) == {"state"}


def _is_try(event: Event) -> bool:
    details = event.details or {}
    is_no = event.type == "guardrail" and details.get("behavior") == "reject"
    if _tells_state_only(event):
        return True
    return is_no or details.get("fired") is False or "rollback_failed" in details


_OF_ITS_TIME = ("hash", "at", "request", "attempt", "item", "made_by", "sent")
"""In the details of an event: what has the time or chance in it, and differs in every run. The
first event after a restart tells the version of its agent again."""


_OF_ITS_FIRING = ("seconds", "also")
"""The same of a trigger: one that fired and was refused does not fire again after a restart."""


def _said(event: Event) -> Said:
    kept = event.details
    if kept:
        kept = {name: value for name, value in kept.items() if name not in _OF_ITS_TIME}
        if isinstance(kept.get("trigger"), dict):
            kept["trigger"] = {
                name: value for name, value in kept["trigger"].items() if name not in _OF_ITS_FIRING
            }
        # Which commit tells of a change is left to chance; all changes together are checked.
        kept.pop("state", None)
        if isinstance(kept.get("answer"), dict):
            kept["answer"] = {
                name: value for name, value in kept["answer"].items() if name != "at_us"
            }
    details = json.loads(json.dumps(kept).replace(f"{event.session_id}.h", "S.h"))
    items = json.loads(json.dumps(event.items))
    return (event.seq, event.type, event.agent, event.step, details, items, event.error)


def _renumbered(event: Event, numbers: Mapping[int, int]) -> Event:
    details = event.details
    if details and "undoes" in details:
        details = {**details, "undoes": [numbers[seq] for seq in details["undoes"]]}
    return Event(
        session_id=event.session_id,
        seq=numbers[event.seq],
        type=event.type,
        at_us=event.at_us,
        agent=event.agent,
        step=event.step,
        details=details,
        items=event.items,
        error=event.error,
    )


def check_log(record: Record, *, entry: str) -> None:
    """Numbers without a gap, each step once, and one active agent at every point of the log.

    A handoff is wholly in the log and in the row, or wholly absent from both.
    """
    assert [event.seq for event in record.events] == list(range(1, record.row.seq + 1))
    told = variables_at(record.events, record.row.seq)
    assert told == record.row.variables, "the events tell what became of the variables"
    repeated = [
        key for key, times in Counter(e.step for e in record.events if e.step).items() if times > 1
    ]
    assert repeated == []
    owners = owners_of(record.events, entry=entry)
    assert record.row.agent == owners[-1]
    check_handoffs(record.events, record.row)


def check_work(before: Record | None, ledger: Ledger, *, session: str, rescuer: int) -> None:
    """The process that continued repeated nothing that was stored, and nothing twice."""
    done = set() if before is None else before.done
    asked = ledger.lines("model", session=session)
    again = [line["step"] for line in asked if line["pid"] == rescuer and line["step"] in done]
    assert again == [], "a stored answer of a model was asked for again"
    _check_once_each(asked, "step")
    stored_keys = {f"{session}:{key}" for key in done} | settled_keys(
        before.events if before else ()
    )
    attempts = [line for line in ledger.lines("attempt") if line["key"].startswith(session)]
    repeated = keys_of(line for line in attempts if line["pid"] == rescuer) & stored_keys
    assert not repeated, "a tool whose result is stored was called again"
    _check_once_each(attempts, "key")


def _check_once_each(lines: Sequence[Line], name: str) -> None:
    """In one process a thing is done once; what was in flight at a kill is done once more."""
    times = Counter((line["pid"], line[name]) for line in lines)
    assert [each for each, count in times.items() if count > 1] == []


_OWN_COUNT = ("sp", "si", "m", "rb", "hd", "py")
"""In the cursor: times, mistakes and rollbacks, which everyone who goes on counts anew, and the
hash that has times in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unharmed:
    """What a scenario leaves behind without a kill."""

    log: list[Said]
    variables: Mapping[str, Any]
    agent: str
    cursor: Mapping[str, Any] | None
    """Where the runtime stands; `None` if events were left out, whose numbers it has."""
    shown: Mapping[str, tuple[str, str]]
    """Step of each model call → who asked, and a digest of what the model was shown."""
    attempts: Mapping[str, str]
    """Step of each tool call → what it did."""
    effects: list[str]

    @classmethod
    def of(cls, record: Record, ledger: Ledger) -> Unharmed:
        """From the run of one session, with a ledger of its own."""
        counted = record.without_tries()
        is_whole = len(counted.events) == record.row.seq
        return cls(
            log=counted.log,
            variables=record.row.variables,
            agent=record.row.agent,
            cursor=_cursor(record.row) if is_whole else None,
            shown=_shown(ledger),
            attempts=_attempts(ledger, record.row.id),
            effects=ledger.effects(),
        )


def _cursor(row: SessionRow) -> dict[str, Any]:
    return {name: value for name, value in row.cursor.items() if name not in _OWN_COUNT}


def check_ending(record: Record, ledger: Ledger, unharmed: Unharmed) -> None:
    """The session and the world are as without a kill."""
    row = record.row
    assert (row.outcome, row.status, row.owner) == ("done", "idle", None)
    found = Unharmed.of(record, ledger)
    for each in fields(Unharmed):
        before, now = getattr(unharmed, each.name), getattr(found, each.name)
        if each.name != "cursor" or (before is not None and now is not None):
            assert now == before, f"{each.name} is\n{now}\nwhich was, unharmed,\n{before}"


def _shown(ledger: Ledger) -> dict[str, tuple[str, str]]:
    shown: dict[str, tuple[str, str]] = {}
    for line in ledger.lines("model"):
        seen = (line["agent"], line["digest"])
        assert shown.setdefault(line["step"], seen) == seen, "a repeated call was shown otherwise"
    return shown


def _attempts(ledger: Ledger, session_id: str) -> dict[str, str]:
    made: dict[str, str] = {}
    for line in ledger.lines("attempt"):
        step = timeless(line["key"]).removeprefix(session_id)
        assert made.setdefault(step, line["what"]) == line["what"], "one key for two effects"
    return made
