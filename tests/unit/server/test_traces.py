"""Traces over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ekiden.core.events import Event
from ekiden.storage.base import Commit, SessionPatch
from ekiden.testing.contracts.base import claimed
from tests.unit.server.desks import As, Served, problem, serving

WORDS = ("我的订单 1042", "order_id", "a question about an order", "订单 1042 已发货")
"""Of the request, a tool's arguments and result, a handoff's reason, and the answer.

The number alone would be among the digits of a time now and then.
"""


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server with a session."""
    async with serving(tmp_path, monkeypatch) as found:
        await found.ask("我的订单 1042 在哪里？", session_id="s", user_id="u7")
        yield found


def words_in(text: str) -> set[str]:
    """Which of the words are to be read there."""
    return {word for word in WORDS if word in text}


async def test_a_trace_shows_spans_without_message_text(desk: Served) -> None:
    answer = await desk("GET", "/traces/s")
    trace = answer.json()
    kinds = [each["kind"] for each in trace["spans"]]
    assert kinds[:2] == ["session", "run"]
    assert {"agent", "handoff"} < set(kinds)
    assert words_in(answer.text) == set()


async def test_message_text_is_shown_on_request(desk: Served) -> None:
    told = await desk("GET", "/traces/s?content=true")
    assert words_in(told.text) == set(WORDS)


async def test_spans_equal_the_output_of_the_command(desk: Served) -> None:
    for query, options in (("", ()), ("&children=false", ("--no-children",))):
        trace = await desk.get(f"/traces/s?content=true{query}")
        assert trace["spans"] == await desk.command("trace", "s", *options)


async def test_spans_can_be_filtered_by_errors(desk: Served) -> None:
    assert (await desk.get("/traces/s/spans?errors=true"))["items"] == []
    store = await desk.store()
    wrong = Event(session_id="w", seq=1, type="tool_call", at_us=1, agent="a", error="no \ud800")
    claim = await claimed(store, "w")
    await store.commit(claim, Commit(patch=SessionPatch(), events=[wrong], release=True))
    [found] = (await desk.get("/traces/w/spans?errors=true&content=true"))["items"]
    assert found["error"] == "no \ud800"
    assert [found] == await desk.command("trace", "w", "--errors")


async def test_events_can_be_read_with_their_span_ids(desk: Served) -> None:
    answer = await desk("GET", "/traces/s?format=events")
    events = [json.loads(line) for line in answer.text.splitlines()]
    stored = await (await desk.store()).events("s")
    assert [each["event_id"] for each in events] == [each.event_id for each in stored]
    assert words_in(answer.text) == set()
    told = await desk("GET", "/traces/s?format=events&content=true")
    assert words_in(told.text) == set(WORDS)


async def test_every_format_has_the_same_spans(desk: Served) -> None:
    trace = await desk.get("/traces/s")
    lines = await desk("GET", "/traces/s?format=jsonl")
    assert lines.headers["content-type"] == "application/x-ndjson"
    spans = [json.loads(line) for line in lines.text.splitlines()]
    ids = [each["span_id"] for each in trace["spans"]]
    assert [each["span_id"] for each in spans] == ids
    first, *rest = (await desk.get("/traces/s?format=openai"))["data"]
    assert first["object"] == "trace"
    assert [each["id"] for each in rest] == [f"span_{each}" for each in ids]


async def test_spans_come_in_pages_without_gaps(desk: Served) -> None:
    whole = (await desk.get("/traces/s"))["spans"]
    assert await desk.pages("/traces/s/spans", limit=2) == whole
    some = await desk.pages("/traces/s/spans?kinds=agent&kinds=handoff", limit=1)
    assert some == [each for each in whole if each["kind"] in ("agent", "handoff")]
    alone = await desk.get("/traces/s/spans?children=false&limit=1000")
    assert alone["items"] == whole


async def test_an_invalid_trace_query_is_refused(desk: Served) -> None:
    for path in ("/traces/nobody", "/traces/nobody/spans", "/traces/nobody?format=events"):
        problem(await desk("GET", path), 404, "session.not_found")
    for path in (
        "/traces/s?format=xml",
        "/traces/s?content=perhaps",
        "/traces/%E5%AE%A2",
        "/traces/s/spans?kinds=party",
        "/traces/s/spans?cursor=x",
        "/traces/s/spans?limit=0",
    ):
        problem(await desk("GET", path), 422)


async def test_reading_traces_needs_the_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch, gate=As("run", "answer")) as desk:
        for path in ("/traces/s", "/traces/s/spans"):
            problem(await desk("GET", path), 403, "auth.scope")
