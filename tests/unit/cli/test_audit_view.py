"""How far a verification is, on a terminal."""

import io
import sys

import pytest

from ekiden.audit import Verification
from ekiden.cli.views.audit import ProgressLine


class Terminal(io.StringIO):
    """Standard error that a person looks at."""

    def isatty(self) -> bool:
        return True


def test_a_line_is_written_over_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    line = ProgressLine(as_json=False)
    for sessions in (99, 100, 200):
        line(Verification(sessions=sessions, events=sessions * 2))
    line.close()
    first, second = "100 sessions, 200 records", "200 sessions, 400 records"
    assert isinstance(sys.stderr, Terminal)
    assert sys.stderr.getvalue() == f"\r{first}\r{second}\r{' ' * len(second)}\r"


def test_programs_are_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, as_json in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        line = ProgressLine(as_json=as_json)
        line(Verification(sessions=100))
        line.close()
        assert stream.getvalue() == ""
