"""The audit, whole stores, keys, settings, replicas and workers, for people."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ekiden.cli.output import (
    Cell,
    Extra,
    Id,
    StatusLine,
    Table,
    TimeCell,
    Whole,
    as_text,
    clock_time,
    moment,
    note,
    print_pairs,
    print_table,
    say,
)
from ekiden.cli.views.messages import why

if TYPE_CHECKING:
    from ekiden.api.administration import ApiKey, AuditEntry, AuditVerification, WorkerOverview
    from ekiden.audit import Verification
    from ekiden.engine.registry import WorkerRecord
    from ekiden.project.copying import (
        BackupReport,
        CopyReport,
        CopyStep,
        StoreFindings,
        StoreMigration,
    )
    from ekiden.project.settings import SettingEntry
    from ekiden.sessions.replica_progress import ReplicaStatus

_LINKS_SHOWN: Final = 20
_PROGRESS_EVERY_S: Final = 0.2
_PHASES: Final = {"copy": "copying", "compare": "reading", "audit": "verifying"}
_TABLES: Final = ("sessions", "events", "documents", "messages")
"""The tables whose rows are counted in reports."""
_MOST_AGENTS: Final = 4


def record_table(records: Sequence[AuditEntry]) -> Table:
    """Records, one on each line."""
    return ("time", "record", "what", "from", "to", Extra("who"), "why"), [
        (
            TimeCell(record.timestamp),
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
        *((name, as_text(value)) for name, value in record.facts.items()),
        ("hash", record.hash or "none: written without one"),
        ("previous", "none: first record" if record.previous == "" else record.previous),
    ]
    return [(name, value) for name, value in pairs if value]


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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class StepLine(StatusLine):
    """Shows the progress on a terminal; prints nothing to a pipe."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__(as_json=as_json)
        self._next_s = 0.0

    def __call__(self, step: CopyStep) -> None:
        """Show it, at intervals."""
        if not self._shows or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _PROGRESS_EVERY_S
        what = "sessions" if step.phase == "audit" else "rows"
        self._write(f"{step.tenant}: {_PHASES[step.phase]} {step.done:,} of {step.total:,} {what}")


def print_report(report: CopyReport) -> None:
    """Print the result of a copy, and warnings."""
    rate = report.rows / report.seconds if report.seconds > 0 else 0.0
    say(
        f"copied {report.rows:,} rows to {report.target} in {report.seconds:.1f} s "
        f"({rate:,.0f} rows/s), and compared them"
    )
    print_table(
        ("tenant", "sessions", "events", "documents", "messages", "audit"),
        [
            (
                tenant.name,
                *(f"{tenant.counts[table]:,}" for table in _TABLES),
                "unbroken" if tenant.audit.ok else f"{tenant.audit.broken} broken",
            )
            for tenant in report.tenants
        ],
        wide=False,
    )
    if not report.audit_ok:
        note("the audit is broken in the copy as it is in the source: `ekiden store verify`")
    _warn(report)


def _warn(report: CopyReport) -> None:
    leases = sum(tenant.leases for tenant in report.tenants)
    later = sum(abs(count) for tenant in report.tenants for count in tenant.later.values())
    if leases:
        note(
            f"{leases} of the sessions were in use: later changes are not in the copy; for a "
            "move, stop the workers and copy with --final"
        )
    if later:
        note(f"{later:,} rows were added or removed in the source since the copy began")


def print_backup(report: BackupReport) -> None:
    """Print the path of the backup, and the result of its verification."""
    say(f"wrote {report.source} to {report.target} in {report.seconds:.1f} s")
    if report.tenants:
        print_findings(report.tenants)
    if not report.ok:
        note("faults in the copy are also in the source")


def print_findings(found: Sequence[StoreFindings]) -> None:
    """The faults, or that there are none."""
    from ekiden.api.local.administration import verification_of

    for each in found:
        if len(found) > 1:
            say(f"tenant {each.tenant}:")
        audit = verification_of(each.audit)
        print_verification(audit, also=each.checked, also_not=each.not_checked)
        for fault in each.faults:
            say(f"wrong: {fault}")
    if all(each.ok for each in found):
        say("the store is intact")


def print_info(found: Sequence[Mapping[str, Any]]) -> None:
    """A line for each tenant's store."""
    first = found[0]
    say(f"{first['url']}: {first['engine']} {first['version']}, format {first['format']}")
    print_table(
        ("tenant", *_TABLES, "search entries", "in use"),
        [
            (
                each["tenant"],
                *(_counted(each, table) for table in (*_TABLES, "search_entries", "leases")),
            )
            for each in found
        ],
        wide=False,
    )
    for each in found:
        if each["unfinished"] is not None:
            say(f"{each['tenant']} is an unfinished copy of {each['unfinished']}")


def print_migrations(found: Sequence[StoreMigration], *, dry_run: bool) -> None:
    """The migrations of each tenant's store."""
    for store in found:
        say(f"{store.tenant}: {store.url}")
        if not store.pending:
            say(f"  format {store.format}: up to date")
            continue
        newest = store.pending[-1].number
        say(f"  format {store.format}: {'needs' if dry_run else 'migrated to'} format {newest}")
        for each in store.pending:
            if each.works_with is None:
                effect = "processes of older versions cannot use the store afterwards"
            else:
                effect = f"processes that know format {each.works_with} can keep running"
            say(f"    {each.name}: {effect}")
    if dry_run and any(store.pending for store in found):
        say("nothing was changed; to migrate, run the command without --dry-run")


def _counted(facts: Mapping[str, Any], name: str) -> str:
    return f"{'about ' if name in facts.get('estimated', ()) else ''}{facts[name]:,}"


def key_table(keys: Sequence[ApiKey]) -> Table:
    """The keys, without their secrets."""
    headers = ("id", "name", Extra("tenant"), "scopes", "status", "expires", "last used")
    return headers, [_key_row(each) for each in keys]


def _key_row(key: ApiKey) -> tuple[Cell, ...]:
    scopes = " ".join(key.scopes)
    expires, used = moment(key.expires_at), moment(key.last_used_at)
    return (Id(key.id), key.name, key.tenant, scopes, key.status, expires, used)


def setting_table(found: Sequence[SettingEntry]) -> Table:
    """Settings, one on each line."""
    rows = [(Whole(each.key), as_text(each.value), str(each.origin)) for each in found]
    return ("key", "value", "origin"), rows


def print_status(status: ReplicaStatus) -> None:
    """The progress of a replica."""
    print_pairs(_pairs(status))


def _pairs(status: ReplicaStatus) -> Iterator[tuple[str, str]]:
    yield "mirror", status.name
    yield "fed now", "yes" if status.fed else "no"
    yield "sent", str(status.sent)
    yield "sessions waiting", str(status.waiting)
    yield "up to date", "yes" if status.up_to_date else "no"
    if status.problem is not None:
        yield "problem", status.problem
    yield "set aside", str(status.set_aside)
    for each in status.aside:
        yield each.event_id, each.problem


def print_workers(found: WorkerOverview, *, limit: int | None = None, wide: bool = False) -> None:
    """The workers as a table, then the agents without a worker."""
    if not found.workers:
        say("no worker is running; `ekiden worker` starts one")
        return
    names = ("running", "finished", "agents", Extra("labels"), "seen")
    headers = ("worker", "state", Extra("engine"), *names)
    print_table(headers, [_worker_row(each) for each in found.workers[:limit]], wide=wide)
    for each in found.unserved:
        needs = ", ".join(each.needs)
        label = f": it needs a worker with the label {needs}" if needs else ""
        note(f"no worker runs {each.agent}, {each.sessions} ready{label}")


def _worker_row(worker: WorkerRecord) -> tuple[Cell, ...]:
    names = worker.agents
    served = ", ".join(names[:_MOST_AGENTS])
    if len(names) > _MOST_AGENTS:
        served += f" and {len(names) - _MOST_AGENTS} more"
    return (
        Whole(f"{worker.host}-{worker.pid}"),
        worker.state,
        worker.engine,
        f"{worker.running} of {worker.concurrency}",
        str(worker.finished),
        served,
        ", ".join(worker.labels),
        TimeCell(worker.seen_at),
    )
