"""Agents, what they do, and who would get a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ekiden.bus.deadlocks import break_deadlock
from ekiden.client.ekiden import Ekiden
from ekiden.core.errors import UnknownAgent, UserError
from ekiden.core.errors.server import RequestInvalid
from ekiden.project import open_store
from ekiden.storage.base import NewSession
from tests.unit.bus.asked import ask

BILLING = """---
name: 会计
description: 处理退款
triggers: {keywords: [refund, 退款], priority: 90}
capabilities:
  - {name: refunds, proficiency: 0.9, tags: [money]}
  - invoices
handoffs: [ps]
---
You do the books.
"""
DESK = "---\nname: ps\ndescription: Takes the rest.\n---\nYou sit at the desk.\n"


@pytest.fixture(autouse=True)
def team(tmp_path: Path) -> None:
    folder = tmp_path / ".ekiden" / "agents"
    folder.mkdir(parents=True)
    (folder / "billing.md").write_text(BILLING, encoding="utf-8")
    (folder / "ps.md").write_text(DESK, encoding="utf-8")


async def test_agents_are_listed_and_shown(ekiden: Ekiden) -> None:
    page = await ekiden.agents.list().page()
    assert ([each.name for each in page.items], page.next_cursor) == (["ps", "会计"], None)
    billing = page.items[1]
    assert (billing.kind, billing.scope, billing.origin) == ("model", "project", "ekiden")
    assert (billing.triggers.keywords, billing.triggers.priority) == (("refund", "退款"), 90)
    assert [each.name for each in billing.capabilities] == ["refunds", "invoices"]
    assert billing.handoffs[0] == "ps"
    found = await ekiden.agents.get("@会计")
    assert (found.capabilities, found.triggers) == (billing.capabilities, billing.triggers)
    assert found.instructions == "You do the books."
    assert (found.handoffs[0]["to"], found.available) == ("ps", True)
    # What a path means otherwise is still the name of an agent.
    assert (await ekiden.agents.get("ps")).description == "Takes the rest."
    with pytest.raises(UnknownAgent, match="did you mean 'ps'"):
        await ekiden.agents.get("pss")
    with pytest.raises(RequestInvalid):
        await ekiden.agents.get("a" * 202)


async def test_sessions_of_agents_are_counted_by_status(ekiden: Ekiden, tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "s.db"), create=False) as store:
        await store.create(NewSession(id="a", agent="会计"))
        await store.create(NewSession(id="b", agent="会计", status="waiting"))
        await store.create(NewSession(id="c", agent="who-left", status="ready"))
        await store.claim("b", owner="somebody", lease_s=60)
        await ask(store, "会计>ps")
    page = await ekiden.agents.ps().page()
    by_name = {each.agent: each for each in page.items}
    assert list(by_name) == ["ps", "会计", "who-left"]
    billing = by_name["会计"]
    assert (billing.sessions, billing.idle, billing.waiting, billing.status) == (
        2,
        1,
        1,
        "internal",
    )
    assert [(each.session_id, each.owner) for each in billing.running] == [("b", "somebody")]
    assert [each.waiting_for for each in billing.waits] == [("ps",)]
    assert (by_name["who-left"].known, by_name["who-left"].router) == (False, False)
    busy = {each.agent: each async for each in ekiden.agents.ps(idle=False)}
    assert (busy["会计"].idle, busy["会计"].waiting) == (0, 1)


async def test_deadlocks_are_listed_in_pages(ekiden: Ekiden, tmp_path: Path) -> None:
    assert [each async for each in ekiden.agents.deadlocks()] == []
    async with open_store(str(tmp_path / "s.db"), create=False) as store:
        for first, second in (("a", "b"), ("甲", "乙")):
            await ask(store, f"{first}>{second}", f"{second}>{first}")
            await break_deadlock(store, second)
    page = await ekiden.agents.deadlocks().page(limit=1)
    rest = await ekiden.agents.deadlocks().page(limit=1, cursor=page.next_cursor)
    [newest, oldest] = [*page.items, *rest.items]
    assert (newest.cycle, newest.victim, newest.resolved) == (("甲", "乙", "甲"), "甲", True)
    assert [(each.source, each.target, each.given_up) for each in newest.asks] == [
        ("甲", "乙", True),
        ("乙", "甲", False),
    ]
    assert (oldest.victim, rest.next_cursor) == ("a", None)


async def test_agents_are_matched_by_their_capabilities(ekiden: Ekiden) -> None:
    for asked in (["refunds", "invoices"], ["refunds,invoices"], ["refunds、 invoices ,"]):
        [found] = [each async for each in ekiden.agents.match(asked)]
        assert (found.agent, found.score, found.by) == ("会计", 0.95, "name")
        assert (found.matched, found.missing) == (("refunds", "invoices"), ())
    [found] = [each async for each in ekiden.agents.match(["tag:money", "chess"], min_score=0.4)]
    assert (found.score, found.by, found.missing) == (0.45, "tag", ("chess",))
    assert (found.fits[0].required, found.fits[0].capability) == ("tag:money", "refunds")
    rest = ekiden.agents.match(["refunds"], exclude=["@会计"], min_score=0)
    assert [each.agent async for each in rest] == ["ps"]
    with pytest.raises(UnknownAgent):
        await ekiden.agents.match(["refunds"], exclude=["ghost"]).page()
    with pytest.raises(UserError):
        await ekiden.agents.match(["tag:"]).page()
    wrong: list[dict[str, Any]] = [
        {"capabilities": []},
        {"capabilities": [","]},
        {"capabilities": ["x"], "min_score": 1.5},
    ]
    for given in wrong:
        with pytest.raises(RequestInvalid):
            await ekiden.agents.match(**given).page()


async def test_a_route_preview_names_the_agent_and_the_method(ekiden: Ekiden) -> None:
    found = await ekiden.agents.route("I want a refund", strategy="rule")
    assert (found.agent, found.method, found.strategy) == ("会计", "rule", "rule")
    assert (found.matched_keywords, found.fallback, found.cause) == (("refund",), None, "new")
    first, last = found.candidates
    assert (first.agent, last.agent, last.method) == ("会计", "ps", "none")
    assert [(each.kind, each.text) for each in first.matches] == [("keyword", "refund")]
    [stage] = found.stages
    assert (stage.agent, stage.candidates[0].matched_keywords) == ("会计", ("refund",))
    named = await ekiden.agents.route("@ps I want a refund", strategy="rule")
    assert (named.agent, named.method, named.confidence) == ("ps", "named", 100)
    nobody = await ekiden.agents.route("@auto --strategy=rule hm", strategy="llm")
    assert (nobody.agent, nobody.strategy) == (None, "rule")
    assert nobody.fallback is not None
    assert "@ps, @会计" in nobody.fallback
    with pytest.raises(UnknownAgent):
        await ekiden.agents.route("@ghost hi")
    for given in ({"text": " "}, {"text": "@auto"}, {"text": "hi", "strategy": "magic"}):
        with pytest.raises(RequestInvalid):
            await ekiden.agents.route(**given)
    with pytest.raises(UserError, match="there is no strategy 'magic'"):
        await ekiden.agents.route("@auto --strategy=magic hi")
