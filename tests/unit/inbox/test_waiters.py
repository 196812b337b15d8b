"""Programs that wait for a person's answer."""

from __future__ import annotations

import asyncio

import pytest

from ekiden.core.current_agent import acting_as
from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.errors.messages import InboxItemClosed, InboxItemNotFound
from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox
from ekiden.storage.base import DocumentWrite
from ekiden.storage.memory import MemoryStore
from tests.unit.inbox.conftest import question


async def posted(inbox: Inbox, store: MemoryStore, count: int = 1) -> list[InboxItem]:
    """Return once so many items are open."""
    while len(items := (await inbox.list(limit=1000)).items) < count:
        await store.wait_for_change(1)
    return list(items)


async def test_the_answer_reaches_the_waiting_caller(inbox: Inbox, store: MemoryStore) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(inbox.ask_person(question()))
        [item] = await posted(inbox, store)
        await inbox.answer(item.id, choice="yes", by="Anna")
    assert waiting.result().choice == "yes"


async def test_an_answer_through_another_inbox_reaches_the_waiting_caller(
    inbox: Inbox, store: MemoryStore
) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(inbox.ask_person(question())) for _ in range(30)]
        for item in await posted(inbox, store, 30):
            await Inbox(store).answer(item.id, choice="no", by="Anna")
    assert {task.result().choice for task in waiting} == {"no"}


async def test_each_caller_waits_for_its_own_item_only(inbox: Inbox, store: MemoryStore) -> None:
    first, second = question(), question()
    async with asyncio.TaskGroup() as group:
        one = group.create_task(inbox.ask_person(first))
        two = group.create_task(inbox.ask_person(second))
        await posted(inbox, store, 2)
        await Inbox(store).answer(second.id, choice="no", by="Anna")
        await two
        assert not one.done()
        await inbox.answer(first.id, choice="yes", by="Anna")
    assert (one.result().choice, two.result().choice) == ("yes", "no")


async def test_cancelling_the_wait_cancels_the_question(inbox: Inbox, store: MemoryStore) -> None:
    item = question()
    waiting = asyncio.create_task(inbox.ask_person(item))
    await posted(inbox, store)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gone = await inbox.get(item.id)
    assert (gone.status, gone.closed_by) == ("cancelled", "sales")
    assert len(asyncio.all_tasks()) == 1


async def test_an_agent_that_stops_waiting_cancels_its_question(
    inbox: Inbox, store: MemoryStore
) -> None:
    item = question()

    async def ask() -> None:
        with acting_as("sales"):
            async with asyncio.timeout(0):
                await inbox.ask_person(item)

    with pytest.raises(TimeoutError):
        await ask()
    assert (await inbox.get(item.id)).status == "cancelled"


async def test_a_cancelled_or_expired_question_ends_the_wait(
    inbox: Inbox, store: MemoryStore
) -> None:
    waiting = asyncio.create_task(inbox.ask_person(question()))
    [item] = await posted(inbox, store)
    await inbox.cancel(item.id, by="Anna")
    with pytest.raises(InboxItemClosed, match="cancelled already by Anna"):
        await waiting
    soon = question(deadline_us=await store.now_us() + 1000)
    with pytest.raises(InboxItemClosed, match="expired"):
        await inbox.ask_person(soon)


async def test_the_default_of_a_deadline_ends_the_wait_without_a_timer_run(
    inbox: Inbox, store: MemoryStore
) -> None:
    soon = question(deadline_us=await store.now_us() + 1000, default="no")
    answer = await inbox.ask_person(soon)
    assert (answer.choice, answer.by) == ("no", "nobody")


async def test_an_invalid_question_is_refused_immediately(inbox: Inbox) -> None:
    with pytest.raises(UserError):
        await inbox.ask_person(question(subject=""))


async def test_a_closed_store_ends_the_wait(inbox: Inbox, store: MemoryStore) -> None:
    waiting = asyncio.create_task(inbox.ask_person(question()))
    await posted(inbox, store)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await waiting


async def test_a_deleted_item_ends_the_wait(inbox: Inbox, store: MemoryStore) -> None:
    waiting = asyncio.create_task(inbox.ask_person(question()))
    [item] = await posted(inbox, store)
    await store.write_documents([DocumentWrite(collection="inbox.open", key=item.id, body=None)])
    with pytest.raises(InboxItemNotFound):
        await waiting
