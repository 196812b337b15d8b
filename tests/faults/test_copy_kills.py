"""`kill -9`, Ctrl-C and a full disk while a whole store is copied, backed up or restored."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from ekiden.core.errors import StoreUnavailable
from ekiden.core.errors.stored_data import StoreUnfinished
from ekiden.project import open_store
from ekiden.project.copying import copy_store, store_info, verify_store
from ekiden.project.stores import tenant_url
from ekiden.storage.base import DocumentWrite, NewSession, QueuePut
from tests.faults.processes import environment
from tests.faults.waiting import DEADLINE_S
from tests.support import forked

KILLED_ON_THE_WAY = ["copy.begun", "copy.page", "copy.page:3", "copy.written", "copy.verified"]
QUICK = ("copy.page:3", "copy.verified")
BACKUPS_KILLED = ["backup.begun", "backup.written", "backup.checked", "backup.moved"]
DUMPS_KILLED = [each.replace("backup", "dump") for each in BACKUPS_KILLED]
RESTORES_KILLED = ["restore.begun", "restore.written"]
OF_COPIES = {
    fault.partition(":")[0]
    for fault in (
        *KILLED_ON_THE_WAY,
        "copy.finished",
        *BACKUPS_KILLED,
        *DUMPS_KILLED,
        *RESTORES_KILLED,
    )
}
"""All of these points."""
COMMAND = [sys.executable, "-m", "ekiden.cli", "store"]


@pytest.fixture
async def source(tmp_path: Path) -> str:
    """A store with something in several tables, and a tenant's beside it."""
    url = str(tmp_path / "source.db")
    (tmp_path / "source.tenants").mkdir()
    for name in ("default", "acme"):
        async with open_store(tenant_url(url, name)) as store:
            for number in range(5):
                await store.create(NewSession(id=f"{name}-{number}", agent="a"))
            await store.write_documents([DocumentWrite(collection="c", key="k", body="中文")])
            await store.put_messages([QueuePut(queue="q", body={"n": 1})])
    return url


@pytest.fixture
def target(postgres_url: str) -> str:
    """The address of a store that is not there."""
    return postgres_url


@pytest.fixture
async def schema(source: str, target: str, postgres_tools: Path) -> str:
    """The same store in PostgreSQL."""
    await copy_store(source, target)
    return target


@pytest.fixture(params=["source", "schema"])
def desk(request: pytest.FixtureRequest) -> str:
    """The store in SQLite, and in PostgreSQL."""
    found: str = request.getfixturevalue(request.param)
    return found


def copied(*arguments: str, fault: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return forked.run(
        [*COMMAND, *arguments, "--json"],
        env=environment(fault),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        **options,
    )


def interrupted(*arguments: str) -> tuple[int, str]:
    """Run the command, and press Ctrl-C when it has written a few rows."""
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--json"],
        env=environment("copy.page:2:stop"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, err


async def is_unfinished(url: str) -> bool:
    """Whether everybody refuses it."""
    try:
        async with open_store(url):
            return False
    except StoreUnfinished:
        return True


async def check_whole(url: str, tenants: Sequence[str] = ("default", "acme")) -> None:
    """Everything is there."""
    for info, found in zip(await store_info(url), await verify_store(url), strict=True):
        counts = [info[table] for table in ("sessions", "documents", "messages")]
        assert (counts, info["unfinished"], found.ok) == ([5, 1, 1], None, True)
        assert found.tenant in tenants


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=() if fault in QUICK else pytest.mark.slow)
        for fault in KILLED_ON_THE_WAY
    ],
)
async def test_a_killed_copy_is_refused_until_it_is_resumed(
    source: str, target: str, fault: str
) -> None:
    assert copied("copy", source, target, fault=fault).returncode == -signal.SIGKILL
    assert await is_unfinished(target)
    assert await is_unfinished(tenant_url(target, "acme"))
    again = copied("copy", source, target)
    assert again.returncode == 7
    assert json.loads(again.stderr)["error"]["code"] == "store.unfinished"
    assert copied("copy", source, target, "--resume").returncode == 0
    await check_whole(target)
    await check_whole(source)


@pytest.mark.slow
async def test_a_copy_killed_after_its_last_step_is_complete(source: str, target: str) -> None:
    assert copied("copy", source, target, fault="copy.finished").returncode == -signal.SIGKILL
    await check_whole(target)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=() if fault == "backup.written" else pytest.mark.slow)
        for fault in ("backup.begun", "backup.written", "backup.checked")
    ],
)
async def test_a_killed_backup_leaves_no_file_and_can_be_repeated(
    desk: str, fault: str, tmp_path: Path
) -> None:
    backup, restored = tmp_path / "backup", str(tmp_path / "restored.db")
    order = ("backup", str(backup), "--store", desk)
    if "://" in desk:
        fault = fault.replace("backup", "dump")
    assert copied(*order, fault=fault).returncode == -signal.SIGKILL
    assert not backup.exists()
    refused = copied("restore", str(backup), "--store", restored)
    assert (refused.returncode, Path(restored).exists()) == (7, False)
    assert copied(*order).returncode == 0
    if "://" in desk:
        await drop(desk)
        restored = desk
    assert copied("restore", str(backup), "--store", restored).returncode == 0
    await check_whole(restored)


@pytest.mark.parametrize("order", ["backup", "restore"])
async def test_of_several_files_the_main_one_is_renamed_last(
    order: str, source: str, tmp_path: Path
) -> None:
    new = str(tmp_path / "new.db")
    arguments = (new, "--store", source) if order == "backup" else (source, "--store", new)
    assert copied(order, *arguments, fault="backup.moved").returncode == -signal.SIGKILL
    assert not Path(new).exists()
    assert Path(tenant_url(new, "acme")).exists()
    refused = copied(order, *arguments)
    assert json.loads(refused.stderr)["error"]["code"] == "store.not_empty"
    Path(tenant_url(new, "acme")).unlink()
    assert copied(order, *arguments).returncode == 0
    await check_whole(new)


async def test_a_restore_killed_before_its_commit_changes_nothing(
    schema: str, tmp_path: Path
) -> None:
    backup = str(tmp_path / "desk.dump")
    assert copied("backup", backup, "--store", schema).returncode == 0
    await drop(schema)
    order = ("restore", backup, "--store", schema)
    assert copied(*order, fault="restore.begun").returncode == -signal.SIGKILL
    with pytest.raises(StoreUnavailable, match="there is no store"):
        await store_info(schema)
    # All came in one transaction; only the report is missing.
    assert copied(*order, fault="restore.written").returncode == -signal.SIGKILL
    await check_whole(schema)


async def drop(url: str) -> None:
    """Lose the schemas of all tenants."""
    base, _, name = url.rpartition("schema=")
    connection = await asyncpg.connect(base.rstrip("?&"))
    await connection.execute("set client_min_messages = warning")
    for schema in (name, f"{name}__acme"):
        await connection.execute(f'drop schema "{schema}" cascade')
    await connection.close()


async def test_ctrl_c_ends_a_copy_that_can_be_resumed(source: str, target: str) -> None:
    code, err = interrupted("copy", source, target)
    assert (code, json.loads(err)["error"]["code"]) == (130, "cli.interrupted")
    assert await is_unfinished(target)
    assert copied("copy", source, target, "--resume").returncode == 0
    await check_whole(target)


@pytest.mark.parametrize("order", ["backup", "restore"])
async def test_a_full_disk_is_reported_and_leaves_no_files(order: str, tmp_path: Path) -> None:
    source, new = str(tmp_path / "source.db"), str(tmp_path / "new.db")
    async with open_store(source) as store:
        for number in range(5):
            await store.create(NewSession(id=f"default-{number}", agent="a"))
        await store.put_messages([QueuePut(queue="q", body={"n": 1})])
        await store.write_documents([DocumentWrite(collection="c", key="k", body="x" * 2_000_000)])
    arguments = (new, "--store", source) if order == "backup" else (source, "--store", new)

    def without_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    failed = copied(order, *arguments, preexec_fn=without_room)
    assert failed.returncode == 7
    error = json.loads(failed.stderr)["error"]
    assert (error["code"], "disk" in error["message"]) == ("store.unavailable", True)
    assert [each.name for each in tmp_path.iterdir()] == ["source.db"]
    assert copied(order, *arguments).returncode == 0
    await check_whole(new, tenants=["default"])


async def test_a_full_disk_during_a_dump_is_reported_and_leaves_no_files(
    schema: str, tmp_path: Path
) -> None:
    async with open_store(schema) as store:
        rows = [NewSession(id=f"{n}-{os.urandom(500).hex()}", agent="a") for n in range(20)]
        for row in rows:
            await store.create(row)

    def without_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))

    backup = tmp_path / "desk.dump"
    failed = copied("backup", str(backup), "--store", schema, preexec_fn=without_room)
    assert failed.returncode == 7, failed.stderr
    assert json.loads(failed.stderr)["error"]["code"] == "store.unavailable"
    assert not list(tmp_path.glob("*desk.dump*"))
    assert not list(tmp_path.glob(".*"))
