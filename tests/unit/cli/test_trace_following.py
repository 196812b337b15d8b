"""Spans as they happen, of a session and of those that answer it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ekiden.cli.errors import Exit
from ekiden.cli.views.live import SpanFollower
from ekiden.cli.views.traces import PLAIN
from ekiden.core.agent import Agent, Team
from ekiden.core.errors import StoreUnavailable
from ekiden.hub import EventHub
from ekiden.runtime import CodeContext, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, say
from ekiden.tracing import read_trace


async def asks(ctx: CodeContext) -> Any:
    return await ctx.ask("expert", "how many?")


def team() -> Team:
    expert = Agent("expert", model=ScriptedModel([say("seven")]))
    return Team(Agent("boss", run=asks), expert)


async def followed(store: MemoryStore, **options: Any) -> int:
    """Follow session s1 while it is run."""
    values = {"look": PLAIN, "as_json": False, "children": True, "cost": None, **options}
    follower = SpanFollower(store, **values)
    async with EventHub(store) as hub, hub.subscribe() as stream:
        task = asyncio.create_task(follower.follow("s1", stream))
        await asyncio.sleep(0)
        await Runner.run(team(), "count", session=Session("s1", store=store))
        return await asyncio.wait_for(task, 60)


async def a_store() -> MemoryStore:
    store = MemoryStore()
    await Session("s1", store=store).add_items([{"role": "user", "content": "before"}])
    return store


async def test_spans_of_asked_agents_are_shown_below_the_question(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await followed(await a_store()) == Exit.OK
    out = capsys.readouterr().out.splitlines()
    model = next(line for line in out if "[llm]" in line)
    asked = next(line for line in out if "ask expert" in line)
    assert model.index("[llm]") > asked.index("[message]")
    assert any("[run] run 1 done" in line for line in out)


async def test_json_output_contains_every_span_with_its_stored_ids(
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = await a_store()
    await followed(store, as_json=True)
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    stored = {span.span_id: span for span in (await read_trace(store, "s1")).spans}
    ended = {each["span_id"] for each in shown if each["change"] == "end"}
    assert ended == {key for key, span in stored.items() if span.kind != "session"}
    assert all(stored[each["span_id"]].parent_id == each["parent_id"] for each in shown)


async def test_spans_of_asked_agents_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    await followed(await a_store(), children=False)
    assert "[llm]" not in capsys.readouterr().out


async def test_an_outage_and_its_end_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (False, True):
        follower = SpanFollower(
            MemoryStore(), look=PLAIN, as_json=as_json, children=True, cost=None
        )
        follower.outage(StoreUnavailable("gone"))
        follower.outage(None)
        err = capsys.readouterr().err
        assert "trying again" in err
        assert "the store is reachable again" in err
