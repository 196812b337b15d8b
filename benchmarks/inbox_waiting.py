"""Many questions to people that wait: what they cost, and whether each wakes its own session.

    python benchmarks/inbox_waiting.py [--items 10000] [--idle 10] [--store PATH|postgresql://…]

Prints one JSON object. One process stores the items, each with a session that waits for it, and
ends. Another one opens the store, which is the restart, and is idle as a worker is; what that costs
is compared with the same over an empty store. Then all items are answered in random order, and the
rows of all sessions are looked at: after its answer a session must have been woken once, and
before it never.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ekiden import Agent
from ekiden.core.questions import InboxItem
from ekiden.engine import Worker
from ekiden.inbox import Inbox, InboxQuery
from ekiden.project import open_store
from ekiden.storage.base import Batch, NewSession, SessionOpening, Store

_AT_ONCE = 200
_HANDS = 16


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--items", type=int, default=10_000)
    options.add_argument("--idle", type=float, default=10.0, help="seconds")
    options.add_argument("--store", help="an empty store; else a new SQLite file")
    options.add_argument("--phase", choices=["fill", "idle", "answer"], help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.phase is not None:
        print(json.dumps(asyncio.run(_phase(given))))
        return
    with tempfile.TemporaryDirectory() as folder:
        full = given.store or str(Path(folder) / "full.db")
        empty = str(Path(folder) / "empty.db")
        figures = _in_own_process("fill", full, given)
        base = _in_own_process("idle", empty, given)
        waiting = _in_own_process("idle", full, given)
        extra = waiting["rss_bytes"] - base["rss_bytes"]
        figures |= {
            "idle_core_percent": waiting["core_percent"],
            "idle_core_percent_of_an_empty_store": base["core_percent"],
            "memory_bytes_per_item": round(extra / given.items, 1),
            "rss_mb": round(waiting["rss_bytes"] / 1e6, 1),
            **_in_own_process("answer", full, given),
        }
    print(json.dumps(figures, indent=2))


def _in_own_process(phase: str, store: str, given: argparse.Namespace) -> dict[str, Any]:
    words = ["--phase", phase, "--store", store, "--items", str(given.items)]
    done = subprocess.run(
        [sys.executable, __file__, *words, "--idle", str(given.idle)],
        stdout=subprocess.PIPE,
        check=True,
    )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


async def _phase(given: argparse.Namespace) -> dict[str, Any]:
    async with open_store(given.store) as store:
        match given.phase:
            case "fill":
                return await _fill(store, given.items)
            case "idle":
                return await _idle(store, given.idle)
            case _:
                return await _answer(store)


async def _fill(store: Store, count: int) -> dict[str, Any]:
    inbox = Inbox(store)
    began = time.perf_counter()
    for first in range(0, count, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, count))
        now_us = await store.now_us()
        items = [_item(number, now_us) for number in numbers]
        new = [NewSession(id=f"s{n}", agent="sales", status="waiting") for n in numbers]
        await store.write(
            Batch(
                documents=[write for item in items for write in inbox.item_writes(item)],
                openings=[SessionOpening(new=each) for each in new],
            )
        )
    took = time.perf_counter() - began
    return {"items": count, "store_ms_per_item": round(took * 1e3 / count, 3)}


def _item(number: int, now_us: int) -> InboxItem:
    return InboxItem(
        id=f"i{number}",
        kind="approval",
        from_agent="sales",
        subject=f"discount for customer {number}?",
        body="The customer asks for a discount. 客户要求打折。" * 4,
        options=("yes", "no"),
        context={"customer": number, "percent": number % 40},
        priority=1 + number % 4,
        created_at_us=now_us,
        deadline_us=now_us + 30 * 86_400_000_000,
        session_id=f"s{number}",
    )


async def _idle(store: Store, seconds: float) -> dict[str, Any]:
    worker = Worker(store, Agent("sales"))
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await asyncio.sleep(1)
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        worker.stop()
    assert worker.finished == 0
    return {"core_percent": round(100 * cpu / wall, 3), "rss_bytes": _rss()}


async def _answer(store: Store) -> dict[str, Any]:
    inbox = Inbox(store)
    began = time.perf_counter()
    page = await inbox.list(limit=50)
    first_page = time.perf_counter() - began
    ids = [item.id for item in page.items]
    while page.next_cursor is not None:
        page = await inbox.list(limit=1000, cursor=page.next_cursor)
        ids += [item.id for item in page.items]
    listed = time.perf_counter() - began
    random.Random(5).shuffle(ids)
    took: list[float] = []

    async def answer(left: Iterator[str]) -> int:
        wrong = 0
        for item_id in left:
            begun = time.perf_counter()
            await inbox.answer(item_id, choice="yes", by="Anna")
            took.append((time.perf_counter() - begun) * 1e3)
            wrong += await _wakes(store, item_id) != 1
        return wrong

    began = time.perf_counter()
    wrong = 0
    for some, others in ((ids[::2], ids[1::2]), (ids[1::2], [])):
        left = iter(some)
        wrong += sum(await asyncio.gather(*(answer(left) for _ in range(_HANDS))))
        wrong += sum([await _wakes(store, each) != 0 for each in others])
    total = time.perf_counter() - began
    wrong += sum([await _wakes(store, each) != 1 for each in ids])
    closed = await inbox.list(InboxQuery(status="answered"), limit=1)
    took.sort()
    return {
        "survived": len(ids),
        "first_page_ms": round(first_page * 1e3, 2),
        "all_pages_ms": round(listed * 1e3, 1),
        "answers_per_s": round(len(ids) / total),
        "answer_median_ms": round(took[len(took) // 2], 3) if took else None,
        "wrongly_woken": wrong,
        "open_afterwards": len((await inbox.list()).items),
        "answered_found": len(closed.items),
    }


async def _wakes(store: Store, item_id: str) -> int:
    row = await store.get(f"s{item_id[1:]}")
    return row.wakes


def _rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
