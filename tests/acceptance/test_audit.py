"""`ekiden audit …`: after the file was tampered with, the command names what is broken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.acceptance.conftest import Ekiden, Ran
from tests.support.sqlite import execute

STORE = Path(".ekiden") / "ekiden.db"
S1 = "session = (SELECT num FROM sessions WHERE id = 's1')"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two sessions in its store, and what was exported of them."""
    folder = tmp_path_factory.mktemp("stored")
    ekiden = Ekiden(folder)
    ekiden("run", "--session", "s1", "Where is my order 1042?")
    ekiden("run", "--session", "s1", "@triage I want a refund for 1044")
    ekiden("run", "--session", "s2", "I want a refund for 1044")
    assert ekiden("audit", "export", "--output", "audit.jsonl").code == 0
    return folder


@pytest.fixture
def desk(ekiden: Ekiden, stored: Path) -> Ekiden:
    """The command, with two sessions stored."""
    shutil.copytree(stored, ekiden.folder, dirs_exist_ok=True)
    return ekiden


def audited(desk: Ekiden) -> list[int]:
    """The numbers of the audited events of `s1`."""
    found = execute(
        desk.folder / STORE, f"SELECT seq FROM events WHERE {S1} AND type IN (0, 3) ORDER BY seq"
    )
    return [seq for (seq,) in found]


def meddled(desk: Ekiden, sql: str, *options: str) -> Ran:
    """What `audit verify` says after `sql` was run on the file."""
    execute(desk.folder / STORE, sql)
    return desk("audit", "verify", *options)


def test_stored_audit_records_are_listed_and_verified(desk: Ekiden) -> None:
    listed = desk("audit", "list", "--session", "s1", "--oldest-first", "--json")
    moves = [each["move"] for each in listed.json if each["type"] == "handoff"]
    whole = ["initiated", "validating", "transferring", "completed"]
    assert moves == [*whole, *whole]
    assert [each["actor"]["kind"] for each in listed.json if each["type"] == "route"] == ["person"]
    verified = desk("audit", "verify", "--against", "audit.jsonl")
    assert verified.code == 0
    assert "2 sessions, 2 with a chain" in verified.out
    assert verified.out.endswith("the audit is intact\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "record", "told"),
    [
        (
            "UPDATE events SET details = json_set(details, '$.reason', 'another')"
            " WHERE {s1} AND seq = {first}",
            "{first}",
            "it was changed",
        ),
        ("DELETE FROM events WHERE {s1} AND seq = {second}", "{second}", "it is missing"),
        ("DELETE FROM events WHERE {s1} AND seq >= {last}", "{last}", "at the end of the session"),
        (
            "DELETE FROM events WHERE {s1} AND seq >= {last};"
            "UPDATE sessions SET seq = {last} - 1 WHERE id = 's1'",
            "{before_last}",
            "the session's row says after",
        ),
        (
            "UPDATE events SET seq = -1 WHERE {s1} AND seq = {first};"
            "UPDATE events SET seq = {first} WHERE {s1} AND seq = {second};"
            "UPDATE events SET seq = {second} WHERE {s1} AND seq = -1",
            "{first}",
            "it was changed",
        ),
        (
            "UPDATE events SET details = json_set(details, '$.hash', 'x')"
            " WHERE {s1} AND seq = {second}",
            "{second}",
            "it was changed",
        ),
        (
            "UPDATE events SET details = json_remove(details, '$.hash')"
            " WHERE {s1} AND seq = {second}",
            "{second}",
            "its hash is missing",
        ),
        (
            "UPDATE sessions SET cursor = json_set(cursor, '$.hd', 'x') WHERE id = 's1'",
            "{end}",
            "the chain's head",
        ),
        (
            "UPDATE events SET session = 77 WHERE {s1} AND seq = {second}",
            "{second}",
            "it is missing",
        ),
        ("UPDATE events SET details = '{{' WHERE {s1} AND seq = {first}", "{first}", "be read"),
    ],
)
def test_the_first_broken_link_is_named(desk: Ekiden, sql: str, record: str, told: str) -> None:
    first, second, *_, last = audited(desk)
    ((end,),) = execute(desk.folder / STORE, "SELECT seq FROM sessions WHERE id = 's1'")
    numbers = {"first": first, "second": second, "last": last, "before_last": last - 1, "end": end}
    verified = meddled(desk, sql.format(s1=S1, **numbers))
    assert verified.code == 8
    (line,) = [each for each in verified.out.splitlines() if "broken link" in each]
    assert line.startswith(f"first broken link: s1/{record.format(**numbers)}: ")
    assert told in line


def test_a_deleted_session_is_found_with_an_earlier_export(desk: Ekiden) -> None:
    desk("session", "delete", "s2", "--yes")
    assert desk("audit", "verify").code == 0
    verified = desk("audit", "verify", "--against", "audit.jsonl", "--json")
    assert verified.code == 8
    assert verified.json["ok"] is False
    assert (verified.json["first"]["session_id"], verified.json["first"]["fault"]) == (
        "s2",
        "deleted",
    )


@pytest.mark.slow
def test_an_export_through_a_pipe_is_the_one_in_a_file(desk: Ekiden) -> None:
    piped = desk("audit", "export")
    assert piped.out == (desk.folder / "audit.jsonl").read_text(encoding="utf-8")
    manifest = json.loads(piped.out.splitlines()[-1])
    assert manifest["records"] == len(piped.out.splitlines()) - 1
    assert manifest["heads"].keys() == {"s1", "s2"}
