"""`ekiden watch`: one process looks on while another one works."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.conftest import Ekiden

ORDER = "Where is my order 1042?"


class Watching:
    """A process that watches."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def error_line(self) -> str:
        """The next line of standard error."""
        assert self._process.stderr is not None
        return self._process.stderr.readline()

    def until(self, text: str) -> list[str]:
        """Its lines up to the one that has `text` in it."""
        assert self._process.stdout is not None
        lines = []
        for line in self._process.stdout:
            lines.append(line)
            if text in line:
                return lines
        pytest.fail(f"ended without {text!r}: {lines}")

    def interrupt(self) -> tuple[int, str, str]:
        """Ctrl-C: the exit code, and what it printed since."""
        self._process.send_signal(signal.SIGINT)
        out, err = self._process.communicate(timeout=60)
        return self._process.returncode, out, err

    def kill(self) -> None:
        """End it anyhow."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def watched(ekiden: Ekiden) -> Ekiden:
    """A folder with a store that has sessions."""
    ekiden("run", "--session", "s1", "你好 👋")
    return ekiden


@pytest.fixture
def watching(watched: Ekiden, request: pytest.FixtureRequest) -> Iterator[Watching]:
    """`ekiden watch` with options, after it has begun."""
    process = Watching(watched.start("watch", *request.param))
    yield process
    process.kill()


def _objects(lines: str | list[str]) -> list[Any]:
    return [json.loads(line) for line in (lines.splitlines() if isinstance(lines, str) else lines)]


@pytest.mark.parametrize("watching", [["--json"]], indirect=True)
def test_events_of_another_process_are_watched_and_resumed(
    watched: Ekiden, watching: Watching
) -> None:
    begun = json.loads(watching.error_line())["watching"]
    assert begun["store"].endswith(".ekiden/ekiden.db")
    watched("run", "--session", "s3", ORDER)
    seen = _objects(watching.until('"agent_complete"'))
    assert {each["session_id"] for each in seen} == {"s3"}
    assert [each["seq"] for each in seen] == list(range(1, len(seen) + 1))

    code, out, err = watching.interrupt()
    assert (code, out) == (130, "")
    last = json.loads(err)["after"]
    assert last == seen[-1]["id"]

    watched("run", "--session", "s4", "hello")
    missed = watched("watch", "--once", "--json", "--after", last)
    assert {each["session_id"] for each in _objects(missed.out)} == {"s4"}
    again = watched("watch", "--once", "--json", "--after", begun["after"])
    assert _objects(again.out) == [*seen, *_objects(missed.out)]


@pytest.mark.slow
@pytest.mark.parametrize("watching", [["--type", "handoff", "--agent", "orders"]], indirect=True)
def test_watch_prints_lines_and_how_to_continue(watched: Ekiden, watching: Watching) -> None:
    assert watching.error_line().endswith(".ekiden/ekiden.db; Ctrl-C ends it\n")
    watched("run", "--session", "s3", ORDER)
    first, second = watching.until("(completed)")
    assert "  s3  triage  handoff  triage → orders (transferring) a question about" in first
    assert "  s3  orders  handoff  triage → orders (completed)" in second
    code, out, err = watching.interrupt()
    assert (code, out) == (130, "")
    command = shlex.split(err.removeprefix("continue with: "))
    assert command[:3] == ["ekiden", "watch", "--after"]
    assert command[4:] == ["--agent", "orders", "--type", "handoff"]
