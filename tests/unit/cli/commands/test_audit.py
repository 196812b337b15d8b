"""`ekiden audit …`, in this process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ekiden.core.events import Event
from ekiden.storage.base import Batch
from ekiden.storage.sqlite import SqliteStore
from tests.support.sqlite import execute
from tests.unit.audit.written import BEGINNING, handoff, story, write
from tests.unit.cli.commands.conftest import Desk

HOSTILE = "pay \x1b[2J\u202e\x7f\x9b now \ud800 付款"


@pytest.fixture(autouse=True)
def store(desk: Desk) -> Path:
    """The project's store, with a session that has a story."""
    path = desk.folder / ".ekiden" / "ekiden.db"
    fill(path, story("s"))
    return path


def fill(path: Path, events: list[Event], unhashed: list[Event] | None = None) -> None:
    """Store a session."""

    async def put() -> None:
        async with SqliteStore(path) as store:
            await write(store, events, unhashed=unhashed or ())

    asyncio.run(put())


def test_a_table_has_a_line_for_each_move(desk: Desk) -> None:
    listed = desk("audit", "list")
    assert listed.code == 0
    lines = listed.out.splitlines()
    assert [line.split()[:2] for line in lines[:1]] == [["time", "record"]]
    assert [line.split()[2] for line in lines[1:]] == [
        "s/6",
        "s/5",
        "s/3.3",
        "s/3.2",
        "s/3.1",
        "s/2",
    ]
    assert "person ms.sato" in lines[1]
    assert lines[3].endswith("包裹 📦")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--agent", "router"), ["s/2"]),
        (("--status", "validating"), ["s/3.2"]),
        (("--type", "tool_confirmation"), ["s/6"]),
        (("--handoff", "s.h1", "--status", "completed"), ["s/5"]),
        (("--task", "s", "--type", "route"), ["s/2"]),
        (("--correlation", "x"), []),
        (("--session", "x"), []),
        (("--since", "2023-11-14T22:13:26Z"), ["s/6"]),
        (("--until", "2023-11-14T22:13:23+00:00"), ["s/2"]),
        (("--since", "1h"), []),
        (("--until", "5m", "--type", "route"), ["s/2"]),
        (("--oldest-first", "--limit", "2"), ["s/2", "s/3.1"]),
    ],
)
def test_options_filter_the_records(
    desk: Desk, options: tuple[str, ...], expected: list[str]
) -> None:
    listed = desk("audit", "list", "--json", *options)
    assert listed.code == 0
    assert [each["id"] for each in listed.json] == expected


def test_an_empty_result_is_not_an_error(desk: Desk) -> None:
    assert desk("audit", "list", "--agent", "x").out == "no records\n"


def test_pages_continue_with_the_cursor(desk: Desk) -> None:
    first = desk("audit", "list", "--json", "--limit", "4")
    cursor = json.loads(first.err)["next_cursor"]
    rest = desk("audit", "list", "--json", "--cursor", cursor)
    assert rest.err == ""
    assert [each["id"] for each in (*first.json, *rest.json)] == [
        "s/6",
        "s/5",
        "s/3.3",
        "s/3.2",
        "s/3.1",
        "s/2",
    ]
    assert desk("audit", "list", "--limit", "4").err == f"more: --cursor {cursor}\n"


@pytest.mark.parametrize(
    "options",
    [
        ("--limit", "0"),
        ("--limit", "1001"),
        ("--status", "done"),
        ("--type", "message"),
        ("--since", "yesterday"),
        ("--since", "2h ago"),
        ("--until", "999999w"),
        ("--until", ""),
        ("--cursor", "x"),
        ("--cursor", ""),
    ],
)
def test_invalid_options_exit_with_2(desk: Desk, options: tuple[str, str]) -> None:
    listed = desk("audit", "list", "--json", *options)
    assert listed.code == 2
    assert listed.error["message"]


def test_a_record_is_shown_with_all_details(desk: Desk) -> None:
    shown = desk("audit", "show", "s/6")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert "record: s/6" in lines
    assert "who: person ms.sato" in lines
    assert "tool: refund" in lines
    assert "approved: true" in lines
    assert "previous: none: first record" in desk("audit", "show", "s/2").out


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("s/3.2", ["s/3.2"]),
        ("s/3", ["s/3.1", "s/3.2", "s/3.3"]),
        ("s.h1", ["s/3.1", "s/3.2", "s/3.3", "s/5"]),
        ("elsewhere.h1", ["t/1.1", "t/1.2", "t/1.3"]),
        ("order-7", ["u/1"]),
    ],
)
def test_a_record_or_a_handoff_is_found_by_its_id(
    desk: Desk, store: Path, name: str, expected: list[str]
) -> None:
    fill(store, [handoff("t", 1, *BEGINNING, id="elsewhere.h1")])
    fill(store, [handoff("u", 1, "failed", id="order-7")])
    assert [each["id"] for each in desk("audit", "show", name, "--json").json] == expected
    assert desk("audit", "show", name).out.count("record: ") == len(expected)


@pytest.mark.parametrize("name", ["s/99", "s/1", "s/3.9", "x/1", "s.h9", "x", "", "/", "s/0"])
def test_an_unknown_record_exits_with_5(desk: Desk, name: str) -> None:
    shown = desk("audit", "show", name, "--json")
    assert shown.code == 5
    assert shown.error["code"] == "cli.no_record"


def test_text_of_people_and_models_is_escaped_on_a_terminal(desk: Desk, store: Path) -> None:
    fill(store, [handoff("h", 1, "failed", reason=HOSTILE, to=HOSTILE, note={"x": HOSTILE})])
    for command in (("list",), ("show", "h/1"), ("export",), ("list", "--json")):
        out = desk("audit", *command).out
        assert all(char.isprintable() or char in " \n" for char in out)
        assert "付款" in out or "\\u4ed8\\u6b3e" in out
    (exported, _) = desk("audit", "export", "--session", "h").out.splitlines()
    assert json.loads(exported)["reason"] == HOSTILE
    (desk.folder / "piped.jsonl").write_text(desk("audit", "export").out, encoding="utf-8")
    assert desk("audit", "verify", "--against", "piped.jsonl").code == 0


def test_a_verification_lists_the_checked_parts(desk: Desk, store: Path) -> None:
    fill(store, [], unhashed=story("old"))
    verified = desk("audit", "verify")
    assert verified.code == 0
    lines = verified.out.splitlines()
    assert lines[:2] == [
        "2 sessions, 1 with a chain; 4 audited events verified",
        "not chained: 4 audited events, written by an earlier version or with events "
        "switched off; 1 session without any chain",
    ]
    assert lines[-3].startswith("checked: the hash chain of each session; ")
    assert lines[-2].startswith("not checked: whether whole sessions were deleted")
    assert lines[-1] == "the audit is intact"
    assert desk("audit", "verify", "--session", "s").out.startswith("1 session, 1 with a chain")
    assert desk("audit", "verify", "--session", "x").code == 5


def test_a_broken_audit_exits_with_8_and_names_the_broken_links(desk: Desk, store: Path) -> None:
    for number in range(25):
        fill(store, story(f"t{number}"))
    execute(store, "UPDATE events SET agent = 'other' WHERE type = 3 AND seq = 5")
    verified = desk("audit", "verify")
    assert verified.code == 8
    lines = verified.out.splitlines()
    assert [line.startswith("first broken link: ") for line in lines].count(True) == 1
    assert [line.startswith("broken: ") for line in lines].count(True) == 19
    assert lines[-1] == "… and 6 more; --json lists up to 1,000"
    result = desk("audit", "verify", "--json")
    assert result.code == 8
    assert (result.json["ok"], result.json["broken"], len(result.json["links"])) == (False, 26, 26)


def test_an_existing_file_is_not_overwritten(desk: Desk) -> None:
    assert desk("audit", "export", "-o", "a.jsonl").err == "wrote 6 records to a.jsonl\n"
    before = (desk.folder / "a.jsonl").read_bytes()
    again = desk("audit", "export", "-o", "a.jsonl", "--json")
    assert (again.code, again.error["code"]) == (2, "cli.usage")
    assert (desk.folder / "a.jsonl").read_bytes() == before
    assert desk("audit", "export", "-o", "missing/a.jsonl").code == 2


def test_a_filter_restricts_an_export(desk: Desk) -> None:
    (record, manifest) = desk("audit", "export", "--type", "route").out.splitlines()
    assert json.loads(record)["id"] == "s/2"
    assert json.loads(manifest)["records"] == 1


def test_an_unreadable_export_exits_with_2(desk: Desk) -> None:
    for name in ("missing.jsonl", "."):
        verified = desk("audit", "verify", "--against", name)
        assert verified.code == 2
        assert "cannot read" in verified.err


def test_an_invalid_export_is_reported_as_damaged(desk: Desk) -> None:
    (desk.folder / "a.jsonl").write_bytes(b"\xff\xfe\x00 nonsense")
    verified = desk("audit", "verify", "--against", "a.jsonl")
    assert verified.code == 8
    assert "first broken link: the export was changed: line 1" in verified.out


def test_without_a_store_audit_commands_exit_with_7(desk: Desk, store: Path) -> None:
    store.unlink()
    for command in (("list",), ("show", "s/1"), ("verify",), ("export",)):
        assert desk("audit", *command).code == 7


def test_a_record_without_a_session_can_be_shown_by_its_id(desk: Desk, store: Path) -> None:
    async def put() -> None:
        async with SqliteStore(store) as opened:
            told = Event(session_id="", seq=0, type="inbox", at_us=1, details={"by": "ms.sato"})
            await opened.write(Batch(events=[told]))

    asyncio.run(put())
    assert "no-session/1" in desk("audit", "list", "--type", "inbox").out
    shown = desk("audit", "show", "no-session/1")
    assert shown.code == 0
    assert "ms.sato" in shown.out
