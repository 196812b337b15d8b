"""`kill -9`, Ctrl-C and a full disk while a whole store is copied."""

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

import pytest

from ekiden.app import open_store
from ekiden.app.copying import store_info, verify_store
from ekiden.app.tenants import tenant_url
from ekiden.core.copy_errors import StoreUnfinished
from ekiden.storage.base import DocumentWrite, NewSession, QueuePut
from tests.faults.processes import environment
from tests.faults.waiting import DEADLINE_S

KILLED_ON_THE_WAY = [
    "copy.begun",
    "copy.page",
    "copy.page:3",
    "copy.written",
    "copy.verified",
]
KILLED_AT_THE_END = ["copy.finished"]
QUICK = ("copy.page:3", "copy.verified")
OF_COPIES = {fault.partition(":")[0] for fault in (*KILLED_ON_THE_WAY, *KILLED_AT_THE_END)}
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


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that is not there."""
    if request.param == "sqlite":
        return str(tmp_path / "target.db")
    found: str = request.getfixturevalue("postgres_url")
    return found


def copied(*arguments: str, fault: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
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
async def test_a_copy_that_is_killed_is_refused_and_then_completed(
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


async def test_whoever_is_killed_at_the_end_leaves_the_main_store_for_the_last(
    source: str, target: str
) -> None:
    assert copied("copy", source, target, fault="copy.finished").returncode == -signal.SIGKILL
    assert await is_unfinished(target)
    assert not await is_unfinished(tenant_url(target, "acme"))
    resumed = copied("copy", source, target, "--resume")
    assert json.loads(resumed.stdout)["finished_before"] == ["acme"]
    await check_whole(target)


@pytest.mark.slow
async def test_a_copy_that_is_killed_when_all_is_done_is_done(source: str, target: str) -> None:
    assert copied("copy", source, target, fault="copy.finished:2").returncode == -signal.SIGKILL
    await check_whole(target)


@pytest.mark.slow
async def test_a_backup_that_is_killed_is_not_restored(source: str, tmp_path: Path) -> None:
    backup, restored = str(tmp_path / "backup.db"), str(tmp_path / "restored.db")
    order = ("backup", backup, "--store", source)
    assert copied(*order, fault="copy.page:2").returncode == -signal.SIGKILL
    refused = copied("restore", backup, "--store", restored)
    assert (refused.returncode, Path(restored).exists()) == (7, False)
    assert copied(*order, "--resume").returncode == 0
    assert copied("restore", backup, "--store", restored).returncode == 0
    await check_whole(restored)


async def test_ctrl_c_ends_a_copy_which_can_be_resumed(source: str, target: str) -> None:
    code, err = interrupted("copy", source, target)
    assert (code, json.loads(err)["error"]["code"]) == (130, "cli.interrupted")
    assert await is_unfinished(target)
    assert copied("copy", source, target, "--resume").returncode == 0
    await check_whole(target)


async def test_a_disk_without_room_is_told_and_the_copy_completed_later(tmp_path: Path) -> None:
    source, target = str(tmp_path / "source.db"), str(tmp_path / "target.db")
    async with open_store(source) as store:
        for number in range(5):
            await store.create(NewSession(id=f"default-{number}", agent="a"))
        await store.put_messages([QueuePut(queue="q", body={"n": 1})])
        await store.write_documents([DocumentWrite(collection="c", key="k", body="x" * 2_000_000)])

    def without_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    failed = copied("copy", source, target, preexec_fn=without_room)
    assert failed.returncode == 7
    error = json.loads(failed.stderr)["error"]
    assert (error["code"], "disk" in error["message"]) == ("store.unavailable", True)
    assert await is_unfinished(target)
    assert copied("copy", source, target, "--resume").returncode == 0
    await check_whole(target, tenants=["default"])
