"""Each change is an event in the feed and the audit, and is pushed to watchers."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.audit.record import records_of
from ekiden.core.errors.messages import InboxAnswerInvalid
from ekiden.inbox import Inbox, new_item_notice
from ekiden.storage.memory import MemoryStore
from tests.unit.inbox.conftest import confirmation, question


async def told(store: MemoryStore) -> list[dict[str, Any]]:
    """What the events say."""
    events = (await store.feed()).events
    assert all((event.session_id, event.type) == ("", "inbox") for event in events)
    return [event.details or {} for event in events]


async def test_every_change_is_an_event_with_person_and_channel(
    inbox: Inbox, store: MemoryStore
) -> None:
    item = await inbox.post(confirmation(session_id="s"))
    await inbox.assign(item.id, "佐藤", by="Anna", via="http")
    await inbox.snooze(item.id, for_s=60, by="佐藤", via="websocket")
    edited = '{"order": 1042, "amount": 3}'
    await inbox.answer(
        item.id, choice="yes", text="好", arguments=edited, confirm_edit=True, by="佐藤",
        via="terminal",
    )  # fmt: skip
    events = await told(store)
    assert [(event["change"], event["by"], event["via"]) for event in events] == [
        ("posted", {"kind": "agent", "name": "sales"}, "program"),
        ("assigned", "Anna", "http"),
        ("snoozed", "佐藤", "websocket"),
        ("answered", "佐藤", "terminal"),
    ]
    assert {event["item"] for event in events} == {item.id}
    last = events[-1]
    assert (last["choice"], last["text"], last["edited"]) == ("yes", "好", True)
    assert (last["arguments"], last["task"], last["tool"]) == (edited, "s", "refund")


async def test_the_audit_reads_the_actor_from_the_events(inbox: Inbox, store: MemoryStore) -> None:
    item = await inbox.post(question())
    await inbox.cancel(item.id, by="Anna", reason="never mind")
    due = await inbox.post(question(deadline_us=1))
    await inbox.get(due.id)
    records = [records_of(event)[0] for event in (await store.feed()).events]
    assert [str(record.actor) for record in records] == [
        "agent sales", "person Anna", "agent sales", "system nobody"
    ]  # fmt: skip
    assert records[1].reason == "never mind"


async def test_a_refused_change_writes_no_event(inbox: Inbox, store: MemoryStore) -> None:
    item = await inbox.post(question())
    for choice, by in (("maybe", "Anna"), ("yes", "")):
        with pytest.raises(InboxAnswerInvalid):
            await inbox.answer(item.id, choice=choice, by=by)
    assert len(await told(store)) == 1


async def test_the_notification_of_a_new_item_is_complete(inbox: Inbox) -> None:
    item = await inbox.post(question(context={"客户": 1}, priority=3))
    notice = new_item_notice(item)
    assert set(notice) == {"id", "from", "subject", "payload", "priority", "created_at"}
    assert (notice["id"], notice["from"], notice["priority"]) == (item.id, "sales", 3)
    assert notice["payload"]["context"] == {"客户": 1}
    assert notice["payload"]["options"] == ["yes", "no"]
    assert notice["created_at"] == item.created_at_us / 1e6
