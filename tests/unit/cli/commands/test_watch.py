"""`ekiden watch`, in this process."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ekiden.core.events import Event
from ekiden.storage.base import Batch
from ekiden.storage.sqlite import SqliteStore
from tests.unit.audit.written import story, write
from tests.unit.cli.commands.conftest import Desk, Ran


@pytest.fixture
def watched(desk: Desk) -> Desk:
    """The project's store with two sessions and a question to a person."""

    async def put() -> None:
        async with SqliteStore(desk.folder / ".ekiden" / "ekiden.db") as store:
            await write(store, story("s1"))
            question = Event(
                session_id="", seq=0, type="inbox", at_us=1, agent="billing",
                details={"change": "posted", "subject": "10 % off? \x1b[2J \ud800", "task": "s1"},
            )  # fmt: skip
            await store.write(Batch(events=[question]))
            await write(store, story("s2"))

    asyncio.run(put())
    return desk


def _objects(ran: Ran) -> list[Any]:
    return [json.loads(line) for line in ran.out.splitlines()]


def test_once_prints_all_stored_events(watched: Desk) -> None:
    ran = watched("watch", "--once", "--json")
    found = _objects(ran)
    assert ran.code == 0
    assert json.loads(ran.err) == {"after": found[-1]["id"]}
    assert [each["session_id"] for each in found] == sorted(
        (each["session_id"] for each in found), key=["s1", "", "s2"].index
    )
    assert len({each["id"] for each in found}) == len(found)
    for number, options in [(0, ["--after", ""]), (3, ["--after", found[2]["id"]])]:
        assert _objects(watched("watch", "--once", "--json", *options)) == found[number:]


def test_event_lines_are_escaped(watched: Desk) -> None:
    shown = watched("watch", "--once", "--type", "inbox").out
    assert "  -  billing  inbox  posted 10 % off? \\x1b[2J \\ud800" in shown
    assert len(shown.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (["--session", "s2"], lambda event: event["session_id"] == "s2"),
        (["--session", "s1"], lambda event: event["session_id"] in ("s1", "")),
        (["--session", "s2", "--session", "s1"], lambda event: True),
        (["--agent", "nobody"], lambda event: False),
        (["--type", "route", "--type", "inbox"], lambda e: e["event_type"] in ("route", "inbox")),
    ],
)
def test_options_filter_the_events(watched: Desk, options: list[str], kept: Any) -> None:
    everything = _objects(watched("watch", "--once", "--json"))
    found = _objects(watched("watch", "--once", "--json", *options))
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
def test_invalid_watch_options_are_refused(
    watched: Desk, options: list[str], code: int, error: str
) -> None:
    ran = watched("watch", "--json", *options)
    assert (ran.code, ran.out, ran.error["code"]) == (code, "", error)
    assert not (watched.folder / "missing.db").exists()


def test_the_command_to_continue_has_the_same_options(watched: Desk) -> None:
    path = ".ekiden/ekiden.db"
    ran = watched("watch", "--once", "--agent", "a b", "--session", "s9", "--store", path)
    command = f"--session s9 --agent 'a b' --store {watched.folder / path}"
    assert ran.err.startswith("continue with: ekiden watch --after ")
    assert ran.err.rstrip().endswith(command)
