"""The audit, for people."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.api.audit import AuditEntry, AuditVerification
from ekiden.audit import Verification
from ekiden.cli.output import StatusLine, say
from ekiden.cli.tables import Extra, Id, Moment, Table, clock_time
from ekiden.core.values import dumps

_LINKS_SHOWN = 20


def record_table(records: Sequence[AuditEntry]) -> Table:
    """Records, one on each line."""
    return ("time", "record", "what", "from", "to", Extra("who"), "why"), [
        (
            Moment(record.timestamp),
            Id(record.id),
            record.move or record.type,
            record.source or "",
            record.target or "",
            str(record.actor),
            why(record),
        )
        for record in records
    ]


def record_pairs(record: AuditEntry) -> list[tuple[str, str]]:
    """Everything about a record; empty fields are left out."""
    pairs = [
        ("record", record.id),
        ("time", clock_time(record.timestamp)),
        ("session", record.session_id),
        ("type", record.type),
        ("move", record.move),
        ("who", str(record.actor)),
        ("from", record.source),
        ("to", record.target),
        ("handoff", record.handoff_id),
        ("task", record.task_id),
        ("correlation", record.correlation_id),
        ("reason", record.reason),
        ("code", record.code),
        ("error", record.error),
        *((name, _fact(value)) for name, value in record.facts.items()),
        ("hash", record.hash or "none: written without one"),
        ("previous", "none: first record" if record.previous == "" else record.previous),
    ]
    return [(name, value) for name, value in pairs if value]


def why(record: AuditEntry) -> str:
    """The reason or the failure, on one line."""
    parts = (record.code, record.error or record.reason)
    return ": ".join(part for part in parts if part)


def print_verification(
    found: AuditVerification, *, also: Sequence[str] = (), also_not: Sequence[str] = ()
) -> None:
    """The verified counts, and each broken link; `also` and `also_not` add counts besides the
    audit."""
    say(
        f"{_count(found.sessions, 'session')}, {found.chained} with a chain; "
        f"{_count(found.events, 'audited event')} verified"
    )
    if found.unhashed:
        say(
            f"not chained: {_count(found.unhashed, 'audited event')}, written by an earlier "
            f"version or with events switched off; {_count(found.not_chained, 'session')} "
            "without any chain"
        )
    say(
        f"{_count(found.covered, 'event')} covered by digests of their commits; "
        f"{_count(found.decisions, 'closed inbox item')} verified"
    )
    if found.uncovered:
        say(
            f"not covered: {_count(found.uncovered, 'event')}, written by an earlier version; "
            "changes to them cannot be detected"
        )
    if found.compared:
        say(f"{_count(found.compared, 'record')} compared with the export")
    checked, not_checked = [*found.checked, *also], [*found.not_checked, *also_not]
    if checked:
        say(f"checked: {'; '.join(checked)}")
    if not_checked:
        say(f"not checked: {'; '.join(not_checked)}")
    if found.ok:
        say("the audit is intact")
        return
    links = found.links
    for number, link in enumerate(links[:_LINKS_SHOWN]):
        say(f"{'first broken link' if number == 0 else 'broken'}: {link.message}")
    if found.broken > _LINKS_SHOWN:
        say(f"… and {found.broken - _LINKS_SHOWN} more; --json lists up to 1,000")


class ProgressLine(StatusLine):
    """Shows the progress of a verification on a terminal; prints nothing to a pipe."""

    def __call__(self, found: Verification) -> None:
        """Show the counts, at intervals."""
        if self._shows and found.sessions % 100 == 0:
            self._write(f"{found.sessions} sessions, {found.events} records")


def _fact(value: object) -> str:
    return value if isinstance(value, str) else dumps(value)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
