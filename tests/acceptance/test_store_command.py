"""Whole stores as people copy, back up, restore and check them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import Ekiden
from tests.support.sql import connect
from tests.support.sqlite import execute


@pytest.fixture
def desk(ekiden: Ekiden) -> Ekiden:
    """A store `desk.db` with a session of the demo team."""
    assert ekiden("run", "--session", "parcel", "--store", "desk.db", "Order 1042?").code == 0
    return ekiden


async def test_a_store_is_copied_to_a_database_backed_up_and_restored(
    postgres_tools: Path, desk: Ekiden, postgres_url: str
) -> None:
    there = desk("store", "copy", "desk.db", postgres_url)
    assert there.code == 0, there.err
    assert there.out.startswith("copied ")
    assert "unbroken" in there.out
    made = desk("store", "backup", "desk.dump", "--store", postgres_url, "--json")
    assert (made.code, made.err, made.json["ok"]) == (0, "", True)
    connection = await connect(postgres_url)
    schema = postgres_url.rpartition("schema=")[2]
    await connection.execute(f"set client_min_messages = warning; drop schema {schema} cascade")
    await connection.close()
    restored = desk("store", "restore", "desk.dump", "--store", postgres_url, "--json")
    assert (restored.code, restored.err) == (0, "")
    [told] = restored.json["tenants"]
    assert (told["tenant"], told["audit"]["sessions"]) == ("default", 1)
    for store in ("desk.db", postgres_url):
        assert "order 1042" in desk("session", "show", "parcel", "--store", store).out.lower()
        assert desk("store", "verify", "--store", store).out.endswith("the store is intact\n")
    first, last = (
        desk("session", "export", "parcel", "--store", store).out
        for store in ("desk.db", postgres_url)
    )
    assert json.loads(first) == json.loads(last)


def test_a_backup_is_one_file_and_can_be_restored(desk: Ekiden) -> None:
    made = desk("store", "backup", "monday.db", "--store", "desk.db")
    assert made.code == 0, made.err
    assert [each.name for each in desk.folder.glob("monday*")] == ["monday.db"]
    before = (desk.folder / "monday.db").read_bytes()
    restored = desk("store", "restore", "monday.db", "--json")
    assert restored.code == 0, restored.err
    assert restored.json["target"] == str(desk.folder / ".ekiden" / "ekiden.db")
    assert desk("session", "list", "--json").json[0]["session_id"] == "parcel"
    assert (desk.folder / "monday.db").read_bytes() == before
    again = desk("store", "restore", "monday.db", "--json")
    assert (again.code, again.error["code"]) == (2, "store.not_empty")
    twice = desk("store", "backup", "monday.db", "--store", "desk.db", "--json")
    assert (twice.code, twice.error["code"]) == (2, "store.not_empty")


@pytest.mark.slow
def test_a_session_continues_in_a_restored_store(desk: Ekiden) -> None:
    desk("store", "backup", "monday.db", "--store", "desk.db")
    desk("store", "restore", "monday.db", "--store", "new.db")
    more = desk("run", "--session", "parcel", "--store", "new.db", "And order 1043?")
    assert more.code == 0, more.err
    assert desk("audit", "verify", "--store", "new.db").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("copy", "nothing.db", "postgresql://host/x"), 7, "store.unavailable"),
        (("copy", "desk.db", "new.db"), 2, "user.error"),
        (("copy", "postgresql://host/x", "new.db"), 2, "user.error"),
        (("copy", "postgresql://host/x", "postgresql://host/y"), 2, "user.error"),
        (("copy", "desk.db", "memory:"), 2, "user.error"),
        (("copy", "desk.db", "mysql://x/y"), 2, "user.error"),
        (("copy", "desk.db"), 2, "cli.usage"),
        (("backup", "new.db", "--store", "desk.db", "--tenants", "acme"), 2, "user.error"),
        (("backup", "no/such/folder/new.db", "--store", "desk.db"), 7, "store.unavailable"),
        (("restore", "desk.db", "--store", "postgresql://host/x"), 2, "user.error"),
        (("backup", "desk.db", "--store", "desk.db"), 2, "user.error"),
        (("restore", "nothing.db"), 7, "store.unavailable"),
        (("restore", "postgresql://host/x"), 7, "store.unavailable"),
        (("verify", "--store", "nothing.db"), 7, "store.unavailable"),
        (("info", "--store", "memory:"), 2, "user.error"),
        (("info", "--server", "http://127.0.0.1:1"), 2, "cli.usage"),
    ],
)
def test_an_impossible_store_command_is_refused_without_creating_files(
    desk: Ekiden, arguments: tuple[str, ...], code: int, error: str
) -> None:
    told = desk("store", *arguments, "--json")
    assert (told.code, told.error["code"], told.out) == (code, error, "")
    assert not (desk.folder / "new.db").exists()
    assert not (desk.folder / ".ekiden" / "ekiden.db").exists()


@pytest.mark.slow
def test_store_faults_are_reported(desk: Ekiden) -> None:
    path = desk.folder / "desk.db"
    execute(path, "UPDATE events SET agent = 'mallory' WHERE type = 3")
    execute(path, "INSERT INTO steps (session, key, result) VALUES (99, 'k', '1')")
    told = desk("store", "verify", "--store", "desk.db")
    assert told.code == 8
    assert "first broken link: parcel/" in told.out
    assert "wrong: 1 of the rows in steps belong to none of the sessions" in told.out
    listed = desk("store", "verify", "--store", "desk.db", "--json").json
    assert (listed["ok"], listed["tenants"][0]["tenant"]) == (False, "default")
    copied = desk("store", "backup", "new.db", "--store", "desk.db")
    assert copied.code == 8
    assert "first broken link: parcel/" in copied.out
    assert "faults in the copy are also in the source" in copied.err


@pytest.mark.slow
def test_store_info_lists_every_tenant(desk: Ekiden) -> None:
    (desk.folder / "desk.tenants").mkdir()
    desk("run", "--store", "desk.tenants/acme.db", "Order 1042?")
    shown = desk("store", "info", "--store", "desk.db")
    assert "desk.db: sqlite" in shown.out
    assert [line.split()[0] for line in shown.out.splitlines()[2:]] == ["default", "acme"]
    [acme] = desk("store", "info", "--store", "desk.db", "--tenants", "acme", "--json").json
    assert (acme["tenant"], acme["sessions"], acme["unfinished"]) == ("acme", 1, None)
    found = desk("store", "verify", "--store", "desk.db")
    assert "tenant acme:" in found.out
    backup = desk("store", "backup", "all.db", "--store", "desk.db")
    assert backup.code == 0
    assert (desk.folder / "all.tenants" / "acme.db").exists()


@pytest.mark.slow
async def test_every_command_reports_an_unfinished_copy(desk: Ekiden, postgres_url: str) -> None:
    desk("store", "copy", "desk.db", postgres_url)
    source = desk.folder / "desk.db"
    connection = await connect(postgres_url)
    await connection.execute(
        "insert into documents (collection, key, body) values ('ekiden.store', 'unfinished', $1)",
        json.dumps({"v": 1, "source": str(source), "owner": "me"}),
    )
    await connection.close()
    for command in (("session", "list"), ("run", "hi"), ("audit", "list"), ("doctor",)):
        told = desk(*command, "--store", postgres_url, "--json")
        assert told.code != 0
        assert f"unfinished copy of {source}" in told.out + told.err
    assert "default is an unfinished copy" in desk("store", "info", "--store", postgres_url).out
    done = desk("store", "copy", "desk.db", postgres_url, "--resume")
    assert done.code == 0
    assert desk("session", "list", "--store", postgres_url).code == 0


@pytest.mark.slow
def test_a_copy_reports_the_process_that_uses_the_source(desk: Ekiden, postgres_url: str) -> None:
    execute(desk.folder / "desk.db", f"UPDATE sessions SET owner = 'me', lease_until = {2**60}")
    refused = desk("store", "copy", "desk.db", postgres_url, "--final", "--json")
    assert (refused.code, refused.error["code"]) == (7, "store.in_use")
    copied = desk("store", "copy", "desk.db", postgres_url)
    assert copied.code == 0
    assert "1 of the sessions were in use" in copied.err
