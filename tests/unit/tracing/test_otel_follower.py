"""Traces that are sent as they happen, and across restarts."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, HandoffController, Runner, Session, handoff, person
from ekiden.core.errors import StoreUnavailable
from ekiden.core.events import Event
from ekiden.project import open_store
from ekiden.runtime.history.fork import fork_session
from ekiden.storage.base import (
    Batch,
    Commit,
    DocumentWrite,
    EventPage,
    NewSession,
    SessionPatch,
    Store,
)
from ekiden.storage.feed_position import FeedPosition
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call
from ekiden.tracing.lookup import read_trace
from ekiden.tracing.otel_exporter import OtelSpans, OtlpSender
from ekiden.tracing.otel_follower import (
    PLACES,
    FeedSpans,
    FollowPolicy,
    OtelFollower,
)
from tests.support.otlp import OtlpServer
from tests.unit.tracing.otel_team import a_span, clean_environment, conversation

__all__ = ["clean_environment"]

QUICK = FollowPolicy(first_pause_s=0.01, longest_pause_s=0.02)


@pytest.fixture
async def collector() -> AsyncIterator[OtlpServer]:
    async with OtlpServer() as server:
        yield server


@asynccontextmanager
async def following(
    store: Store, collector: OtlpServer, **named: Any
) -> AsyncIterator[OtelFollower]:
    named = {"policy": QUICK, "from_start": True, **named}
    follower = OtelFollower(store, endpoint=collector.origin, **named)
    task = asyncio.create_task(follower.run())
    try:
        yield follower
    finally:
        follower.stop()
        async with asyncio.timeout(60):
            await task


async def ids_of(store: Store, *sessions: str) -> set[str]:
    """The ids of all spans that have ended."""
    spans = [span for each in sessions for span in (await read_trace(store, each)).spans]
    return {span.span_id for span in spans if span.kind != "session" and span.ended_at_us}


async def test_spans_are_sent_once_as_they_end(collector: OtlpServer) -> None:
    store = MemoryStore()
    async with following(store, collector):
        for number in range(3):
            await conversation(store, f"s{number}")
        await collector.wait_for_spans(27)
    got = [span.span_id for span in collector.spans]
    assert set(got) == await ids_of(store, "s0", "s1", "s2")
    assert len(got) == len(set(got))


async def test_spans_sent_live_equal_those_sent_later(collector: OtlpServer) -> None:
    store = MemoryStore()
    await conversation(store)
    policy = FollowPolicy(page=1)
    follower = OtelFollower(store, endpoint=collector.origin, from_start=True, policy=policy)
    report = await follower.run(once=True)
    assert (report.sent, report.refused, report.problem) == (9, 0, None)
    assert {span.span_id for span in collector.spans} == await ids_of(store, "s1")
    target = collector.named("invoke_agent billing")
    (link,) = collector.named("execute_tool transfer_to_billing").links
    assert link.span_id == target.span_id
    assert collector.named("run").parent_id is None


async def test_a_new_follower_starts_with_new_events(
    collector: OtlpServer,
) -> None:
    store = MemoryStore()
    await conversation(store, "before")
    await OtelFollower(store, endpoint=collector.origin).run(once=True)
    await conversation(store, "after")
    await OtelFollower(store, endpoint=collector.origin).run(once=True)
    assert {span.span_id for span in collector.spans} == await ids_of(store, "after")


async def test_a_link_points_to_a_span_sent_after_a_person_answered(
    collector: OtlpServer,
) -> None:
    store = MemoryStore()
    edge = handoff(person("support"), tool_name_override="ask_people")
    model = ScriptedModel([call("ask_people", reason="angry")])
    triage = Agent("triage", model=model, handoffs=[edge])
    await Runner.run(triage, "I want my money.", session=Session("s1", store=store))
    await OtelFollower(store, endpoint=collector.origin, from_start=True).run(once=True)
    waiting = [span for span in collector.spans if span.name.startswith("invoke_agent person")]
    assert not waiting
    assert "run" not in collector.names

    await HandoffController(triage, store).answer("s1", "You get it.", by="anna")
    # Another process sends the rest, days later.
    await OtelFollower(store, endpoint=collector.origin).run(once=True)
    stay = next(span for span in collector.spans if span.name.startswith("invoke_agent person"))
    moved = next(span for span in collector.spans if "transfer_to" in span.name)
    assert [link.span_id for link in moved.links] == [stay.span_id]
    assert {span.span_id for span in collector.spans} == await ids_of(store, "s1")


async def test_a_collector_gets_all_spans_after_an_outage(
    collector: OtlpServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="ekiden")
    store = MemoryStore()
    collector.default_status = 500
    async with following(store, collector) as follower:
        await conversation(store)
        await collector.wait_for_requests(3)
        assert follower.report.problem == "the collector answered 500"
        assert not collector.spans
        collector.default_status = 200
        await collector.wait_for_spans(9)
    assert {span.span_id for span in collector.spans} == await ids_of(store, "s1")
    told = [record.message for record in caplog.records if record.name == "ekiden.otel"]
    assert told == ["the collector answered 500; traces wait", "the collector accepts traces again"]


async def test_spans_refused_during_an_outage_are_sent_by_the_next_follower(
    collector: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    await conversation(store)
    async with OtlpServer() as gone:
        address = gone.origin
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    report = await OtelFollower(store, endpoint=address, from_start=True).run(once=True)
    assert (report.sent, report.problem) == (0, "the collector cannot be reached")
    document = await store.get_document(PLACES, "default")
    assert document is not None
    assert document.body["problem"] == "the collector cannot be reached"
    assert document.body["owner"] is None
    report = await OtelFollower(store, endpoint=collector.origin).run(once=True)
    assert (report.sent, report.problem) == (9, None)


async def test_a_retry_after_of_the_collector_is_followed(
    collector: OtlpServer,
) -> None:
    ready = OtelSpans().readable([a_span()], tops={})
    sender = OtlpSender(endpoint=collector.origin)
    collector.answer_next(500, retry_after_s=7)
    collector.answer_next(500, retry_after_s=10**9)
    try:
        waits = [(await asyncio.to_thread(sender.send, ready)).retry_after_s for _ in range(2)]
    finally:
        sender.close()
    assert waits == [7, 300]

    store = MemoryStore()
    collector.answer_next(500, retry_after_s=1)
    async with following(store, collector):
        await conversation(store)
        await collector.wait_for_spans(9)


async def test_permanently_refused_spans_are_skipped(
    collector: OtlpServer, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    await conversation(store)
    collector.answer_next(400, 400, 400, 400)
    follower = OtelFollower(store, endpoint=collector.origin, from_start=True)
    report = await follower.run(once=True)
    assert (report.sent, report.refused, report.problem) == (8, 1, None)
    assert "refused 1 spans for good" in caplog.text


async def test_only_one_of_two_followers_sends(collector: OtlpServer) -> None:
    store = MemoryStore()
    async with following(store, collector), following(store, collector):
        await conversation(store)
        await collector.wait_for_spans(9)
    assert len(collector.spans) == 9


async def test_followers_with_different_names_send_independently(collector: OtlpServer) -> None:
    store = MemoryStore()
    await conversation(store)
    for name in ("one", "two"):
        follower = OtelFollower(store, endpoint=collector.origin, name=name, from_start=True)
        assert (await follower.run(once=True)).sent == 9


async def test_a_dead_follower_is_replaced_when_its_lease_expires(
    collector: OtlpServer,
) -> None:
    store = MemoryStore()
    dead = FeedPosition(
        store, PLACES, "default", name="default", owner="dead", lease_s=0.1, skipped="refused"
    )
    assert await dead.claim()
    async with following(store, collector, policy=replace(QUICK, lease_s=0.3)):
        await conversation(store)
        await collector.wait_for_spans(9)


async def test_a_follower_that_lost_its_lease_stands_by(
    collector: OtlpServer, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    async with following(store, collector):
        await conversation(store, "s1")
        await collector.wait_for_spans(9)
        document = await store.get_document(PLACES, "default")
        assert document is not None
        other = {**document.body, "owner": "somebody", "until_us": 0}
        await store.write_documents([DocumentWrite(collection=PLACES, key="default", body=other)])
        await conversation(store, "s2")
        ended = await ids_of(store, "s1", "s2")
        # The follower that takes over may send some a second time.
        await collector.wait_until(lambda: {span.span_id for span in collector.spans} == ended)
    assert "another process sends traces now" in caplog.text


class Flaky(MemoryStore):
    """A store whose feed can be away."""

    failures = 0

    async def feed(self, *, after: str | None = None, limit: int = 100) -> EventPage:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("the database is away")
        return await super().feed(after=after, limit=limit)


async def test_a_follower_waits_during_a_store_outage(collector: OtlpServer) -> None:
    store = Flaky()
    store.failures = 2
    async with following(store, collector):
        await conversation(store)
        await collector.wait_for_spans(9)


async def test_a_single_pass_fails_during_a_store_outage(collector: OtlpServer) -> None:
    store = Flaky()
    store.failures = 1
    follower = OtelFollower(store, endpoint=collector.origin, from_start=True)
    with pytest.raises(StoreUnavailable):
        await follower.run(once=True)


async def test_nothing_is_sent_while_the_sdk_is_disabled(
    collector: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "TRUE")
    store = MemoryStore()
    await conversation(store)
    report = await OtelFollower(store, endpoint=collector.origin, from_start=True).run()
    assert report.is_disabled
    assert not collector.requests


async def test_a_trace_not_sampled_by_the_caller_is_not_sent(collector: OtlpServer) -> None:
    store = MemoryStore()
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    await conversation(store, traceparent=caller)
    report = await OtelFollower(store, endpoint=collector.origin, from_start=True).run(once=True)
    assert (report.sent, report.problem) == (0, None)


async def test_events_before_a_fork_are_sent_once(collector: OtlpServer) -> None:
    store = MemoryStore()
    await conversation(store)
    last = (await store.get("s1")).seq
    await fork_session(store, "s1", at_seq=last, new_id="s2")
    await OtelFollower(store, endpoint=collector.origin, from_start=True).run(once=True)
    assert len(collector.spans) == 9


async def test_deleted_sessions_and_events_without_a_session_are_skipped(
    collector: OtlpServer,
) -> None:
    store = MemoryStore()
    await conversation(store, "gone")
    await conversation(store, "s1")
    await store.delete("gone")
    lone = Event(session_id="", seq=0, type="message", at_us=1, details={"deadlock": {}})
    await store.write(Batch(events=[lone]))
    await OtelFollower(store, endpoint=collector.origin, from_start=True).run(once=True)
    assert {span.span_id for span in collector.spans} == await ids_of(store, "s1")


async def test_an_unreadable_session_does_not_block_others(
    collector: OtlpServer, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    claim, _ = await store.claim(
        "odd", owner="me", lease_s=9, create=NewSession(id="odd", agent="a")
    )
    odd: Any = "no such type"
    events = [Event(session_id="odd", seq=1, type=odd, at_us=1)]
    await store.commit(claim, Commit(patch=SessionPatch(), events=events, release=True))
    await conversation(store)
    await OtelFollower(store, endpoint=collector.origin, from_start=True).run(once=True)
    assert len(collector.spans) == 9
    assert "session odd cannot be traced" in caplog.text
    # Nor does it later, when what was is read again.
    claim, _ = await store.claim("odd", owner="me", lease_s=9)
    events = [Event(session_id="odd", seq=2, type="agent_start", at_us=2, agent="a")]
    await store.commit(claim, Commit(patch=SessionPatch(), events=events, release=True))
    report = await OtelFollower(store, endpoint=collector.origin).run(once=True)
    assert report.problem is None


async def test_a_session_dropped_from_the_cache_is_read_again() -> None:
    store = MemoryStore()
    for number in range(3):
        await conversation(store, f"s{number}")
    page = await store.feed(limit=1000)
    whole = FeedSpans(store)
    expected = {span.span_id for span in (await whole.read(page.events)).spans}
    forgetful = FeedSpans(store, most=1)
    found: list[str] = []
    for event in sorted(page.events, key=lambda event: event.seq):
        found += [span.span_id for span in (await forgetful.read([event])).spans]
    assert set(found) == expected
    assert len(found) == len(expected)


async def test_a_finished_handoff_waits_for_its_link(collector: OtlpServer) -> None:
    store = MemoryStore()
    claim, _ = await store.claim("s", owner="me", lease_s=9, create=NewSession(id="s", agent="a"))
    moved = {"id": "s.h1", "from": "a", "to": "b", "status": "completed"}

    def event(seq: int, type: Any, agent: str, **more: Any) -> Event:
        return Event(session_id="s", seq=seq, type=type, at_us=seq, agent=agent, **more)

    events = [
        event(1, "message", "a", items=({"role": "user", "content": "hi"},)),
        event(2, "agent_start", "a"),
        event(3, "handoff", "a", details=moved),
        event(4, "agent_start", "b"),
        event(5, "agent_complete", "b"),
    ]
    for each in events:
        await store.commit(claim, Commit(patch=SessionPatch(), events=[each]))
    policy = FollowPolicy(page=1)
    follower = OtelFollower(store, endpoint=collector.origin, from_start=True, policy=policy)
    await follower.run(once=True)
    (link,) = collector.named("execute_tool transfer_to_b").links
    assert link.span_id == collector.named("invoke_agent b").span_id


async def test_a_killed_follower_loses_no_span(collector: OtlpServer, tmp_path: Path) -> None:
    url = str(tmp_path / "desk.db")

    async def child() -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.otel_child", url, collector.origin
        )

    async with open_store(url) as store:
        await conversation(store, "s1")
        collector.answer_next(200, 200, *[500] * 1000)
        first = await child()
        await collector.wait_for_requests(3)
        first.kill()
        await first.wait()
        collector.clear_answers()
        await conversation(store, "s2")
        second = await child()
        try:
            wanted = await ids_of(store, "s1", "s2")
            await collector.wait_until(lambda: {span.span_id for span in collector.spans} >= wanted)
        finally:
            second.kill()
            await second.wait()
    # Only what was being sent when the process died may have come twice.
    assert {span.span_id for span in collector.spans} == wanted


async def test_the_spans_of_an_asked_session_are_below_the_question(collector: OtlpServer) -> None:
    async def answer(ctx: Any) -> str:
        return "42"

    async def ask(ctx: Any) -> str:
        return str(await ctx.ask("oracle", "How many?"))

    store = MemoryStore()
    asker = Agent("asker", run=ask, handoffs=[Agent("oracle", run=answer)])
    await Runner.run(asker, "hi", session=Session("s1", store=store))
    await OtelFollower(store, endpoint=collector.origin, from_start=True).run(once=True)
    trace = await read_trace(store, "s1")
    tops = {span.span_id: span.parent_id for span in trace.spans if span.kind == "session"}
    assert len(tops) == 2
    wanted = {
        span.span_id: tops.get(span.parent_id or "", span.parent_id)
        for span in trace.spans
        if span.kind != "session"
    }
    assert {span.span_id: span.parent_id for span in collector.spans} == wanted
    assert len({span.trace_id for span in collector.spans}) == 1
    # A session is no span here, so nothing links to one.
    known = {span.span_id for span in collector.spans}
    assert all(link.span_id in known for span in collector.spans for link in span.links)
