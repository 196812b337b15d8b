"""Who waits, for whom and why, is read from what is stored."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest

from ekiden import BlockingContext, BlockingStatus
from ekiden.bus import Bus
from ekiden.bus.deadlocks import break_deadlock
from ekiden.bus.waits import blocked
from ekiden.core.conversation.messages import AgentMessage, BlockingName
from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox, InboxQuery
from ekiden.storage.base import DocumentWrite, MessageSettle, QueuePut
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock
from tests.unit.bus.asked import ask, query


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def post(store: MemoryStore, item_id: str, **fields: Any) -> None:
    """Put a question before people."""
    item = InboxItem(id=item_id, kind="approval", created_at_us=2_500_000, **fields)
    written = DocumentWrite(collection="inbox.open", key=item.id, body=item.to_json())
    await store.write_documents([written])


def shown(contexts: list[BlockingContext]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(each.agent, each.status, each.waiting_for) for each in contexts]


def test_a_new_context_has_one_of_the_public_states() -> None:
    assert get_args(BlockingName) == tuple(BlockingStatus)
    assert BlockingContext(agent="pm").status == BlockingStatus.NONE


async def test_an_empty_store_has_no_blocked_agents(store: MemoryStore) -> None:
    assert await blocked(store) == []


async def test_an_agent_is_blocked_until_its_query_is_settled(
    store: MemoryStore,
) -> None:
    put = query("pm#t1", "sales#t1", key="m1", session_id="s1")
    put.body["subject"] = "customer data"
    await store.put_messages([put])
    [found] = await blocked(store)
    assert (found.agent, found.status, found.waiting_for) == ("pm", "internal", ("sales",))
    assert (found.reason, found.message_id, found.session_id) == ("customer data", "m1", "s1")
    assert found.started_at is not None
    await store.settle_messages([MessageSettle(key="m1", state="answered", answer={})])
    assert await blocked(store) == []


@pytest.mark.parametrize("state", ["failed", "timed_out", "cancelled"])
async def test_every_settlement_unblocks_the_waiter(store: MemoryStore, state: Any) -> None:
    await ask(store, "a>b")
    await store.settle_messages([MessageSettle(key="a>b", state=state, answer={})])
    assert await blocked(store) == []


async def test_breaking_a_deadlock_unblocks_the_victim(store: MemoryStore) -> None:
    await ask(store, "a>b", "b>a")
    await break_deadlock(store, "b")
    assert shown(await blocked(store)) == [("b", "internal", ("a",))]


async def test_queries_asked_together_are_shown_as_one_wait(store: MemoryStore) -> None:
    await ask(store, "a>b|c|b#2", "x>b")
    assert shown(await blocked(store)) == [
        ("a", "internal", ("b", "c")),
        ("x", "internal", ("b",)),
    ]
    await store.settle_messages([MessageSettle(key="a>c", state="answered", answer={})])
    assert shown(await blocked(store)) == [("x", "internal", ("b",))]


async def test_an_agent_that_asked_a_person_waits_for_the_role(store: MemoryStore) -> None:
    await post(store, "i1", from_agent="sales", subject="20 %?", role="ceo", session_id="s2")
    await post(store, "i2", from_agent="sales", subject="only to be seen", notice=True)
    assert await blocked(store) == [
        BlockingContext(
            status="user",
            waiting_for=("person:ceo",),
            reason="20 %?",
            message_id="i1",
            started_at=2.5,
            agent="sales",
            session_id="s2",
        )
    ]


async def test_a_wait_of_a_crashed_process_is_not_shown_and_can_be_taken_up() -> None:
    store = MemoryStore(ManualClock())
    message = AgentMessage(type="escalate", from_agent="a", subject="help?", id="m1")
    async with Bus(store, people=Inbox(store)) as killed:
        asking = asyncio.create_task(killed.escalate(message, options=[{"label": "yes"}]))
        while not (waiting := await blocked(store)):
            await store.wait_for_change(1)
        # No agent says any more that it waits.
        store.advance(60)
        assert (shown(waiting), await blocked(store)) == ([("a", "user", ("person:operator",))], [])
        inbox = Inbox(store)
        [item] = (await inbox.list()).items
        assert item.options == ("yes",)
        await inbox.answer(item.id, choice="yes", by="mira")
        async with Bus(store, people=inbox) as bus:
            answer = await bus.escalate(message, options=[{"label": "yes"}])
            assert (answer.choice, answer.by) == ("yes", "mira")
            assert len((await inbox.list(InboxQuery(status="any"))).items) == 1
        assert await asking == answer


async def test_sending_an_escalation_posts_an_inbox_item_for_the_role(store: MemoryStore) -> None:
    inbox = Inbox(store)
    async with Bus(store, people=inbox) as bus:
        message = AgentMessage(type="escalate", from_agent="a", to_agent="CEO", subject="look")
        assert await bus.send(message) == await bus.send(message)
        [item] = (await inbox.list()).items
        assert (item.kind, item.role, item.subject) == ("escalation", "CEO", "look")
        assert await bus.depths() == {}


@pytest.mark.parametrize("message_id", ["订单 7/8", "x" * 300])
async def test_an_escalation_without_a_target_goes_to_the_operator(
    store: MemoryStore, message_id: str
) -> None:
    inbox = Inbox(store)
    message = AgentMessage(type="escalate", from_agent="a", subject="look", id=message_id)
    async with Bus(store, people=inbox) as bus:
        assert [await bus.send(message), await bus.send(message)] == [message_id] * 2
    [item] = (await inbox.list()).items
    assert (item.role, item.subject, item.notice) == ("operator", "look", True)


@pytest.mark.parametrize("same", [True, False])
async def test_a_cancelled_waiter_keeps_the_item_that_others_wait_for(
    store: MemoryStore, same: bool
) -> None:
    message = AgentMessage(type="escalate", from_agent="a", subject="help?", id="m1")
    inbox = Inbox(store)
    elsewhere = inbox if same else Inbox(store)
    async with Bus(store, people=elsewhere) as one, Bus(store, people=inbox) as other:
        asking, going = [asyncio.create_task(bus.escalate(message)) for bus in (other, one)]
        while not await blocked(store):
            await store.wait_for_change(1)
        for _ in range(20):
            await asyncio.sleep(0)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
        assert shown(await blocked(store)) == [("a", "user", ("person:operator",))]
        await inbox.answer("m1.item", text="yes", by="mira")
        assert (await asking).text == "yes"
    assert await blocked(store) == []


async def test_an_escalation_and_its_inbox_item_are_shown_as_one_wait(store: MemoryStore) -> None:
    await store.put_messages([query("a", None, key="m1"), query("a", None, key="m2")])
    await post(store, "i1", from_agent="a", subject="help", role="ceo", message_id="m1")
    assert shown(await blocked(store)) == [
        ("a", "user", ("person:ceo",)),
        ("a", "user", ("person:operator",)),
    ]


async def test_a_wait_that_timed_out_is_not_shown(store: MemoryStore) -> None:
    await store.put_messages([query("a", "b", timeout_s=0)])
    assert await blocked(store) == []


async def test_an_incomplete_message_is_shown_with_the_known_fields(store: MemoryStore) -> None:
    await store.put_messages([QueuePut(queue="q", key="k", body={"awaits": "b#1"}, waiter="a#1")])
    await store.put_messages([QueuePut(queue="q", key="l", body=["?"], waiter="c")])
    assert shown(await blocked(store)) == [
        ("a", "internal", ("b",)),
        ("c", "user", ("person:operator",)),
    ]


async def test_thousands_of_items_are_read_page_by_page(store: MemoryStore) -> None:
    for number in range(1001):
        await post(store, f"i{number}", from_agent=f"a{number % 3}", subject="?", session_id="s")
    assert len(await blocked(store)) == 1001
