"""The contract of engines in which sessions wait in line for a free place."""

from __future__ import annotations

import asyncio
from typing import Any

from ekiden.core.agent import Team
from ekiden.runtime import CodeContext
from ekiden.testing.engine_contracts.base import (
    EngineContractBase,
    EngineUnderTest,
    done,
    outcome,
    team_of,
)


class LineContract(EngineContractBase):
    """Who comes next."""

    async def test_the_more_important_sessions_are_run_first(self, engine: EngineUnderTest) -> None:
        begun, gate, ran = asyncio.Event(), asyncio.Event(), list[str]()
        await engine.start(_noting(ran, begun, gate), concurrency=1)
        await engine.submit("go", "first")
        await begun.wait()
        for name in ("low", "normal", "high", "urgent"):
            await engine.submit("go", name, priority=name)
        gate.set()
        for name in ("low", "normal", "high", "urgent"):
            assert await outcome(engine, name) == "done"
        assert ran == ["first", "urgent", "high", "normal", "low"]

    async def test_whoever_is_asked_is_as_important_as_who_asks(
        self, engine: EngineUnderTest
    ) -> None:
        async def pm(ctx: CodeContext[Any]) -> str:
            return str(await ctx.ask("sales", "?"))

        async def sales(ctx: CodeContext[Any]) -> str:
            return "42"

        await engine.start(team_of(pm=pm, sales=sales))
        await engine.submit("go", "s", priority="high")
        assert await done(engine) == "42"
        rows = (await engine.store.list()).sessions
        assert [(row.agent, row.priority) for row in rows] == [("sales", 3), ("pm", 3)]

    async def test_no_more_sessions_are_under_way_than_there_are_places(
        self, engine: EngineUnderTest
    ) -> None:
        at_work, most = set[str](), list[int]()

        async def code(ctx: CodeContext[Any]) -> str:
            at_work.add(ctx.session_id)
            most.append(len(at_work))
            await asyncio.sleep(0)
            at_work.discard(ctx.session_id)
            return "done"

        await engine.start(team_of(desk=code), concurrency=2)
        names = [f"s{number}" for number in range(6)]
        await asyncio.gather(*(engine.submit("go", name) for name in names))
        for name in names:
            assert await outcome(engine, name) == "done"
        assert max(most) <= 2


def _noting(ran: list[str], begun: asyncio.Event, gate: asyncio.Event) -> Team:
    """A team that notes which session it works on; the first waits for the gate."""

    async def code(ctx: CodeContext[Any]) -> str:
        ran.append(ctx.session_id)
        if ctx.session_id == "first":
            begun.set()
            await gate.wait()
        return "done"

    return team_of(desk=code)
