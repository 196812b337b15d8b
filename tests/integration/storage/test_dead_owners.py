"""Leases of processes that ended: free at once on the same machine, kept everywhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ekiden.core.errors import LeaseLost, SessionBusy
from ekiden.core.values import is_dead, owner_name
from ekiden.project import open_store
from ekiden.storage.base import Commit, NewSession, SessionFilter, SessionPatch, Store

NAMED = "from ekiden.core.values import owner_name; print(owner_name(), flush=True); input()"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", NAMED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        yield started
        started.kill()


def name_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def killed(process: subprocess.Popen[str]) -> str:
    name = name_of(process)
    process.kill()
    process.wait()
    return name


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "sqlite":
        return open_store(str(tmp_path / "s.db"))
    return open_store(request.getfixturevalue("postgres_url"))


async def test_a_session_of_a_dead_process_is_free_and_refuses_its_late_commit(
    store: Store, process: subprocess.Popen[str]
) -> None:
    owner = name_of(process)
    new = NewSession(id="s", agent="a", status="ready")
    async with store:
        old, _ = await store.claim("s", owner=owner, lease_s=600, create=new)
        with pytest.raises(SessionBusy):
            await store.claim("s", owner=owner_name(), lease_s=600)
        assert await store.claim_next(owner=owner_name(), lease_s=600) is None
        process.kill()
        process.wait()
        assert (await store.get("s")).owner is None
        assert [row.owner for row in (await store.list(SessionFilter())).sessions] == [None]
        taken, row = await store.claim("s", owner=owner_name(), lease_s=600, create=new)
        assert (taken.epoch, row.owner) == (old.epoch + 1, owner_name())
        with pytest.raises(LeaseLost):
            await store.commit(old, Commit(patch=SessionPatch(status="idle"), events=()))


async def test_ready_sessions_of_a_dead_process_are_claimed_next(
    store: Store, process: subprocess.Popen[str]
) -> None:
    owner = killed(process)
    async with store:
        for name in ("s1", "s2"):
            new = NewSession(id=name, agent="a", status="ready")
            await store.claim(name, owner=owner, lease_s=600, create=new)
        for name in ("s1", "s2"):
            found = await store.claim_next(owner=owner_name(), lease_s=600, agents=["a"])
            assert found is not None
            assert found[1].id == name


async def test_a_session_of_a_dead_process_can_be_deleted(
    store: Store, process: subprocess.Popen[str]
) -> None:
    async with store:
        new = NewSession(id="s", agent="a")
        await store.claim("s", owner=killed(process), lease_s=600, create=new)
        await store.delete("s")
        assert not (await store.list(SessionFilter())).sessions


def test_only_an_ended_process_of_this_machine_is_known_to_be_dead(
    process: subprocess.Popen[str],
) -> None:
    name = name_of(process)
    host, pid, start, machine = name.rsplit("-", 3)
    assert not is_dead(name)
    assert not is_dead(owner_name())
    assert is_dead(f"{host}-{pid}-{int(start, 16) - 1:x}-{machine}"), "the id was used again"
    assert is_dead(f"{host}-{os.getpid()}-1-{machine}"), "the id was used again, by this process"
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(name), "not yet waited for by its parent"
    process.wait()
    assert is_dead(name)
    assert not is_dead(f"{host}-{pid}-{start}-{'0' * 16}"), "another machine, boot or container"
    assert not is_dead(f"{host}-{pid}-a1b2c3"), "no start time"
    assert not is_dead("w1")
