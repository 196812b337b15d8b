"""Step keys, and snapshots of a session before each run, for rewinds and forks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.core.errors import LeaseLost
from ekiden.core.events import Event
from ekiden.core.text.wording import lazy_pattern
from ekiden.runtime.state.cursor import ALWAYS
from ekiden.storage.base import SessionRow, Store

KEPT = "0.0.kept."
"""Prefix of the step keys of values that code keeps. A name and the number of an event follow; the
event was stored in the same commit, and the value with the highest number counts. So the values at
any event are known, and a rollback or a rewind can store them again."""

_CHECKPOINT = lazy_pattern(r"[0-9]+\.[0-9]+\.(?:k[0-9]+|fq[0-9]+\.[0-9]+)", re.ASCII)

REWOUND = "rewound"
"""Key of a snapshot before a rewind: the state of the session after the rewind."""


def snapshot_key(run: int) -> str:
    """The key of the step with the snapshot before run number `run`.

    The turn 0 in it is free: a run's own steps begin with turn 1.
    """
    return f"{run}.0.before"


def snapshot_of(row: SessionRow) -> dict[str, Any]:
    """The fields of the row that a run may change, except for the number of its events."""
    return {
        "agent": row.agent,
        "outcome": row.outcome or "",
        "cursor": row.cursor,
        "variables": row.variables,
    }


def is_snapshot_key(step_key: str) -> bool:
    """Whether the step is a snapshot."""
    return step_key.endswith(".0.before")


def snapshot_without_grants(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The snapshot without "always" approvals."""
    copied: dict[str, Any] = {}
    for name, value in snapshot.items():
        if name == "cursor":
            copied[name] = {key: part for key, part in value.items() if key != ALWAYS}
        else:
            copied[name] = snapshot_without_grants(value) if name == REWOUND else value
    return copied


def turn_of(step_key: str) -> int:
    """The number of the step's turn; 0 for a step of the whole run."""
    number = step_key.split(".")[1] if "." in step_key else ""
    return int(number) if number.isdecimal() and number.isascii() else 0


def run_of(step_key: str) -> int:
    """The number of the step's run; 0 for a key that the runtime did not make."""
    number = step_key.partition(".")[0]
    return int(number) if number.isdecimal() and number.isascii() else 0


def stays_here(step_key: str) -> bool:
    """Whether the step is neither exported nor imported: values that code keeps, and checkpoints of
    other frameworks, because documents must not contain their formats."""
    return step_key.startswith(KEPT) or _CHECKPOINT.fullmatch(step_key) is not None


_SHARED_STEP = lazy_pattern(r"[0-9]+\.h[0-9]+\.shared\.[0-9]+", re.ASCII)


def is_shared_step(step_key: str) -> bool:
    """Whether the step has earlier values of shared variables, for the rollback of a handoff. They
    belong to a user or an app, so they are not exported with a session."""
    return _SHARED_STEP.fullmatch(step_key) is not None


def kept_key(name: str, seq: int) -> str:
    """The key of a value that code keeps under the name, stored with event `seq`."""
    return f"{KEPT}{name}/{seq}"


def kept_until(steps: Mapping[str, Any], seq: int) -> dict[str, Any]:
    """The steps with values that code had kept when event `seq` was stored."""
    return {key: value for key, value in steps.items() if 0 < _kept_number(key) <= seq}


def kept_values(steps: Mapping[str, Any]) -> dict[str, Any]:
    """The latest kept values in these steps, by name."""
    kept = sorted((key for key in steps if _kept_number(key)), key=_kept_number)
    return {_kept_name(key): steps[key] for key in kept}


def kept_again(steps: Mapping[str, Any], seq: int, *, at_seq: int) -> dict[str, Any]:
    """The steps to store with event `at_seq`, so that code has the values that it had at event
    `seq`; `None` for names that it did not use then."""
    values = kept_values(kept_until(steps, seq))
    later = {_kept_name(key) for key in steps if _kept_number(key) > seq}
    return {kept_key(name, at_seq): values.get(name) for name in sorted(later)}


def _kept_name(key: str) -> str:
    return key.removeprefix(KEPT).rpartition("/")[0]


def _kept_number(key: str) -> int:
    """The number of the event; 0 for other keys."""
    return int(key.rpartition("/")[2]) if key.startswith(KEPT) else 0


async def read_step(store: Store, session_id: str, key: str) -> Any:
    """The stored result of the step with this key. Raises `KeyError` if there is none."""
    return (await store.steps(session_id, prefix=key))[key]


async def events_until(
    store: Store, session_id: str, seq: int, *, after: int = 0, with_items: bool = False
) -> Sequence[Event]:
    """The events of a session that the caller owns; `seq` is the number of its last event.

    Raises `LeaseLost` if another process wrote or deleted events since. A process that was paused
    between the claim and this read would otherwise continue with a conversation that does not match
    its cursor.
    """
    events = await store.events(session_id, after=after, with_items=with_items)
    last = events[-1].seq if events else min(after, seq)
    if last > seq or (last < seq and not with_items):
        raise LeaseLost(session_id)
    return events


def up_to(row: SessionRow, events: Sequence[Event]) -> Sequence[Event]:
    """The events that existed when the row was read."""
    return [event for event in events if event.seq <= row.seq]
