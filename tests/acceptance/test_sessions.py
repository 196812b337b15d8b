"""`ekiden session …` and `ekiden chain`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ekiden.project import open_store
from tests.acceptance.conftest import Ekiden

ORDER = "Where is my order 1042?"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three sessions in its store."""
    folder = tmp_path_factory.mktemp("stored")
    ekiden = Ekiden(folder)
    ekiden("run", "--session", "s1", ORDER)
    ekiden("run", "--session", "s2", "I want a refund for 1044")
    ekiden("run", "--session", "s3", "你好 👋")
    return folder


@pytest.fixture
def desk(ekiden: Ekiden, stored: Path) -> Ekiden:
    """The command, with three sessions stored."""
    shutil.copytree(stored, ekiden.folder, dirs_exist_ok=True)
    return ekiden


def test_sessions_are_listed_newest_first(desk: Ekiden) -> None:
    ran = desk("session", "list")
    header, *rows = ran.out.splitlines()
    headers = ["session", "agent", "status", "conclusion", "events", "created", "title"]
    assert header.split() == headers
    assert [row.split()[:4] for row in rows] == [
        ["s3", "triage", "idle", "succeeded"],
        ["s2", "billing", "idle", "succeeded"],
        ["s1", "orders", "idle", "succeeded"],
    ]
    assert [row.rpartition("  ")[2] for row in rows] == [
        "你好 👋",
        "I want a refund for 1044",
        ORDER,
    ]


@pytest.mark.slow
def test_the_title_of_a_session_is_its_first_message(ekiden: Ekiden) -> None:
    ekiden("run", "--session", "s", f"@billing {'long ' * 30}")
    ekiden("run", "--session", "s", "something else")
    [listed] = ekiden("session", "list", "--json").json
    assert listed["meta"]["title"] == f"{'long ' * 11}long…"


@pytest.mark.slow
def test_lists_are_printed_as_array_or_lines_of_the_same_objects(desk: Ekiden) -> None:
    array = desk("session", "list", "--json").json
    lines = desk("session", "list", "--json-lines").out.splitlines()
    assert [json.loads(line) for line in lines] == array
    assert [each["session_id"] for each in array] == ["s3", "s2", "s1"]
    assert set(array[0]) == {
        "session_id", "agent", "status", "outcome", "user_id", "priority", "meta", "events",
        "owner", "created_at", "updated_at", "state", "title", "run_id", "waiting_for",
    }  # fmt: skip


@pytest.mark.slow
def test_a_page_prints_how_to_get_the_next(desk: Ekiden) -> None:
    first = desk("session", "list", "--json", "--limit", "2")
    cursor = json.loads(first.err)["next_cursor"]
    second = desk("session", "list", "--json", "--limit", "2", "--cursor", cursor)
    assert [each["session_id"] for each in first.json + second.json] == ["s3", "s2", "s1"]
    assert second.err == ""
    assert desk("session", "list", "--limit", "1").err.startswith("more: --cursor ")
    lines = desk("session", "list", "--json-lines", "--limit", "1")
    assert len(lines.out.splitlines()) == 1


@pytest.mark.slow
def test_an_invalid_cursor_exits_with_2(desk: Ekiden) -> None:
    assert desk("session", "list", "--cursor", "nonsense!").code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--agent", "orders"], ["s1"]),
        (["--outcome", "done", "--state", "idle"], ["s3", "s2", "s1"]),
        (["--outcome", "failed"], []),
        (["--user", "nobody"], []),
    ],
)
def test_lists_can_be_filtered(desk: Ekiden, options: list[str], found: list[str]) -> None:
    listed = desk("session", "list", "--json", *options).json
    assert [each["session_id"] for each in listed] == found


@pytest.mark.slow
def test_an_empty_list_prints_a_message(desk: Ekiden) -> None:
    assert desk("session", "list", "--agent", "nobody").out == "no sessions\n"


def test_a_conversation_is_shown_in_order(desk: Ekiden) -> None:
    shown = desk("session", "show", "s1").out
    heading, conversation = shown.split("\n\n")
    assert heading.splitlines()[:3] == [
        "session: s1",
        "agent: orders",
        "state: idle, last run succeeded",
    ]
    lines = conversation.splitlines()
    assert lines[0] == f"user: {ORDER}"
    assert lines[1] == "handoff: triage → orders: a question about an order"
    assert lines[2] == 'orders: lookup_order(order_id="1042")'
    assert lines[3].startswith('lookup_order: {"order_id":')
    assert lines[4] == "orders: Order 1042 is shipped with Yamato, expected 2026-11-18."


@pytest.mark.slow
def test_a_conversation_as_json_has_its_items(desk: Ekiden) -> None:
    shown = desk("session", "show", "s1", "--json").json
    assert shown["items"][0] == {"role": "user", "content": ORDER}
    assert [each["to"] for each in shown["handoffs"]] == ["orders"]


def test_the_chain_shows_each_handoff_and_its_reason(desk: Ekiden) -> None:
    shown = desk("chain", "s1").out.splitlines()
    assert shown[0] == "s1: user → triage → orders"
    assert shown[1].split() == ["time", "from", "to", "status", "policy", "took", "why"]
    row = shown[2].split()[2:]
    assert row[:4] == ["triage", "orders", "completed", "graceful"]
    assert row[6:] == "a question about an order".split()


@pytest.mark.slow
def test_chain_without_an_id_shows_the_newest_session(desk: Ekiden) -> None:
    assert desk("chain", "--json").json == {
        "session_id": "s3",
        "chain": ["user", "triage"],
        "handoffs": [],
    }
    assert desk("chain").out == "s3: user → triage\n"


def test_an_export_is_complete_and_names_its_version(desk: Ekiden) -> None:
    exported = desk("session", "export", "s1").json
    assert (exported["format"], exported["version"]) == ("ekiden.session", 1)
    assert [event["seq"] for event in exported["events"]] == list(
        range(1, exported["session"]["events"] + 1)
    )


@pytest.mark.slow
def test_an_export_to_a_file_never_overwrites(desk: Ekiden) -> None:
    assert desk("session", "export", "s3", "--output", "out.json").code == 0
    assert "你好 👋" in (desk.folder / "out.json").read_text(encoding="utf-8")
    again = desk("session", "export", "s1", "-o", "out.json")
    assert (again.code, "cannot write out.json: File exists" in again.err) == (2, True)


@pytest.mark.slow
def test_a_deleted_session_is_gone(desk: Ekiden) -> None:
    assert desk("session", "delete", "s1", "--yes").out == "s1 is deleted\n"
    assert desk("session", "delete", "s2", "--yes", "--json").json == {
        "session_id": "s2",
        "deleted": True,
    }
    assert [each["session_id"] for each in desk("session", "list", "--json").json] == ["s3"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["show", "export", "delete", "resume"])
def test_an_unknown_session_exits_with_5(desk: Ekiden, command: str) -> None:
    ran = desk("session", command, "s9", "--json")
    assert (ran.code, ran.error["code"]) == (5, "session.not_found")


@pytest.mark.slow
def test_chain_of_an_unknown_session_exits_with_5(desk: Ekiden) -> None:
    assert desk("chain", "s9").code == 5
    for session in ("s1", "s2", "s3"):
        desk("session", "delete", session, "--yes")
    assert "the store has no sessions yet" in desk("chain").err


async def test_a_session_that_is_running_exits_with_6(desk: Ekiden, tmp_path: Path) -> None:
    async with open_store(str(tmp_path / ".ekiden" / "ekiden.db")) as store:
        claim, _ = await store.claim("s1", owner="somebody", lease_s=60)
        deleted = desk("session", "delete", "s1", "--yes", "--json")
        told = desk("run", "--no-wait", "--session", "s1", "hello")
        await store.release(claim)
    assert (deleted.code, deleted.error["code"]) == (6, "session.busy")
    assert (told.code, "is being run by 'somebody'" in told.err) == (6, True)
