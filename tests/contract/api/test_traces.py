"""Traces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ekiden.client.ekiden import Ekiden
from ekiden.core.documents import to_json
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.core.errors.server import RequestInvalid
from tests.contract.api.conftest import Begin


@pytest.fixture(autouse=True)
async def begun(begin: Begin) -> None:
    await begin("s")


async def test_a_trace_is_a_tree_of_spans(ekiden: Ekiden) -> None:
    found = await ekiden.traces.get("s")
    assert (found.session_id, found.status) == ("s", "ok")
    assert (*found.errors, *found.waits) == ()
    assert [each.kind for each in found.spans] == ["session", "run", "message", "agent", "llm_call"]
    assert [each.depth for each in found.spans] == [0, 1, 2, 2, 3]
    assert {each.trace_id for each in found.spans} == {found.trace_id}
    assert found.tokens["requests"] == found.unpriced_requests == 1
    assert all(each.content is None for each in found.spans)
    first = to_json(found.spans[0])
    assert first["parent_id"] is None
    assert not {"error", "links", "cost"} & first.keys()
    told = await ekiden.traces.get("s", content=True, children=False)
    assert told.spans[-1].content is not None


async def test_spans_come_in_pages_and_are_filtered(ekiden: Ekiden) -> None:
    whole = [each async for each in ekiden.traces.spans("s")]
    assert whole == list((await ekiden.traces.get("s")).spans)
    first = await ekiden.traces.spans("s").page(limit=3)
    rest = await ekiden.traces.spans("s").page(limit=3, cursor=first.next_cursor)
    assert [*first.items, *rest.items] == whole
    assert rest.next_cursor is None
    some = [each.kind async for each in ekiden.traces.spans("s", kinds=["agent", "run"])]
    assert some == ["run", "agent"]
    assert [each async for each in ekiden.traces.spans("s", errors=True)] == []
    [last] = [each async for each in ekiden.traces.spans("s", kinds=["llm_call"], content=True)]
    assert last.content is not None
    alone = ekiden.traces.spans("s", children=False)
    assert [each async for each in alone] == whole


async def test_a_trace_is_exported_for_other_programs(ekiden: Ekiden) -> None:
    found = await ekiden.traces.get("s")
    lines = [json.loads(line) async for line in ekiden.traces.export("s")]
    assert [each["span_id"] for each in lines] == [each.span_id for each in found.spans]
    assert not any("content" in each for each in lines)
    shown = [json.loads(line) async for line in ekiden.traces.export("s", content=True)]
    assert any("content" in each for each in shown)
    events = [json.loads(line) async for line in ekiden.traces.events("s", children=False)]
    assert {each["trace_id"] for each in events} == {found.trace_id}
    assert [each["seq"] for each in events] == list(range(1, len(events) + 1))
    openai = await ekiden.traces.openai("s")
    assert [each["object"] for each in openai.data] == ["trace"] + ["trace.span"] * 5


async def test_an_unknown_session_or_invalid_page_of_a_trace_is_refused(ekiden: Ekiden) -> None:
    calls: list[Any] = [
        lambda name: ekiden.traces.get(name),
        lambda name: ekiden.traces.openai(name),
        lambda name: ekiden.traces.spans(name).page(),
        lambda name: anext(ekiden.traces.export(name)),
        lambda name: anext(ekiden.traces.events(name)),
    ]
    for call in calls:
        with pytest.raises(SessionNotFound, match="nobody"):
            await call("nobody")
        with pytest.raises(RequestInvalid):
            await call("客")
    unknown: Any = ["party"]
    with pytest.raises(RequestInvalid):
        await ekiden.traces.spans("s", kinds=unknown).page()
    with pytest.raises(UserError, match="not a cursor"):
        await ekiden.traces.spans("s").page(cursor="0" * 16)
