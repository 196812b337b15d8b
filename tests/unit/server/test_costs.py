"""Costs over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import Usage
from ekiden.testing import ScriptedModel, say
from tests.unit.server.desks import As, Served, problem, serving


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server with two sessions whose agent used a model."""
    usage = Usage(requests=1, input_tokens=100, output_tokens=10, cost=0.5)
    model = ScriptedModel([say("一", usage=usage), say("two", usage=usage)])
    team = Team(Agent(name="clerk", instructions="Help.", model=model))
    async with serving(tmp_path, monkeypatch, team=team) as found:
        await found.ask("你好", session_id="s")
        await found.ask("hello", session_id="t")
        yield found


async def test_costs_equal_the_output_of_the_command(desk: Served) -> None:
    for query, options in (
        ("", ()),
        ("?session=s", ("s",)),
        ("?by=day", ("--by", "day")),
        ("?by=session&by=agent", ("--by", "session", "--by", "agent")),
        ("?since=1h", ("--since", "1h")),
        ("?since=2999-01-01", ("--since", "2999-01-01")),
        ("?session=t&since=2999-01-01", ("t", "--since", "2999-01-01")),
    ):
        found = await desk.get(f"/costs{query}")
        assert found == await desk.command("cost", *options), query
    assert (await desk.get("/costs"))["total"]["requests"] == 2
    assert (await desk.get("/costs?session=s"))["total"]["cost"] == 0.5


async def test_an_invalid_cost_query_is_refused(desk: Served) -> None:
    problem(await desk("GET", "/costs?session=nobody"), 404, "session.not_found")
    for query in ("by=moon", "by=day&by=day", "since=x", "session=a/b", "session="):
        problem(await desk("GET", f"/costs?{query}"), 422)


async def test_reading_costs_needs_the_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch, gate=As("run")) as desk:
        problem(await desk("GET", "/costs"), 403, "auth.scope")
        problem(await desk("GET", "/mirror"), 403, "auth.scope")
