"""Code that asks several at the same time, in tasks of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from ekiden.runtime import CodeContext
from ekiden.storage.memory import MemoryStore
from tests.unit.runtime.asking.desks import open_items, outcome, said, submitted, team_of


class FarAway(MemoryStore):
    """A store that takes a while to tell the time, and each time longer."""

    turns = 0

    async def now_us(self) -> int:
        self.turns += 5
        for _ in range(self.turns):
            await asyncio.sleep(0)
        return await super().now_us()


async def test_parallel_questions_are_stored_in_one_commit() -> None:
    store, both, runs = FarAway(), asyncio.Barrier(2), list[str]()

    async def pm(ctx: CodeContext[Any]) -> str:
        runs.append(ctx.session_id)
        return ", ".join(await asyncio.gather(ctx.ask("x", "?"), ctx.ask("y", "?")))

    async def asked(ctx: CodeContext[Any]) -> str:
        await both.wait()
        return "yes"

    async with asyncio.timeout(60):
        await submitted(store, team_of(pm=pm, x=asked, y=asked))
    assert await outcome(store) == ("idle", "done")
    assert await said(store) == "yes, yes"
    events = await store.events("s")
    asks = [event.seq for event in events if event.details and "asks" in event.details]
    assert len(asks) == 2
    assert asks[1] == asks[0] + 1, "one commit stores both"


async def test_parallel_questions_to_people_are_all_posted() -> None:
    store = FarAway()

    async def pm(ctx: CodeContext[Any]) -> str:
        answers = await asyncio.gather(ctx.request_approval("a?"), ctx.request_approval("b?"))
        return ", ".join(answer.choice for answer in answers)

    await submitted(store, team_of(pm=pm))
    assert await outcome(store) == ("waiting", "waiting")
    assert sorted(item.subject for item in await open_items(store)) == ["a?", "b?"]
