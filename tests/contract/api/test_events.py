"""What happens in all sessions, as it happens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.api.traces import Live, LiveEvent, Position
from ekiden.client.ekiden import Ekiden
from ekiden.core.errors import UserError
from ekiden.core.events import Event


async def told(relay: Ekiden, **wanted: Any) -> list[Live]:
    """All that there is."""
    async with relay.events.subscribe(after="", follow=False, **wanted) as live:
        return [each async for each in live]


def events(found: list[Live]) -> list[Event]:
    return [each.event for each in found if isinstance(each, LiveEvent)]


async def test_events_are_streamed_live_and_a_subscription_resumes(relay: Ekiden) -> None:
    async with asyncio.timeout(60), relay.events.subscribe(sessions=["a"]) as live:
        assert isinstance(await anext(live), Position)
        await relay.runs.run("hi", session_id="b")
        await relay.runs.run("refund please", session_id="a")
        found: list[LiveEvent] = []
        async for each in live:
            assert isinstance(each, LiveEvent)
            found.append(each)
            if each.type == "inbox.new_item":
                break
    assert [each.event.seq for each in found] == list(range(1, len(found) + 1))
    assert {each.event.session_id for each in found} == {"a"}
    assert found[0].data == found[0].event.to_json()
    assert found[-1].data["from"] == "desk"
    async with relay.events.subscribe(sessions=["a"], after=found[1].id, follow=False) as rest:
        again = [each async for each in rest]
    assert isinstance(again[0], Position)
    assert isinstance(again[-1], Position)
    assert [each.id for each in again if isinstance(each, LiveEvent)][: len(found) - 2] == [
        each.id for each in found[2:]
    ]


async def test_events_are_filtered_by_type_and_session(relay: Ekiden) -> None:
    await relay.runs.run("hi", session_id="a")
    run = await relay.runs.run("refund please", session_id="b")
    await relay.inbox.answer(run.questions[0], "reject")
    await relay.runs.wait("b:1")
    everything = events(await told(relay))
    assert {each.session_id for each in everything} == {"", "a", "b"}
    moves = events(await told(relay, types=["handoff"]))
    assert [each.event_id for each in moves] == [
        each.event_id for each in everything if each.type == "handoff"
    ]
    assert {each.agent for each in events(await told(relay, agents=["triage"]))} >= {"triage"}
    kinds = [each.type for each in await told(relay, inbox=True) if isinstance(each, LiveEvent)]
    assert kinds[:2] == ["inbox.new_item", "inbox.answered"]
    assert events(await told(relay, sessions=["c"])) == []


async def test_an_invalid_subscription_is_refused(relay: Ekiden) -> None:
    with pytest.raises(UserError, match="not the id of an event"):
        async with relay.events.subscribe(after="nonsense") as live:
            await anext(live)
