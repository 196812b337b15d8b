"""Two people answer in the same moment, a thousand times: one wins, and the other learns who."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox, InboxQuery
from ekiden.storage.base import NewSession, SessionFilter, Store
from tests.faults.approver import SIZE
from tests.faults.databases import Database
from tests.faults.processes import ROOT, environment

TIMES = [
    ("sqlite", 100),
    ("postgres", 100),
    pytest.param("sqlite", 1000, marks=pytest.mark.slow),
    pytest.param("postgres", 1000, marks=pytest.mark.slow),
]
NAMES = ("Anna", "佐藤")
_AT_ONCE = 50


async def ask(store: Store, times: int) -> list[str]:
    """So many questions, each with a session that waits for it; their ids."""
    inbox = Inbox(store)
    ids = [f"i{number:04d}" for number in range(times)]

    async def one(item_id: str) -> None:
        await store.create(NewSession(id=f"s-{item_id}", agent="sales", status="waiting"))
        item = InboxItem(
            id=item_id,
            kind="approval",
            from_agent="sales",
            subject="折扣?",
            options=("yes", "no"),
            session_id=f"s-{item_id}",
        )
        await inbox.post(item)

    for begin in range(0, times, _AT_ONCE):
        await asyncio.gather(*map(one, ids[begin : begin + _AT_ONCE]))
    return ids


async def start(url: str, file: Path, who: int) -> asyncio.subprocess.Process:
    """One of the two, when it is ready."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.approver", url, NAMES[who], str(file), str(who)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


async def told(process: asyncio.subprocess.Process, ids: list[str]) -> dict[str, tuple[str, str]]:
    """Let it answer these; by item, what came of it and who was first."""
    out, _ = await process.communicate(f"{' '.join(ids)}\n".encode())
    assert process.returncode == 0
    lines = [line.split() for line in out.decode().splitlines()]
    return {item_id: (fate, by) for item_id, fate, by in lines}


@pytest.mark.parametrize(("empty_database", "times"), TIMES, indirect=["empty_database"])
async def test_of_two_simultaneous_answers_one_wins_and_the_other_is_refused(
    empty_database: Database, tmp_path: Path, times: int
) -> None:
    meeting = tmp_path / "meeting"
    meeting.write_bytes(bytes(SIZE))
    async with empty_database.open() as store:
        ids = await ask(store, times)
        people = await asyncio.gather(*(start(empty_database.url, meeting, who) for who in (0, 1)))
        first, second = await asyncio.gather(*(told(each, ids) for each in people))
        assert list(first) == list(second) == ids
        answered = await Inbox(store).list(InboxQuery(status="answered"), limit=times)
        by_item = {item.id: item.answer.by for item in answered.items if item.answer is not None}
        page = await store.list(SessionFilter(), limit=times)
    for item_id in ids:
        (fate, by), (other_fate, other_by) = first[item_id], second[item_id]
        assert {fate, other_fate} == {"won", "lost"}
        assert by == other_by == by_item[item_id] == NAMES[0 if fate == "won" else 1]
    assert [row.wakes for row in page.sessions] == [1] * times
    # Neither was always late: they did meet.
    assert set(Counter(by_item.values())) == set(NAMES)
