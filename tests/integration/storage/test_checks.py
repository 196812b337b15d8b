"""Stores that are empty, damaged, locked or read-only, and what is reported of them."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import apsw
import pytest

from ekiden.audit import export_audit, verify_audit
from ekiden.audit.query import AuditQuery
from ekiden.cli.main import main
from ekiden.core.errors import StoreDamaged, StoreEmpty, StoreReadOnly, StoreUnavailable
from ekiden.project import open_store
from ekiden.storage.base import NewSession
from ekiden.storage.sqlite import SqliteStore
from tests.support.rights import modes_count
from tests.support.sqlite import one_event

HOLD = """
import sys, apsw
db = apsw.Connection(sys.argv[1])
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with some sessions, all in one file."""
    folder = tmp_path / "stores"
    folder.mkdir()
    asyncio.run(fill(folder / "desk.db"))
    return folder / "desk.db"


async def fill(path: Path) -> None:
    async with SqliteStore(path) as store:
        for number in range(60):
            new = NewSession(id=f"s{number}", agent="a", meta={"note": "x" * 500})
            claim, _ = await store.claim(new.id, owner="w", lease_s=60, create=new)
            await store.commit(claim, one_event(new.id, 1, release=True))


COMMANDS = (
    ("session", "list"),
    ("session", "show", "s1"),
    ("audit", "list"),
    ("audit", "verify"),
    ("store", "verify"),
    ("store", "info"),
)


@pytest.mark.parametrize("content", ["nothing", "no tables"])
def test_an_empty_file_where_a_store_is_expected_is_reported(
    path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_bytes(b"")
    if content == "no tables":
        db = apsw.Connection(str(path))
        db.execute("CREATE TABLE t (x); DROP TABLE t")
        db.close()
    before = path.read_bytes()
    for command in COMMANDS:
        assert main([*command, "--store", str(path), "--json"]) == 7, command
        assert json.loads(capsys.readouterr().err)["error"]["code"] == "store.empty", command
    assert main(["doctor", "--store", str(path), "--json"]) == 7
    told = {each["name"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert (told["store"]["status"], "store.empty" in told["store"]["detail"]) == ("problem", True)
    assert content == "no tables" or path.read_bytes() == before


async def test_a_store_can_be_created_in_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "desk.db").touch()
    async with open_store(str(tmp_path / "desk.db")) as store:
        await store.create(NewSession(id="s", agent="a"))
    async with open_store(str(tmp_path / "desk.db"), create=False) as store:
        assert (await store.get("s")).id == "s"


async def test_an_empty_database_is_not_a_store(postgres_url: str) -> None:
    with pytest.raises(StoreEmpty, match="no tables"):
        await open_store(postgres_url, create=False).open()
    async with open_store(postgres_url), open_store(postgres_url, create=False) as store:
        assert (await store.info())["sessions"] == 0


async def test_a_read_only_database_can_be_read(postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        await store.create(NewSession(id="s", agent="a"))
    async with open_store(f"{postgres_url}&default_transaction_read_only=on") as store:
        assert (await store.get("s")).id == "s"
        assert (await verify_audit(store)).ok
        with pytest.raises(StoreReadOnly):
            await store.check_writable()
        with pytest.raises(StoreReadOnly):
            await store.create(NewSession(id="t", agent="a"))


def test_doctor_finds_a_damaged_page_and_names_skipped_checks(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--store", str(path), "--json"]) == 0
    told = {each["name"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert told["integrity"]["detail"] == "no damage in pages and rows of the file"
    assert "changed contents" in told["integrity"]["not_checked"]
    ((root,),) = _query(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'events_of_session'")
    with path.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xa5" * 4096)
    assert main(["doctor", "--store", str(path)]) == 7
    shown = capsys.readouterr().out
    assert "integrity" in shown
    assert "not checked (integrity)" in shown


@pytest.mark.parametrize("what", ["sessions SET variables", "events SET items"])
def test_invalid_utf_8_is_found_and_named(
    path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "id = 's59'" if what.startswith("sessions") else "id = 60"
    _query(path, f"UPDATE {what} = CAST(x'5bff5d' AS TEXT) WHERE {key}")
    for command in ("store", "audit"):
        assert main([command, "verify", "--store", str(path)]) == 8, command
        assert "cannot be read ('utf-8'" in capsys.readouterr().out
    assert main(["session", "export", "s59", "--store", str(path), "--json"]) == 7
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "store.damaged"
    target = str(path.with_name("copy.db"))
    assert main(["store", "backup", target, "--store", str(path), "--json"]) == 8
    [tenant] = json.loads(capsys.readouterr().out)["tenants"]
    assert any("cannot be read" in fault for fault in tenant["faults"])


async def test_a_write_over_an_unreadable_row_reports_the_damage(path: Path) -> None:
    _query(path, "UPDATE sessions SET cursor = '{' WHERE id = 's59'")
    async with SqliteStore(path) as store:
        with pytest.raises(StoreDamaged, match="store verify"):
            await store.claim("s59", owner="w", lease_s=60)
        assert (await store.get("s58")).id == "s58"


def test_a_verification_lists_the_checked_parts(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "verify", "--store", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "checked: the hash chain of each session; " in shown
    assert "not checked: whether whole sessions were deleted" in shown
    assert main(["audit", "verify", "--session", "s1", "--store", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["checked"] == ["the hash chain and the digests of session s1"]
    assert (
        "other sessions, inbox items, and events that belong to no session" in found["not_checked"]
    )
    assert main(["store", "verify", "--store", str(path), "--json"]) == 0
    (tenant,) = json.loads(capsys.readouterr().out)["tenants"]
    assert "pages, rows and indexes of the file" in tenant["checked"]


async def test_a_write_blocked_by_a_lock_names_the_holder(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "desk.db", busy_s=0.01) as store:
        holder = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLD, store.url, stdin=PIPE, stdout=PIPE
        )
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"locked\n"
        with pytest.raises(StoreUnavailable, match=rf"process {holder.pid} \(python"):
            await store.create(NewSession(id="s", agent="a"))
        await holder.communicate(b"")
        await store.create(NewSession(id="s", agent="a"))
        own = apsw.Connection(store.url)
        own.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="this process itself"):
            await store.create(NewSession(id="t", agent="a"))
        own.close()


@pytest.mark.parametrize("how", ["removed", "replaced", "cut"])
async def test_a_removed_or_replaced_file_refuses_writes(tmp_path: Path, how: str) -> None:
    path = tmp_path / "desk.db"
    async with SqliteStore(path) as store:
        await store.check_writable()
        if how == "cut":
            path.write_bytes(b"")
        else:
            path.rename(tmp_path / "away.db")
        if how == "replaced":
            path.write_bytes((tmp_path / "away.db").read_bytes())
        with pytest.raises(StoreUnavailable, match="removed, replaced or cut off"):
            await store.check_writable()


@pytest.mark.parametrize("folder_mode", [0o755, 0o555])
def test_a_read_only_store_can_be_read(
    path: Path, folder_mode: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path.chmod(0o444)
    path.parent.chmod(folder_mode)
    with modes_count():
        for command in (*COMMANDS, ("audit", "export"), ("session", "export", "s1")):
            assert main([*command, "--store", str(path)]) == 0, command
        main(["doctor", "--store", str(path)])
        assert "read-only" in capsys.readouterr().out
        assert main(["session", "delete", "s1", "--store", str(path), "--yes", "--json"]) == 7
        assert json.loads(capsys.readouterr().err)["error"]["code"] == "store.read_only"
    assert [each.name for each in path.parent.iterdir()] == ["desk.db"]


async def test_a_reader_without_write_permission_sees_new_writes(tmp_path: Path) -> None:
    path = tmp_path / "desk.db"
    async with SqliteStore(path) as writer:
        await writer.create(NewSession(id="s1", agent="a"))
        path.chmod(0o444)
        with modes_count():
            async with open_store(str(path), create=False) as reader:
                await writer.create(NewSession(id="s2", agent="a"))
                assert [row.id for row in (await reader.list()).sessions] == ["s2", "s1"]
                assert (await verify_audit(reader)).ok
                await export_audit(reader, AuditQuery(), lambda _: None)
                with pytest.raises(StoreReadOnly) as caught:
                    await reader.create(NewSession(id="s3", agent="a"))
                assert caught.value.code == "store.read_only"
                with pytest.raises(StoreReadOnly):
                    await reader.check_writable()
        path.chmod(0o600)


def _query(path: Path, sql: str) -> list[Any]:
    db = apsw.Connection(str(path))
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()
