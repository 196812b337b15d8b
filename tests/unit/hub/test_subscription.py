"""Which events a subscription lets through."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.hub import EventHub, HubEvent, Subscription
from ekiden.storage.base import Store
from tests.support.cases import each_case
from tests.unit.hub.conftest import happen, happen_in, names, take


def event(**fields: Any) -> Event:
    return Event(**{"session_id": "s1", "seq": 1, "type": "message", "at_us": 1, **fields})


@each_case(
    ("where", "fields"),
    [
        ({}, {}),
        ({"sessions": ["s0", "s1"]}, {}),
        ({"sessions": ["s1"]}, {"session_id": "", "details": {"session_id": "s1"}}),
        ({"sessions": [""]}, {"session_id": ""}),
        ({"agents": ["billing"]}, {"agent": "billing"}),
        ({"agents": ["billing"]}, {"agent": "a", "details": {"from": "a", "to": "billing"}}),
        ({"agents": ["pm"]}, {"details": {"from_agent": "pm", "to_agent": "sales"}}),
        ({"types": ["handoff", "message"]}, {}),
        ({"inbox": True}, {"type": "inbox"}),
        ({"inbox": True, "sessions": ["s1"]}, {"type": "inbox"}),
    ],
)  # fmt: skip
def test_an_event_that_matches_every_filter_is_delivered(
    where: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert Subscription(**where).matches(event(**fields))


@each_case(
    ("where", "fields"),
    [
        ({"sessions": ["s"]}, {}),
        ({"sessions": []}, {}),
        ({"sessions": ["s2"]}, {"details": {"session_id": "s2"}}),
        ({"sessions": ["s1"]}, {"session_id": "", "details": {"session_id": ["s1"]}}),
        ({"agents": ["billing"]}, {"agent": "bill"}),
        ({"agents": ["billing"]}, {"details": {"from": ["billing"], "to": None}}),
        ({"agents": [""]}, {}),
        ({"types": ["handoff"]}, {}),
        ({"inbox": True}, {}),
        ({"inbox": True, "sessions": ["s2"]}, {"type": "inbox"}),
        ({"types": ["handoff"], "agents": ["a"]}, {"agent": "a"}),
    ],
)
def test_an_event_that_fails_one_filter_is_not_delivered(
    where: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert not Subscription(**where).matches(event(**fields))


@pytest.mark.parametrize("part", ["sessions", "agents", "types"])
def test_a_string_in_place_of_a_list_is_refused(part: str) -> None:
    with pytest.raises(UserError, match=f"`{part}` of a subscription is a list"):
        Subscription(**{part: "message"})


def test_subscriptions_compare_equal_in_any_order() -> None:
    assert Subscription(sessions=["a", "b"]) == Subscription(sessions={"b", "a"})


def test_an_event_as_json_has_its_id() -> None:
    shown = HubEvent(id="7", event=event(agent="triage")).to_json()
    assert shown["id"] == "7"
    assert (shown["event_id"], shown["event_type"], shown["agent_name"]) == (
        "s1/1",
        "message",
        "triage",
    )


async def test_subscribers_with_different_filters_get_their_own_events(
    store: Store, hub: EventHub
) -> None:
    async with (
        hub.subscribe(where=Subscription(agents=["日本 👋"])) as theirs,
        hub.subscribe(where=Subscription(sessions=["s1"], types=["handoff"])) as moves,
        hub.subscribe(where=Subscription(inbox=True)) as questions,
    ):
        await happen(store, "a", agent="日本 👋")
        await happen(store, "question", type="inbox")
        await happen_in(
            store,
            "s1",
            {"details": {"name": "said"}},
            {"type": "handoff", "details": {"name": "move", "from": "x", "to": "日本 👋"}},
        )
        assert names(await take(theirs, 2)) == ["a", "move"]
        assert names(await take(moves, 1)) == ["move"]
        assert names(await take(questions, 1)) == ["question"]
