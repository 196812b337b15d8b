"""How far a copy is, and what became of it, as people see it."""

from __future__ import annotations

import io
import sys

import pytest

from ekiden.audit import BrokenLink, Verification
from ekiden.cli.views.administration import (
    StepLine,
    print_backup,
    print_findings,
    print_info,
    print_report,
)
from ekiden.project.copying import BackupReport, CopiedTenant, CopyReport, CopyStep, StoreFindings
from ekiden.storage.copying import TABLES

COUNTS: dict[str, int] = dict.fromkeys(TABLES, 2)


class Terminal(io.StringIO):
    """Standard error that a person looks at."""

    def isatty(self) -> bool:
        return True


def broken() -> Verification:
    found = Verification(sessions=1)
    found.report(
        BrokenLink(record_id="s1/4", session_id="s1", fault="changed", message="s1/4: x", at_us=1)
    )
    return found


def copied(**fields: object) -> CopyReport:
    given: dict[str, object] = {
        "name": "default",
        "counts": COUNTS,
        "digests": {},
        "audit": Verification(sessions=2, chained=2),
        "leases": 0,
        "later": {},
    }
    tenant = CopiedTenant(**(given | fields))  # type: ignore[arg-type]
    return CopyReport(source="a.db", target="b.db", tenants=[tenant], seconds=0.5)


def test_a_progress_line_is_written_at_intervals_and_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    line = StepLine(as_json=False)
    for done in (1000, 2000):
        line(CopyStep(tenant="default", phase="copy", done=done, total=5000))
    line.close()
    told = "default: copying 1,000 of 5,000 rows"
    assert isinstance(sys.stderr, Terminal)
    assert sys.stderr.getvalue() == f"\r{told}\r{' ' * len(told)}\r"


def test_the_progress_of_a_verification_counts_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    StepLine(as_json=False)(CopyStep(tenant="acme", phase="audit", done=1, total=2))
    assert isinstance(sys.stderr, Terminal)
    assert sys.stderr.getvalue() == "\racme: verifying 1 of 2 sessions"


def test_json_and_piped_output_show_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, as_json in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        line = StepLine(as_json=as_json)
        line(CopyStep(tenant="default", phase="copy", done=1, total=2))
        line.close()
        assert stream.getvalue() == ""


def test_a_report_lists_what_was_copied(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(copied())
    shown = capsys.readouterr()
    assert shown.out.startswith("copied 14 rows to b.db in 0.5 s (28 rows/s), and compared them\n")
    assert "unbroken" in shown.out
    assert shown.err == ""


def test_a_report_warns_of_what_was_not_copied(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(copied(audit=broken(), leases=3, later={"events": 1200, "documents": -1}))
    shown = capsys.readouterr()
    assert "1 broken" in shown.out
    assert "the audit is broken in the copy as it is in the source" in shown.err
    assert "3 of the sessions were in use" in shown.err
    assert "1,201 rows were added or removed" in shown.err


def test_findings_are_printed_by_tenant(capsys: pytest.CaptureFixture[str]) -> None:
    fine = StoreFindings(tenant="default", url="a.db", faults=[], audit=Verification())
    print_findings([fine])
    assert capsys.readouterr().out.endswith("the store is intact\n")
    wrong = StoreFindings(tenant="acme", url="b.db", faults=["damaged"], audit=Verification())
    print_findings([fine, wrong])
    shown = capsys.readouterr().out
    assert "tenant acme:" in shown
    assert "wrong: damaged" in shown
    assert "the store is intact" not in shown


def test_a_backup_report_names_its_place_and_faults(capsys: pytest.CaptureFixture[str]) -> None:
    fine = StoreFindings(tenant="default", url="b.db", faults=[], audit=Verification())
    wrong = StoreFindings(tenant="default", url="b.db", faults=["damaged"], audit=broken())
    for found in ([], [fine], [wrong]):
        print_backup(BackupReport(source="a.db", target="b.db", tenants=found, seconds=0.5))
    shown = capsys.readouterr()
    assert shown.out.count("wrote a.db to b.db in 0.5 s\n") == 3
    assert shown.out.count("the store is intact\n") == 1
    assert "wrong: damaged" in shown.out
    assert "also in the source" in shown.err


def test_info_names_an_unfinished_copy(capsys: pytest.CaptureFixture[str]) -> None:
    facts: dict[str, object] = {
        "engine": "sqlite",
        "version": "3.54",
        "format": 5,
        "leases": 1,
        **COUNTS,
    }
    print_info([{"tenant": "default", "url": "a.db", "unfinished": "b.db", **facts}])
    shown = capsys.readouterr().out
    assert shown.startswith("a.db: sqlite 3.54, format 5\n")
    assert shown.endswith("default is an unfinished copy of b.db\n")
