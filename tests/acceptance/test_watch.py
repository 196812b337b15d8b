"""`ekiden watch`: one process looks on while another one works."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Ekiden

ORDER = "Where is my order 1042?"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Ekiden:
    """A folder with two sessions, which are only looked at."""
    ekiden = Ekiden(tmp_path_factory.mktemp("stored"))
    ekiden("run", "--session", "s1", ORDER)
    ekiden("run", "--session", "s2", "你好 👋")
    return ekiden


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
def watched(stored: Ekiden, ekiden: Ekiden) -> Ekiden:
    """A folder of its own with a store that others wrote to."""
    (ekiden.folder / ".ekiden").mkdir()
    for file in (stored.folder / ".ekiden").iterdir():
        if file.is_file():
            (ekiden.folder / ".ekiden" / file.name).write_bytes(file.read_bytes())
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
def test_what_another_process_does_is_seen_and_gone_on_with(
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


@pytest.mark.parametrize("watching", [["--type", "handoff", "--agent", "orders"]], indirect=True)
def test_people_read_lines_and_are_told_how_to_go_on(watched: Ekiden, watching: Watching) -> None:
    assert watching.error_line().endswith(".ekiden/ekiden.db; Ctrl-C ends it\n")
    watched("run", "--session", "s3", ORDER)
    first, second = watching.until("(completed)")
    assert "  s3  triage  handoff  triage → orders (transferring) a question about" in first
    assert "  s3  orders  handoff  triage → orders (completed)" in second
    code, out, err = watching.interrupt()
    assert (code, out) == (130, "")
    command = shlex.split(err.removeprefix("go on with: "))
    assert command[:3] == ["ekiden", "watch", "--after"]
    assert command[4:] == ["--agent", "orders", "--type", "handoff"]


def test_once_shows_what_is_there(stored: Ekiden) -> None:
    ran = stored("watch", "--once", "--json")
    found = _objects(ran.out)
    assert ran.code == 0
    assert json.loads(ran.err) == {"after": found[-1]["id"]}
    assert {each["session_id"] for each in found} == {"s1", "s2"}
    assert len({each["id"] for each in found}) == len(found)
    for number, options in [(0, ["--after", ""]), (3, ["--after", found[2]["id"]])]:
        assert _objects(stored("watch", "--once", "--json", *options).out) == found[number:]
    assert "user: 你好 👋" in stored("watch", "--once", "--session", "s2").out


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (["--session", "s2"], lambda event: event["session_id"] == "s2"),
        (["--session", "s2", "--session", "s1"], lambda event: True),
        (["--agent", "nobody"], lambda event: False),
        (
            ["--type", "handoff", "--type", "agent_start"],
            lambda event: event["event_type"] in ("handoff", "agent_start"),
        ),
    ],
)
def test_only_what_is_asked_for_is_shown(stored: Ekiden, options: list[str], kept: Any) -> None:
    everything = _objects(stored("watch", "--once", "--json").out)
    found = _objects(stored("watch", "--once", "--json", *options).out)
    assert found == [event for event in everything if kept(event)]


@pytest.mark.parametrize(
    ("options", "code", "error"),
    [
        (["--after", "nonsense"], 2, "user.error"),
        (["--type", "nonsense"], 2, "cli.usage"),
        (["--store", "memory:"], 2, "cli.usage"),
        (["--store", "missing.db"], 7, "store.unavailable"),
    ],
)
def test_what_cannot_be_watched_is_refused(
    stored: Ekiden, options: list[str], code: int, error: str
) -> None:
    ran = stored("watch", "--json", *options)
    assert (ran.code, ran.out, ran.error["code"]) == (code, "", error)
    assert not (Path(stored.folder) / "missing.db").exists()
