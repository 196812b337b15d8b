"""How a session stood before a run: remembered with the run's message, for going back to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.core.errors import LeaseLost
from ekiden.core.events import Event
from ekiden.core.text.wording import lazy_pattern
from ekiden.runtime.state.cursor import without_always_approvals
from ekiden.storage.base import SessionRow, Store

KEPT = "0.0.kept."
"""What the keys of steps begin with that code keeps for itself; the name and a number follow. The
value with the highest number counts, which is that of an event stored along with it: so what code
had kept at any event is known, and a rollback or a step back keeps it again."""

_CHECKPOINT = lazy_pattern(r"[0-9]+\.[0-9]+\.(?:k[0-9]+|fq[0-9]+\.[0-9]+)", re.ASCII)

REWOUND = "rewound"
"""In the snapshot before a step back: how the session stood after it."""


def snapshot_key(run: int) -> str:
    """The key of the step that tells how the session stood before run number `run`.

    A run's own steps begin with its turn 1.
    """
    return f"{run}.0.before"


def snapshot_of(row: SessionRow) -> dict[str, Any]:
    """Everything of the row that a run may change, but for the number of its events."""
    return {
        "agent": row.agent,
        "outcome": row.outcome or "",
        "cursor": row.cursor,
        "variables": row.variables,
    }


def is_snapshot_key(step_key: str) -> bool:
    """Whether it is such a key."""
    return step_key.endswith(".0.before")


def snapshot_without_grants(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """How a session stood, without what people said need not be asked about again in it."""
    copied: dict[str, Any] = {}
    for name, value in snapshot.items():
        if name == "cursor":
            copied[name] = without_always_approvals(value)
        else:
            copied[name] = snapshot_without_grants(value) if name == REWOUND else value
    return copied


def turn_of(step_key: str) -> int:
    """The number of the turn that a step belongs to; 0 for one of the run as a whole."""
    number = step_key.split(".")[1] if "." in step_key else ""
    return int(number) if number.isdecimal() and number.isascii() else 0


def run_of(step_key: str) -> int:
    """The number of the run that a step belongs to; 0 for a key that is not the runtime's."""
    number = step_key.partition(".")[0]
    return int(number) if number.isdecimal() and number.isascii() else 0


def stays_here(step_key: str) -> bool:
    """Whether the step is not exported or imported: what code keeps, and checkpoints of agents of
    other frameworks, whose own formats a document must not bring along."""
    return step_key.startswith(KEPT) or _CHECKPOINT.fullmatch(step_key) is not None


def kept_key(name: str, seq: int) -> str:
    """The key of what code keeps under the name, stored with event `seq`."""
    return f"{KEPT}{name}/{seq}"


def kept_until(steps: Mapping[str, Any], seq: int) -> dict[str, Any]:
    """Of these steps, those that code had kept when event `seq` was stored."""
    return {key: value for key, value in steps.items() if 0 < _kept_number(key) <= seq}


def kept_values(steps: Mapping[str, Any]) -> dict[str, Any]:
    """By name, what of these steps counts."""
    kept = sorted((key for key in steps if _kept_number(key)), key=_kept_number)
    return {_kept_name(key): steps[key] for key in kept}


def kept_again(steps: Mapping[str, Any], seq: int, *, at_seq: int) -> dict[str, Any]:
    """The steps, to be stored with event `at_seq`, after which code has what it had at event `seq`;
    `None` under names that it did not know then."""
    values = kept_values(kept_until(steps, seq))
    later = {_kept_name(key) for key in steps if _kept_number(key) > seq}
    return {kept_key(name, at_seq): values.get(name) for name in sorted(later)}


def _kept_name(key: str) -> str:
    return key.removeprefix(KEPT).rpartition("/")[0]


def _kept_number(key: str) -> int:
    """The number of the event; 0 for other keys."""
    return int(key.rpartition("/")[2]) if key.startswith(KEPT) else 0


async def told_so_far(
    store: Store, session_id: str, seq: int, *, after: int = 0, with_items: bool = False
) -> Sequence[Event]:
    """The events of a session whose last event its owner knows to be `seq`.

    `LeaseLost` if others wrote since, or deleted it: a process that was stopped between claiming
    and reading a session would continue with a conversation that does not fit its cursor.
    """
    events = await store.events(session_id, after=after, with_items=with_items)
    last = events[-1].seq if events else min(after, seq)
    if last > seq or (last < seq and not with_items):
        raise LeaseLost(session_id)
    return events


def up_to(row: SessionRow, events: Sequence[Event]) -> Sequence[Event]:
    """Those that were there when the row was read."""
    return [event for event in events if event.seq <= row.seq]
