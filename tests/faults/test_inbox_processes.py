"""Several real processes at one inbox: each question is answered once, and nothing is lost."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox, InboxQuery
from ekiden.storage.base import NewSession, Store
from tests.faults.choosing import marked
from tests.faults.databases import Database
from tests.faults.scenario import DATABASES
from tests.support.forked import ForkedPopen

ROOT = Path(__file__).resolve().parents[2]


async def ask(store: Store, count: int, *, in_s: float | None = None) -> list[str]:
    """So many questions, each with a session that waits for it; their ids."""
    inbox = Inbox(store)
    due = None if in_s is None else await store.now_us() + round(in_s * 1e6)
    ids = [f"i{number:04d}" for number in range(count)]
    for item_id in ids:
        await store.create(NewSession(id=f"s-{item_id}", agent="sales", status="waiting"))
        item = InboxItem(
            id=item_id,
            kind="approval",
            from_agent="sales",
            subject="折扣?",
            options=("yes", "no"),
            session_id=f"s-{item_id}",
            deadline_us=due,
        )
        await inbox.post(item)
    return ids


async def start(url: str, name: str, task: str) -> Popen[str]:
    """Another process, when it is ready."""
    process = ForkedPopen(
        [sys.executable, "-m", "tests.support.inbox_child", url, name, task],
        stdin=PIPE,
        stdout=PIPE,
        text=True,
        cwd=ROOT,
    )
    assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
    return process


async def told(process: Popen[str], ids: list[str]) -> list[str]:
    """Let it work on these to the end; what it said."""
    out, _ = await asyncio.to_thread(process.communicate, f"{' '.join(ids)}\n")
    *said, last = out.split()
    assert (last, process.returncode) == ("done", 0)
    return said


async def wakes(store: Store, ids: list[str]) -> list[int]:
    """How often the session of each was woken."""
    return [(await store.get(f"s-{item_id}")).wakes for item_id in ids]


@pytest.mark.parametrize(
    ("empty_database", "task"),
    marked(
        [(database, task) for database in DATABASES for task in ("race", "answer")],
        {("sqlite", "race"), ("postgres", "answer")},
    ),
    indirect=["empty_database"],
)
async def test_two_processes_answering_at_once_win_each_item_once(
    empty_database: Database, task: str
) -> None:
    async with empty_database.open() as store:
        ids = await ask(store, 60)
        first, second = await asyncio.gather(
            start(empty_database.url, "Anna", task), start(empty_database.url, "佐藤", task)
        )
        won = await asyncio.gather(told(first, ids), told(second, ids))
        assert sorted([*won[0], *won[1]]) == ids
        assert await wakes(store, ids) == [1] * len(ids)
        for name, own in zip(("Anna", "佐藤"), won, strict=True):
            for item_id in own:
                item = await Inbox(store).get(item_id)
                assert item.answer is not None
                assert item.answer.by == name


async def test_a_process_killed_while_answering_leaves_each_item_open_or_answered(
    empty_database: Database,
) -> None:
    async with empty_database.open() as store:
        ids = await ask(store, 60)
        victim = await start(empty_database.url, "Anna", "answer")
        assert victim.stdin is not None
        assert victim.stdout is not None
        victim.stdin.write(f"{' '.join(ids)}\n")
        victim.stdin.flush()
        said = [(await asyncio.to_thread(victim.stdout.readline)).strip() for _ in range(20)]
        victim.kill()
        said += (await asyncio.to_thread(victim.communicate))[0].split()
        inbox = Inbox(store)
        items = {item_id: await inbox.get(item_id) for item_id in ids}
        answered = [item_id for item_id, item in items.items() if item.status == "answered"]
        assert {item_id for item_id in said if item_id in items} <= set(answered)
        assert await wakes(store, ids) == [int(item_id in answered) for item_id in ids]
        listed = (await inbox.list(limit=1000)).items
        assert sorted({item.id for item in listed} | set(answered)) == ids
        rest = await told(await start(empty_database.url, "佐藤", "answer"), ids)
        assert sorted([*rest, *answered]) == ids
        assert await wakes(store, ids) == [1] * len(ids)


async def test_several_timer_processes_expire_each_item_once(
    empty_database: Database,
) -> None:
    async with empty_database.open() as store:
        children = await asyncio.gather(
            *(start(empty_database.url, f"p{number}", "keep_time") for number in range(2))
        )
        ids = await ask(store, 40, in_s=1)
        said = await asyncio.gather(*(told(child, ids) for child in children))
        assert sum(int(count) for (count,) in said) <= len(ids)
        assert await wakes(store, ids) == [1] * len(ids)
        page = await Inbox(store).list(InboxQuery(status="expired"), limit=1000)
        assert sorted(item.id for item in page.items) == ids
        assert not await store.list_documents("timers")


async def test_an_answer_in_one_process_ends_the_wait_in_another(
    empty_database: Database,
) -> None:
    async with empty_database.open() as store:
        inbox = Inbox(store)
        item = InboxItem(
            id="i0", kind="approval", from_agent="sales", subject="?", options=("yes", "no")
        )
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            waiting = group.create_task(inbox.ask_person(item))
            while not (await inbox.list()).items:
                await store.wait_for_change(1)
            child = await start(empty_database.url, "Anna", "race")
            assert await told(child, ["i0"]) == ["i0"]
        assert waiting.result().by == "Anna"
