"""The inbox over the stores that keep: the same as in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.conversation.messages import agent_queue
from ekiden.core.errors.messages import InboxItemClosed
from ekiden.core.questions import EscalationStep, InboxItem
from ekiden.inbox import Inbox, InboxQuery, run_due
from ekiden.project import open_store
from ekiden.storage.base import MessageFilter, NewSession, QueuePut, Store

HOSTILE = "\x00\x1b[31m\udc80 ‮ 山田 👩‍💻 \U0010ffff"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a store that does not exist yet."""
    if request.param == "sqlite":
        return str(tmp_path / "inbox.db")
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """An open, empty store."""
    async with open_store(url) as opened:
        yield opened


def item(number: int = 0, **fields: Any) -> InboxItem:
    """A question of many."""
    given: dict[str, Any] = {
        "id": f"i{number:04d}",
        "kind": "approval",
        "from_agent": "sales",
        "subject": "折扣?",
        "options": ("yes", "no"),
    }
    return InboxItem(**(given | fields))


async def test_inbox_items_survive_a_restart_unchanged(url: str) -> None:
    async with open_store(url) as store:
        chain = (EscalationStep(role="经理", after_s=1e6),)
        posted = await Inbox(store).post(
            item(body=HOSTILE, context={HOSTILE: [1.5, None, True]}, chain=chain)
        )
    async with open_store(url) as store:
        assert await Inbox(store).get(posted.id) == posted
        assert (await Inbox(store).list()).items == [posted]
        done = await Inbox(store).answer(posted.id, choice="yes", text=HOSTILE, by="安娜")
    async with open_store(url) as store:
        assert await Inbox(store).get(posted.id) == done


async def test_an_answer_wakes_its_session_and_settles_its_message_in_one_transaction(
    store: Store,
) -> None:
    inbox = Inbox(store)
    for name in ("s1", "s2"):
        await store.create(NewSession(id=name, agent="sales", status="waiting"))
    await store.put_messages([QueuePut(queue=agent_queue("p"), body={}, key="m1")])
    posted = await inbox.post(item(session_id="s1", message_id="m1"))
    await inbox.answer(posted.id, choice="no", by="安娜")
    with pytest.raises(InboxItemClosed, match="by 安娜"):
        await inbox.answer(posted.id, choice="yes", by="Bob")
    one, two = await store.get("s1"), await store.get("s2")
    assert (one.status, one.wakes, two.status, two.wakes) == ("ready", 1, "waiting", 0)
    [message] = await store.find_messages(MessageFilter(keys=["m1"]))
    assert (message.state, message.answer["payload"]["choice"]) == ("answered", "no")
    changes = [(event.details or {})["change"] for event in (await store.feed()).events]
    assert changes == ["posted", "answered"]


async def test_an_answer_for_a_deleted_session_is_stored(store: Store) -> None:
    posted = await Inbox(store).post(item(session_id="never was"))
    assert (await Inbox(store).answer(posted.id, choice="no", by="安娜")).status == "answered"


async def test_pages_of_inbox_items_are_ordered_and_complete(store: Store) -> None:
    inbox = Inbox(store)
    now_us = await store.now_us()
    items = [
        item(number, priority=1 + number % 4, created_at_us=now_us + number) for number in range(60)
    ]
    await asyncio.gather(*map(inbox.post, items))
    expected = sorted(items, key=lambda each: (-each.priority, -each.created_at_us))
    found: list[str] = []
    cursor = None
    while True:
        page = await inbox.list(limit=7, cursor=cursor)
        found += [each.id for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == [each.id for each in expected]
    result = await inbox.answer_identical("i0007", choice="yes", by="安娜")
    assert sorted(result.answered) == [each.id for each in items]
    closed = await inbox.list(InboxQuery(status="answered", text="折扣"), limit=1000)
    assert len(closed.items) == 60


async def test_due_deadlines_and_escalations_are_applied_once(store: Store) -> None:
    inbox = Inbox(store)
    now_us = await store.now_us()
    chain = (EscalationStep(role="经理", after_s=10),)
    later = now_us + 30_000_000
    await inbox.post(item(0, deadline_us=later, default="no"))
    await inbox.post(item(1, chain=chain))
    await inbox.snooze("i0001", for_s=5, by="安娜")
    assert await run_due(store, now_us=now_us + 1) == 0
    both = await asyncio.gather(*(run_due(store, now_us=later + 1) for _ in range(2)))
    assert sum(both) == 2
    assert (await inbox.get("i0001")).role == "经理"
    answer = (await inbox.get("i0000")).answer
    assert answer is not None
    assert (answer.choice, answer.by) == ("no", "nobody")
    assert not await store.list_documents("timers")
