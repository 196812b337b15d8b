"""Whole stores, for people."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.api.local.audit import verification_of
from ekiden.cli.output import StatusLine, note, say
from ekiden.cli.tables import print_table
from ekiden.cli.views.audit import print_verification
from ekiden.project.copying import BackupReport, CopyReport, CopyStep, StoreFindings

_EVERY_S = 0.2
_PHASES = {"copy": "copying", "compare": "reading", "audit": "verifying"}


class StepLine(StatusLine):
    """Shows the progress on a terminal; prints nothing to a pipe."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__(as_json=as_json)
        self._next_s = 0.0

    def __call__(self, step: CopyStep) -> None:
        """Show it, at intervals."""
        if not self._shows or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _EVERY_S
        what = "sessions" if step.phase == "audit" else "rows"
        self._write(f"{step.tenant}: {_PHASES[step.phase]} {step.done:,} of {step.total:,} {what}")


def print_report(report: CopyReport) -> None:
    """What was copied, and warnings."""
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
                *(f"{tenant.counts[table]:,}" for table in _SHOWN),
                "unbroken" if tenant.audit.ok else f"{tenant.audit.broken} broken",
            )
            for tenant in report.tenants
        ],
    )
    if not report.audit_ok:
        note("the audit is broken in the copy as it is in the source: `ekiden store verify`")
    _warn(report)


_SHOWN = ("sessions", "events", "documents", "messages")


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
    """Its path, and what was found in it."""
    say(f"wrote {report.source} to {report.target} in {report.seconds:.1f} s")
    if report.tenants:
        print_findings(report.tenants)
    if not report.ok:
        note("faults in the copy are also in the source")


def print_findings(found: Sequence[StoreFindings]) -> None:
    """The faults, or that there are none."""
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
        ("tenant", *_SHOWN, "search entries", "worked at"),
        [
            (
                each["tenant"],
                *(_counted(each, table) for table in (*_SHOWN, "search_entries", "leases")),
            )
            for each in found
        ],
    )
    for each in found:
        if each["unfinished"] is not None:
            say(f"{each['tenant']} is an unfinished copy of {each['unfinished']}")


def _counted(facts: Mapping[str, Any], name: str) -> str:
    return f"{'about ' if name in facts.get('estimated', ()) else ''}{facts[name]:,}"
