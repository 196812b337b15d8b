"""`ekiden session fork`, `rewind`, `export`, `import`, `search` and `prune`, and `/fork`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Ekiden

ORDER = "Where is my order 1042?"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two sessions in its store."""
    folder = tmp_path_factory.mktemp("stored")
    ekiden = Ekiden(folder)
    ekiden("run", "--session", "s1", ORDER)
    ekiden("run", "--session", "s1", "and 1043?")
    ekiden("run", "--session", "s2", "我要退款了")
    return folder


@pytest.fixture
def desk(ekiden: Ekiden, stored: Path) -> Ekiden:
    """The command, with two sessions stored."""
    shutil.copytree(stored, ekiden.folder, dirs_exist_ok=True)
    return ekiden


def events_of(desk: Ekiden, session: str) -> list[Any]:
    found: list[Any] = desk("session", "export", session).json["events"]
    return found


def test_a_fork_continues_from_any_event(desk: Ekiden) -> None:
    moved = next(e["seq"] for e in events_of(desk, "s1") if e["event_type"] == "handoff")
    ran = desk("session", "fork", "s1", "--at", str(moved), "--id", "b1", "--json")
    assert ran.json == {
        "session_id": "b1",
        "forked_from": "s1",
        "forked_at": moved,
        "agent": "orders",
        "events": ran.json["events"],
        "unfinished": True,
    }
    assert desk("session", "resume", "b1").code == 0
    shown, whole = desk("session", "show", "b1", "--json").json, desk("session", "show", "s1").out
    assert shown["metadata"]["agent_chain"] == ["user", "triage", "orders"]
    assert shown["metadata"]["handoff_count"] == 1
    assert "1043" in whole
    assert desk("audit", "verify").code == 0
    plain = desk("session", "fork", "s1", "--before", str(_second(desk)))
    assert "continues from before event" in plain.out
    assert "after event" in desk("session", "fork", "s1").out


def _second(desk: Ekiden) -> int:
    """The event of the second message."""
    return next(int(event["seq"]) for event in events_of(desk, "s1") if "1043" in str(event))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fork", "s1", "--at", "1", "--before", "1"], "not both"),
        (["fork", "s1", "--before", "1"], "nothing"),
        (["fork", "s1", "--at", "999"], "no event 999"),
        (["fork", "s1", "--at", "1", "--id", "s2"], "exists already"),
        (["fork", "nobody"], "no session"),
        (["rewind", "s1", "--to", "999"], "no event 999"),
        (["rewind", "nobody", "--to", "1"], "no session"),
        (["import", "missing.json"], "cannot read"),
        (["import", "missing.json", "--user", ""], "--user is empty"),
        (["prune"], "name the sessions to delete"),
        (["prune", "--older-than", "soon"], "is not a time"),
        (["prune", "--older-than", "2999-01-01"], "future"),
        (["search", "x", "--user", ""], "user"),
    ],
)
def test_a_refused_session_command_prints_the_reason_and_exit_code(
    desk: Ekiden, arguments: list[str], said: str
) -> None:
    ran = desk("session", *arguments)
    assert said in ran.err
    assert ran.code != 0
    as_json = desk("session", *arguments, "--json")
    assert said in as_json.error["message"]
    assert as_json.code == ran.code


@pytest.mark.slow
def test_a_session_is_rewound_and_the_rewind_is_undone(desk: Ekiden) -> None:
    whole = desk("session", "show", "s1", "--json").json
    before = _second(desk) - 1
    ran = desk("session", "rewind", "s1", "--to", str(before), "--json")
    assert (ran.json["to_seq"], ran.json["undone"]) == (before, whole["events"] - before)
    shown = desk("session", "show", "s1")
    assert "1043" not in shown.out
    assert f"rewound to after event {before}" in shown.out
    assert desk("audit", "verify").code == 0
    again = desk("session", "rewind", "s1", "--to", str(whole["events"]))
    assert "Effects of tools outside the session are not rolled back." in again.out
    assert desk("session", "show", "s1", "--json").json["items"] == whole["items"]


def test_a_session_is_moved_to_another_store(desk: Ekiden, tmp_path: Path) -> None:
    desk("session", "export", "s1", "-o", "s1.json")
    other = str(tmp_path / "other.db")
    ran = desk("session", "import", "s1.json", "--store", other, "--json")
    assert ran.json["session_id"] == "s1"
    old = desk("session", "show", "s1", "--json").json
    new = desk("session", "show", "s1", "--store", other, "--json").json
    assert new["items"] == old["items"]
    assert desk("audit", "verify", "--store", other).code == 0
    assert desk("run", "--session", "s1", "--store", other, "thanks").code == 0
    piped = (desk.folder / "s1.json").read_bytes()
    assert "imported copy" in desk("session", "import", "-", "--id", "copy", input=piped).out
    given = desk("session", "import", "-", "--id", "given", "--user", "mira", input=piped)
    assert "belongs to user mira" in given.out
    owned = desk("session", "import", "-", "--id", "own", "--user", "mira", "--json", input=piped)
    assert owned.json["user_id"] == "mira"
    taken = desk("session", "import", "-", "--json", input=piped)
    assert taken.error["code"] == "session.exists"
    broken = desk("session", "import", "-", "--json", input=b'{"format": "ekiden.session"}')
    assert broken.error["code"] == "session.import_invalid"
    assert desk("session", "import", "-", input=b"\xff").code == broken.code != 0


@pytest.mark.slow
def test_sessions_are_searched_by_content(desk: Ekiden) -> None:
    hits = desk("session", "search", "退款", "--json").json
    assert {hit["session_id"] for hit in hits} == {"s2"}
    assert {hit["where"] for hit in hits} == {"title", "message"}
    assert "1042" in desk("session", "search", "1042").out
    assert desk("session", "search", "1042", "--user", "ada").out == ""
    desk("session", "delete", "s2", "--yes")
    assert desk("session", "search", "退款", "--json").json == []


@pytest.mark.slow
def test_old_sessions_are_removed(desk: Ekiden) -> None:
    would = desk("session", "prune", "--keep", "1", "--dry-run", "--json").json
    assert (would["sessions"], would["dry_run"]) == (1, True)
    assert len(desk("session", "list", "--json").json) == 2
    assert "0 sessions" in desk("session", "prune", "--older-than", "30d", "--yes").out
    ran = desk("session", "prune", "--yes", EKIDEN_RETENTION_COUNT="1")
    assert ran.out.startswith("1 session, ")
    assert ran.err.strip() == "s1"
    assert [each["session_id"] for each in desk("session", "list", "--json").json] == ["s2"]


@pytest.mark.slow
def test_chat_forks_and_searches_sessions(desk: Ekiden) -> None:
    lines = b"/fork\n/fork 99999\n/session search 1042\n/fork 4\n/quit\n"
    ran = desk("chat", "--session", "s1", "--json", input=lines)
    told = [json.loads(line) for line in ran.out.splitlines()]
    branched = [each for each in told if each.get("forked_from")]
    assert len(branched) == 2
    assert branched[0]["forked_from"] == "s1"
    [hits] = [each["hits"] for each in told if each["type"] == "hits"]
    assert "s1" in {hit["session_id"] for hit in hits}
    assert "no event" in ran.out + ran.err


def test_the_request_of_a_model_call_is_written(ekiden: Ekiden) -> None:
    ekiden("init")
    ekiden("run", "--session", "s1", ORDER)
    asked = [e for e in events_of(ekiden, "s1") if e["event_type"] == "llm_call"]
    assert ekiden("session", "request", "s1").json["seq"] == asked[-1]["seq"]
    first = ("session", "request", "s1", "--event", str(asked[0]["seq"]))
    assert "sent.json" in ekiden(*first, "-o", "sent.json").err
    written = json.loads((ekiden.folder / "sent.json").read_bytes())
    assert written["input"] == [{"role": "user", "content": ORDER}]
    wrong = ekiden("session", "request", "s1", "--event", "1", "--json")
    assert "no model call" in wrong.error["message"]
