"""Messages between agents, and to them from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ekiden.client.ekiden import Ekiden
from ekiden.core.conversation.messages import AgentMessage, Letter, agent_queue
from ekiden.core.errors import UnknownAgent, UserError
from ekiden.core.errors.messages import MessageNotFound
from ekiden.core.errors.server import RequestInvalid
from ekiden.project import open_store
from ekiden.storage.base import MessageSettle, QueuePut


async def put(folder: Path) -> None:
    """Three messages without a receiver; one of them is dead."""
    async with open_store(str(folder / "s.db"), create=False) as store:
        for number, agent in enumerate(("anna", "陌生人", "anna")):
            message = AgentMessage(
                id=f"m{number}", from_agent="pm", to_agent=agent, type="query", depth=number,
                task=f"t{number}", payload={"订单": [1042, None]}, correlation_id="c",
            )  # fmt: skip
            body = Letter(message=message, awaits=agent).to_json()
            await store.put_messages(
                [QueuePut(queue=agent_queue(agent), key=message.id, body=body, waiter="pm")]
            )
        await store.settle_messages([MessageSettle(key="m2", state="dead")])


async def test_messages_are_listed_by_agent_and_state(ekiden: Ekiden, tmp_path: Path) -> None:
    await put(tmp_path)
    filters: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["m0", "m1", "m2"]),
        ({"agent": "陌生人"}, ["m1"]),
        ({"sender": "pm", "task": "t0"}, ["m0"]),
        ({"correlation": "c", "state": "dead"}, ["m2"]),
        ({"waiter": "pm", "agent": "anna", "state": "open"}, ["m0"]),
        ({"session": "s"}, []),
    ]
    for given, expected in filters:
        found = [each.message.id async for each in ekiden.messages.list(**given)]
        assert found == expected, given
    page = await ekiden.messages.list().page(limit=2)
    rest = await ekiden.messages.list().page(limit=2, cursor=page.next_cursor)
    assert [each.message.id for each in [*page.items, *rest.items]] == ["m0", "m1", "m2"]
    [first, second] = page.items
    assert await ekiden.messages.get("m1") == second
    assert (first.message.depth, second.message.depth) == (None, 1)
    assert second.message.payload == {"订单": [1042, None]}
    assert (second.waiter, second.asked_in, second.answered_in) == ("pm", None, None)
    with pytest.raises(MessageNotFound):
        await ekiden.messages.get("none")
    with pytest.raises(RequestInvalid):
        await ekiden.messages.list(**{"state": "so"}).page()  # type: ignore[arg-type]


async def test_dead_messages_are_requeued(ekiden: Ekiden, tmp_path: Path) -> None:
    await put(tmp_path)
    with pytest.raises(MessageNotFound, match="none"):
        await ekiden.messages.requeue(["m2", "none"])
    assert [each.message.id async for each in ekiden.messages.list(state="dead")] == ["m2"]
    assert (await ekiden.messages.requeue(["m2", "m0", "m2"])).requeued == 1
    assert [each async for each in ekiden.messages.list(state="dead")] == []
    for ids in ([], [""], ["a\nb"], ["x"] * 1001):
        with pytest.raises(RequestInvalid):
            await ekiden.messages.requeue(ids)


async def test_a_message_is_sent_to_an_agent(ekiden: Ekiden) -> None:
    sent = await ekiden.messages.send(
        "triage", type="notify", subject="退款?", payload={"订单": 7}, priority="high"
    )
    message = sent.message
    assert (message.from_agent, message.to_agent) == ("caller:local", "triage")
    assert (message.type, message.subject, message.priority) == ("notify", "退款?", 3)
    assert sent.answered_in is not None
    found = await ekiden.messages.get(message.id)
    assert (found.message, found.answered_in) == (message, sent.answered_in)
    asked = await ekiden.messages.send("triage", wait_s=0.05, correlation_id=message.id)
    assert (asked.message.type, asked.message.correlation_id) == ("query", message.id)
    related = [each.message.id async for each in ekiden.messages.list(correlation=message.id)]
    assert sorted(related) == sorted([message.id, asked.message.id])


async def test_an_invalid_message_is_refused_and_not_stored(ekiden: Ekiden) -> None:
    with pytest.raises(UnknownAgent):
        await ekiden.messages.send("ghost")
    with pytest.raises(UserError):
        await ekiden.messages.send("triage", payload="x" * 1_000_001)
    wrong: list[dict[str, Any]] = [
        {"to": ""},
        {"to": "triage", "type": "response"},
        {"to": "triage", "subject": "x" * 501},
        {"to": "triage", "priority": "so"},
        {"to": "triage", "correlation_id": "a\nb"},
        {"to": "triage", "wait_s": 601},
    ]
    for given in wrong:
        with pytest.raises(RequestInvalid):
            await ekiden.messages.send(**given)
    assert [each async for each in ekiden.messages.list()] == []
