"""How far a verification is, on a terminal."""

import asyncio
import io
import sys

import pytest

from ekiden.audit import Verification
from ekiden.cli.views.administration import ProgressLine


class Terminal(io.StringIO):
    """Standard error that a person looks at."""

    def isatty(self) -> bool:
        return True


def test_a_progress_line_is_overwritten_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    line = ProgressLine(as_json=False)
    for sessions in (99, 100, 200):
        line(Verification(sessions=sessions, events=sessions * 2))
    line.close()
    first, second = "100 sessions, 200 records", "200 sessions, 400 records"
    assert isinstance(sys.stderr, Terminal)
    assert sys.stderr.getvalue() == f"\r{first}\r{second}\r{' ' * len(second)}\r"


async def test_a_remote_verification_shows_the_elapsed_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    pause = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: pause(0))
    async with ProgressLine(as_json=False).timing(is_server=True):
        while "the server is working: 2 s" not in terminal.getvalue():
            await pause(0)
    assert terminal.getvalue().endswith(" \r")
    before = terminal.getvalue()
    async with ProgressLine(as_json=False).timing(is_server=False):
        await pause(0)
    assert terminal.getvalue() == before


def test_json_and_piped_output_show_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, as_json in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        line = ProgressLine(as_json=as_json)
        line(Verification(sessions=100))
        line.close()
        assert stream.getvalue() == ""
