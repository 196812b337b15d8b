"""What agents do, and what held them, as people read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ekiden.app.records.presence import Presence
from ekiden.bus.deadlocks import Deadlock
from ekiden.cli.output import emit, note, say
from ekiden.cli.tables import clock_time, print_table
from ekiden.core.jsonio import dumps
from ekiden.core.messages import BlockingContext


def print_presences(found: Sequence[Presence]) -> None:
    """The sessions of each agent; then everybody who works or waits, if there is somebody."""
    print_table(
        ("agent", "idle", "ready", "waiting", "run by"),
        [
            (
                _with_standing(each),
                str(each.idle),
                str(each.ready),
                str(each.waiting),
                ", ".join(f"{owner} ({session})" for session, owner in each.running.items()),
            )
            for each in found
        ],
    )
    busy = [row for each in found for row in _busy_rows(each)]
    if busy:
        say()
        print_table(("agent", "status", "waits for", "why", "since", "session"), busy)


def print_deadlocks(found: Sequence[Deadlock], *, limit: int, as_json: bool) -> None:
    """Up to `limit` deadlocks, with the cursor of the next ones on standard error."""
    shown = found[:limit]
    if as_json:
        emit([each.to_json() for each in shown])
    elif not shown:
        say("no deadlocks")
    else:
        print_table(
            ("found", "cycle", "state", "victim", "policy", "given up"),
            [
                (
                    clock_time(each.found_at_us / 1e6),
                    " → ".join(each.cycle),
                    "resolved" if each.resolved else "present",
                    each.victim or "",
                    each.policy or "",
                    ", ".join(each.given_up),
                )
                for each in shown
            ],
        )
    if len(found) > limit and shown[-1].id:
        cursor = shown[-1].id
        note(dumps({"next_cursor": cursor}) if as_json else f"more: --cursor {cursor}")


def _busy_rows(presence: Presence) -> Iterator[tuple[str, ...]]:
    """One for each wait, and for each session that is being run and waits for nothing."""
    held = {wait.session_id for wait in presence.waits}
    for session in sorted(presence.running.keys() - held):
        yield presence.agent, "none", "", "at work", "", session
    yield from map(_wait_row, presence.waits)


def _wait_row(wait: BlockingContext) -> tuple[str, ...]:
    return (
        wait.agent,
        wait.status,
        ", ".join(wait.waiting_for),
        wait.reason,
        "" if wait.started_at is None else clock_time(wait.started_at),
        wait.session_id or "",
    )


def _with_standing(presence: Presence) -> str:
    if presence.is_router:
        return f"{presence.agent} (the router)"
    return presence.agent if presence.known else f"{presence.agent} (not in the team)"
