"""Several real processes on one SQLite file, and processes that die."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ekiden.storage.base import NewSession
from ekiden.storage.sqlite import SqliteStore
from ekiden.storage.sqlite.open_store import shipped
from tests.support.sqlite import execute, start_child

DEADLINE_S = 60


def together(children: list[subprocess.Popen[str]]) -> list[str]:
    """Let children that are ready begin at once; all they said."""
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    said = []
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        output, _ = child.communicate(timeout=DEADLINE_S)
        assert child.returncode == 0
        said += output.split()
    return said


async def test_processes_that_open_a_new_file_at_once_create_it_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ekiden.db"
    children = [start_child(str(path), f"p{number}", "write") for number in range(4)]
    said = await asyncio.to_thread(together, children)
    assert len(set(said)) == 40
    assert execute(path, "SELECT number FROM migrations") == [(each.number,) for each in shipped()]
    async with SqliteStore(path) as store:
        assert (await store.info())["sessions"] == 40
        for session_id in said:
            assert [event.seq for event in await store.events(session_id)] == [1, 2, 3, 4, 5]


async def test_two_processes_share_the_sessions_and_run_each_once(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    names = [f"s{number}" for number in range(60)]
    async with SqliteStore(path) as store:
        await asyncio.gather(
            *(store.create(NewSession(id=name, agent="a", status="ready")) for name in names)
        )
        children = [start_child(str(path), name, "work") for name in ("p1", "p2")]
        said = await asyncio.to_thread(together, children)
        assert sorted(said) == sorted(names)
        for name in names:
            row = await store.get(name)
            assert (row.seq, row.epoch, row.status) == (1, 1, "idle")


async def test_the_feed_is_complete_while_several_processes_write(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    seen: list[str] = []
    async with SqliteStore(path) as store, asyncio.timeout(DEADLINE_S):
        children = [start_child(str(path), f"p{number}", "write") for number in range(3)]
        writing = asyncio.create_task(asyncio.to_thread(together, children))
        after: str | None = None
        while True:
            is_over = writing.done()
            page = await store.feed(after=after, limit=7)
            seen += [event.event_id for event in page.events]
            after = page.next_cursor
            if is_over and not page.events:
                break
        said = await writing
    assert len(seen) == len(set(seen))
    for name in said:
        own = [each for each in seen if each.startswith(f"{name}/")]
        assert own == [f"{name}/{seq}" for seq in range(1, 6)]


async def test_a_message_of_a_dead_process_goes_to_another(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    child = start_child(str(path), "p", "take_and_die")
    output, _ = await asyncio.to_thread(child.communicate, "go\n", DEADLINE_S)
    assert child.returncode == -signal.SIGKILL
    assert output.splitlines()[1:] == ["took k"]
    async with SqliteStore(path) as store:
        (row,) = await store.find_messages()
        assert (row.key, row.state, row.owner, row.attempts) == ("k", "open", "p", 1)
        assert await store.take_messages("q", owner="me", lease_s=60) == []
    execute(path, "UPDATE messages SET due_ms = 0")
    async with SqliteStore(path) as store:
        (again,) = await store.take_messages("q", owner="me", lease_s=60)
        assert (again.attempts, again.body) == (2, {"n": 1})


async def test_opening_a_file_again_keeps_its_lock(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    async with SqliteStore(path):
        assert await asyncio.to_thread(_is_locked, path)
        async with SqliteStore(path):
            assert await asyncio.to_thread(_is_locked, path)
        assert await asyncio.to_thread(_is_locked, path)
    assert not await asyncio.to_thread(_is_locked, path)


async def test_a_change_by_another_process_ends_the_wait(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    async with SqliteStore(path) as store, asyncio.timeout(DEADLINE_S):
        await store.wait_for_change(0)
        child = start_child(str(path), "p", "write")
        waiting = asyncio.create_task(store.wait_for_change(DEADLINE_S))
        await asyncio.to_thread(together, [child])
        await waiting


async def test_kill_9_loses_no_acknowledged_write(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    acknowledged = await asyncio.to_thread(_killed_after, path, 400)
    async with SqliteStore(path) as store:
        for session_id, seq in acknowledged.items():
            events = [event.seq for event in await store.events(session_id)]
            assert events == list(range(1, len(events) + 1))
            assert len(events) >= seq
            assert len(await store.steps(session_id)) == len(events)
            assert (await store.get(session_id)).seq == len(events)
    assert execute(path, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("nth", [1, 2, 9])
async def test_a_process_killed_before_the_commit_stores_no_step(tmp_path: Path, nth: int) -> None:
    stored, said = await _fault(tmp_path, f"store.sqlite.before_commit:{nth}")
    assert stored == said


@pytest.mark.parametrize("nth", [1, 2, 9])
async def test_a_process_killed_after_the_commit_keeps_the_step(tmp_path: Path, nth: int) -> None:
    stored, said = await _fault(tmp_path, f"store.sqlite.after_commit:{nth}")
    assert stored > said


async def _fault(folder: Path, fault: str) -> tuple[int, int]:
    """How many writes are stored after the fault, and how many were acknowledged before it."""
    path = folder / "ekiden.db"
    child = start_child(str(path), "p", "one_by_one", fault=fault)
    output, _ = await asyncio.to_thread(child.communicate, "go\n", DEADLINE_S)
    assert child.returncode == -signal.SIGKILL
    async with SqliteStore(path) as store:
        info = await store.info()
        return info["sessions"] + info["events"], len(output.splitlines()) - 1


def _is_locked(path: Path) -> bool:
    """Whether another process finds the file in use, by the bytes that SQLite locks."""
    tries = f"import fcntl; fcntl.lockf(open({str(path)!r}, 'r+'), 6, 510, 0x40000002)"
    tried = subprocess.run([sys.executable, "-c", tries], capture_output=True, timeout=DEADLINE_S)
    return tried.returncode != 0


def _killed_after(path: Path, lines: int) -> dict[str, int]:
    """The last acknowledged event of each session when the process was killed."""
    child = start_child(str(path), "p", "write_for_ever")
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("go\n")
    child.stdin.flush()
    acknowledged: dict[str, int] = {}
    assert child.stdout.readline() == "ready\n"
    for _ in range(lines):
        session_id, seq = child.stdout.readline().split()
        acknowledged[session_id] = int(seq)
    child.kill()
    rest, _ = child.communicate(timeout=DEADLINE_S)
    *whole, _ = rest.split("\n")
    for session_id, seq in (line.split() for line in whole):
        acknowledged[session_id] = int(seq)
    return acknowledged
