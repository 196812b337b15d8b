"""Messages that are malformed, huge or hostile: each is refused in words, and nothing happens."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ekiden.collaboration import CollaborationSettings
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.errors.collaboration import CollaborationError, MessageMalformed, SignatureInvalid
from tests.support.examples import examples
from tests.unit.collaboration.offices import Office

ODD: Any = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["", "\ud800", "x" * 500, "ekiden", "bob", "col_1", "0" * 64])
    | st.lists(st.text(), max_size=2)
    | st.dictionaries(st.text(), st.integers(), max_size=2)
    | st.just(object())
)


@pytest.mark.parametrize("payload", [None, 5, "x", [], {}, {"protocol": "other"}, {"protocol": []}])
async def test_a_message_outside_the_protocol_is_malformed(office: Office, payload: Any) -> None:
    message = AgentMessage(type="negotiate", from_agent="ann", to_agent="bob", payload=payload)
    with pytest.raises(MessageMalformed, match="protocol"):
        await office.collaborations.submit(message)
    with pytest.raises(MessageMalformed):
        await office.collaborations.receive("bob", message)
    assert await office.refusals() == ["collaboration.malformed"] * 2


async def test_a_huge_message_is_refused_and_its_record_is_small() -> None:
    office = Office(settings=CollaborationSettings(max_message_bytes=1000))
    with pytest.raises(MessageMalformed, match="more than the maximum of 1000"):
        await office["ann"].propose("bob", "x" * 2000)
    [event] = await office.events()
    assert event.error is not None
    assert len(event.error) <= 500
    assert await office.collaborations.list() == []


async def test_a_deeply_nested_message_is_refused(office: Office) -> None:
    await office["ann"].propose("bob", "x")
    [message] = await office.mail("bob")
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    message.payload["body"]["terms"] = deep
    with pytest.raises(MessageMalformed, match="not JSON"):
        await office.collaborations.submit(message)
    with pytest.raises(MessageMalformed):
        await office.collaborations.receive("bob", message)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda m: m.payload.pop("move"), "lacks `move`"),
        (lambda m: m.payload.update(move="steal"), "`move` of the payload"),
        (lambda m: m.payload.update(move="execute"), "`move` of the payload"),
        (lambda m: m.payload.update(move=["propose"]), "`move` of the payload"),
        (lambda m: m.payload.update(more=1), "'more', which does not belong"),
        (lambda m: m.payload["body"].update(more=1), "'more', which does not belong"),
        (lambda m: m.payload.update(body=5), "`body` of the payload"),
        (lambda m: m.payload.update(to=None), "is for one"),
        (lambda m: m.payload.update(signature="short"), "`signature`"),
        (lambda m: m.payload["body"].update(opening=[]), "the opening must be an object"),
        (lambda m: m.payload["body"]["opening"].update(participants=["ann"]), "participants"),
        (lambda m: m.payload["body"]["opening"].update(max_rounds=True), "max_rounds"),
    ],
)
async def test_each_malformed_field_is_named(office: Office, change: Any, problem: str) -> None:
    await office["ann"].propose("bob", "x")
    [message] = await office.mail("bob")
    change(message)
    with pytest.raises(MessageMalformed, match=problem):
        await office.collaborations.submit(message)


async def test_a_move_with_the_wrong_message_type_is_refused(office: Office) -> None:
    await office["ann"].propose("bob", "x")
    [message] = await office.mail("bob")
    with pytest.raises(MessageMalformed, match="type 'notify'"):
        await office.collaborations.submit(replace(message, type="notify"))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    found = [path] if path else []
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        found += places(child, (*path, key))
    return found


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of the JSON value with something else at that place."""
    made = deepcopy(value)
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return made


@settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
async def test_a_message_with_any_change_is_refused(data: st.DataObject) -> None:
    office = Office()
    made = await office["ann"].propose("bob", {"price": [1, 2]}, context={"a": {"b": 1}})
    [message] = await office.mail("bob")
    whole = message.to_json()
    place = data.draw(st.sampled_from(places(whole)))
    new = data.draw(ODD)
    hostile = put(whole, place, new)
    try:
        is_same = json.dumps(hostile, sort_keys=True) == json.dumps(whole, sort_keys=True)
    except TypeError:
        is_same = False
    unsigned = ("subject",), ("priority",), ("timeout_seconds",), ("task",), ("id",), ("to_agent",)
    if is_same or place in unsigned:
        return
    with pytest.raises((MessageMalformed, SignatureInvalid)):
        await office.collaborations.submit(AgentMessage.from_json(hostile))
    with pytest.raises(CollaborationError):
        await office.collaborations.receive("bob", AgentMessage.from_json(hostile))
    assert len(await office.refusals()) == 2
    assert await office.collaborations.list() == [made]
