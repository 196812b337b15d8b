"""Usage and cost of model calls, computed from events."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import Usage
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.core.events import Event
from ekiden.core.roles import Assignment
from ekiden.runtime import CodeContext, Price, Runner
from ekiden.runtime.history.deletion import delete_session
from ekiden.runtime.history.fork import fork_session
from ekiden.sessions import Session
from ekiden.sessions.costs import call_pages, cost_report, events_with_asked
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, say

DAY_US = 86_400_000_000


async def all_calls(store: MemoryStore) -> list[Event]:
    return [event async for page in call_pages(store) for event in page]


def called(
    seq: int,
    model: str | None,
    *,
    agent: str = "a",
    session: str = "s",
    at_us: int = 0,
    **counts: Any,
) -> Event:
    details: dict[str, Any] = {"usage": counts}
    if model is not None:
        details["model"] = model
    return Event(
        session_id=session, seq=seq, type="llm_call", at_us=at_us, agent=agent, details=details
    )


TOKENS = {"requests": 1, "input_tokens": 1_000_000, "output_tokens": 1_000_000}


def test_costs_are_grouped_by_agent_and_model() -> None:
    prices = {"x": Price(input=1, output=2), "provider:y": Price(input=10, output=0)}
    report = cost_report(
        [
            called(1, "x", **TOKENS),
            called(2, "y-2025-08-07", **TOKENS),
            called(3, "x", agent="b", **TOKENS),
            called(4, "x", **TOKENS),
            Event(session_id="s", seq=5, type="message", at_us=0),
        ],
        prices,
    )
    assert [(dict(line.key), line.cost) for line in report.lines] == [
        ({"agent": "a", "model": "y-2025-08-07"}, 10.0),
        ({"agent": "a", "model": "x"}, 6.0),
        ({"agent": "b", "model": "x"}, 3.0),
    ]
    assert report.total.cost == 19.0
    assert report.total.usage.tokens == 8_000_000
    assert report.unpriced_models == ()
    record = report.to_json()
    assert record["by"] == ["agent", "model"]
    assert record["total"]["requests"] == 4
    assert record["lines"][0]["model"] == "y-2025-08-07"


def test_models_without_a_price_are_named_and_not_estimated() -> None:
    report = cost_report(
        [called(1, "nobody", **TOKENS), called(2, "gpt-5-mini", **TOKENS), called(3, None)]
    )
    assert report.unpriced_models == ("?", "nobody")
    by_model = {line.key["model"]: line.cost for line in report.lines}
    assert by_model["nobody"] is None
    assert by_model["gpt-5-mini"] == pytest.approx(2.25)
    assert report.total.cost == pytest.approx(2.25)
    assert report.total.unpriced == 2
    assert report.to_json()["lines"][-1]["cost"] is None


def test_a_price_applies_to_dated_versions_but_not_to_similar_names() -> None:
    prices = {"gpt": Price(input=1, output=1)}
    assert cost_report([called(1, "gpt-nobody", **TOKENS)], prices).total.cost is None
    assert cost_report([called(1, "gpt-2025-01-01", **TOKENS)], prices).total.cost == 2.0


def test_a_cost_reported_by_the_provider_is_used() -> None:
    assert cost_report([called(1, "nobody", requests=1, cost=0.5)]).total.cost == 0.5


def test_costs_can_be_grouped_by_session_and_day() -> None:
    events = [
        called(1, "m", at_us=0, requests=1),
        called(1, "m", session="t", at_us=DAY_US, requests=1),
        called(2, "m", session="t", at_us=DAY_US + 1, requests=1),
    ]
    report = cost_report(events, by=["day", "session"])
    assert {tuple(line.key.values()): line.usage.requests for line in report.lines} == {
        ("1970-01-01", "s"): 1,
        ("1970-01-02", "t"): 2,
    }
    no_agent = Event(session_id="s", seq=1, type="llm_call", at_us=0)
    [line] = cost_report([no_agent], by=["agent"]).lines
    assert (line.key, line.usage.requests) == ({"agent": "?"}, 1)


def test_invalid_usage_counts_are_read_as_far_as_possible() -> None:
    odd = called(1, "m", input_tokens=-5, output_tokens="many", cached_tokens=3.0)
    odd.details = {**(odd.details or {})}
    [line] = cost_report([odd]).lines
    assert (line.usage.input_tokens, line.usage.output_tokens, line.usage.cached_tokens) == (
        0,
        0,
        3,
    )
    odd.details = {"usage": "much"}
    assert cost_report([odd]).total.usage.requests == 1


async def test_costs_of_asked_sessions_count_for_the_asking_session() -> None:
    async def desk(ctx: CodeContext[Any]) -> str:
        return str(await ctx.ask("helper", "what is it?"))

    used = Usage(requests=1, input_tokens=10, output_tokens=5)
    helper = Agent("helper", model=ScriptedModel([say("this", usage=used)]))
    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(Team(Agent("desk", run=desk), helper), "hi", session=session)
    events = await events_with_asked(store, "s")
    report = cost_report(events, {"scripted": Price(input=1e6, output=1e6)}, by=["agent"])
    assert [(line.key["agent"], line.cost) for line in report.lines] == [("helper", 15.0)]
    assert cost_report(await session.events()).total.usage.requests == 0
    [asked] = {event.session_id for event in events} - {"s"}
    await delete_session(store, asked)
    assert {event.session_id for event in await events_with_asked(store, "s")} == {"s"}


async def test_the_cost_of_an_unknown_session_raises_session_not_found() -> None:
    with pytest.raises(SessionNotFound):
        await events_with_asked(MemoryStore(), "s")


USED = Usage(requests=1, input_tokens=10, output_tokens=5)


async def test_calls_before_a_branch_do_not_count_for_the_branch() -> None:
    async def desk(ctx: CodeContext[Any]) -> str:
        return str(await ctx.ask("helper", "what is it?"))

    def team(entry: str) -> Team:
        helper = Agent("helper", model=ScriptedModel(respond=lambda _: say("this", usage=USED)))
        return Team(Agent("desk", run=desk), helper, entry=entry)

    store = MemoryStore()
    await Runner.run(team("helper"), "hi", session=Session("s", store=store))
    await Runner.run(team("desk"), "hi", session=Session("t", store=store))
    assert cost_report(await all_calls(store)).total.usage.tokens == 30
    end = (await store.get("s")).seq
    branch = await fork_session(store, "s", at_seq=end)
    other = await fork_session(store, "t", at_seq=(await store.get("t")).seq)
    assert cost_report(await all_calls(store)).total.usage.tokens == 30
    for copied in (branch, other):
        assert cost_report(await events_with_asked(store, copied.session_id)).lines == []
    again = await fork_session(store, "s", before_seq=1)
    for each in (branch, again):
        await Runner.run(team("helper"), "and now?", session=each)
        assert cost_report(await events_with_asked(store, each.session_id)).total.usage.tokens == 15
        assert (await each.info()).total_tokens == 15
    assert cost_report(await all_calls(store)).total.usage.tokens == 60
    await store.delete("s")
    assert cost_report(await all_calls(store)).total.usage.tokens == 45


class Asking:
    """A router that asks a model."""

    async def assign(self, text: str, *, cause: str, **_: Any) -> Assignment:
        told = {"agent": "clerk", "cause": cause, "usage": USED.to_json()}
        return Assignment(agent="clerk", details=told, usage=USED)

    async def keep(self, text: str, *, agent: str) -> Assignment:
        return Assignment(agent=agent, details={"agent": agent, "cause": "kept"})


async def test_usage_of_the_router_counts_as_cost() -> None:
    store = MemoryStore()
    clerk = Agent("clerk", model=ScriptedModel([say("hi", usage=USED), say("hi", usage=USED)]))
    team = Team(Agent("router", scope="system", router=Asking()), clerk)
    session = Session("s", store=store)
    used = [await Runner.run(team, "hello", session=session) for _ in range(2)]
    report = cost_report(await all_calls(store))
    assert report.total.usage.tokens == sum(each.usage.tokens for each in used) == 45
    assert report.total.unpriced == report.total.usage.requests == 3
    assert (await session.info()).total_tokens == 45


@pytest.mark.parametrize("by", [["colour"], "agent", [["agent"]]])
def test_costs_grouped_by_an_unknown_field_are_refused(by: Any) -> None:
    with pytest.raises(UserError, match="agent, model, session, day"):
        cost_report([], by=by)
