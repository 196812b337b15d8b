"""What time does to an item: deadlines, escalations, snoozes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.errors.messages import InboxAnswerInvalid, InboxItemClosed
from ekiden.core.questions import NOBODY, EscalationStep, InboxItem
from ekiden.inbox import Inbox, InboxQuery, run_due
from ekiden.storage.base import DocumentWrite, NewSession
from ekiden.storage.memory import MemoryStore
from ekiden.storage.timers import Timer, timer_write
from tests.unit.inbox.conftest import question


async def post(inbox: Inbox, store: MemoryStore, *, in_s: float = 60, **fields: Any) -> InboxItem:
    """An item that is due in some seconds."""
    due = await store.now_us() + round(in_s * 1e6)
    return await inbox.post(question(deadline_us=due, **fields))


async def due(store: MemoryStore) -> int:
    """Do what is due now."""
    return await run_due(store, now_us=await store.now_us())


async def timers(store: MemoryStore) -> int:
    """How many timers are set."""
    return len(await store.list_documents("timers", limit=1000))


async def test_without_a_default_an_item_expires_at_its_deadline_and_wakes_its_session(
    inbox: Inbox, store: MemoryStore
) -> None:
    await store.create(NewSession(id="s", agent="sales", status="waiting"))
    item = await post(inbox, store, session_id="s")
    store.advance(59)
    assert await due(store) == 0
    store.advance(2)
    assert await due(store) == 1
    assert await due(store) == 0
    gone = await inbox.get(item.id)
    assert (gone.status, gone.answer, gone.closed_by) == ("expired", None, NOBODY)
    assert gone.closed_at_us == item.deadline_us
    assert (await store.get("s")).wakes == 1
    assert await timers(store) == 0


async def test_with_a_default_an_item_is_answered_at_its_deadline(
    inbox: Inbox, store: MemoryStore
) -> None:
    item = await post(inbox, store, default="no")
    words = await post(inbox, store, default="打九折", options=())
    store.advance(61)
    assert await due(store) == 2
    answer = (await inbox.get(item.id)).answer
    assert answer is not None
    assert (answer.choice, answer.by, answer.at_us) == ("no", NOBODY, item.deadline_us)
    free = (await inbox.get(words.id)).answer
    assert free is not None
    assert (free.choice, free.text) == ("", "打九折")


async def test_an_answer_after_the_deadline_is_refused_before_any_timer_ran(
    inbox: Inbox, store: MemoryStore
) -> None:
    item = await post(inbox, store)
    store.advance(61)
    with pytest.raises(InboxItemClosed, match="expired already at") as late:
        await inbox.answer(item.id, choice="yes", by="Anna")
    assert late.value.status == "expired"
    assert (await inbox.get(item.id)).status == "expired"


async def test_an_overdue_item_is_not_listed_as_open(inbox: Inbox, store: MemoryStore) -> None:
    item = await post(inbox, store)
    store.advance(61)
    assert not (await inbox.list()).items
    listed = await inbox.list(InboxQuery(status="expired"))
    assert [each.id for each in listed.items] == [item.id]


async def test_of_concurrent_timer_runs_one_changes_each_item(
    inbox: Inbox, store: MemoryStore
) -> None:
    await store.create(NewSession(id="s", agent="sales", status="waiting"))
    for _ in range(250):
        await post(inbox, store, session_id="s")
    store.advance(61)
    assert sum(await asyncio.gather(*(due(store) for _ in range(4)))) == 250
    assert (await store.get("s")).wakes == 250
    assert await timers(store) == 0


async def test_an_escalated_item_loses_assignee_and_snooze(
    inbox: Inbox, store: MemoryStore
) -> None:
    chain = (EscalationStep(role="经理", after_s=60), EscalationStep(role="CEO", after_s=600))
    item = await inbox.post(question(chain=chain))
    await inbox.assign(item.id, "Anna", by="Anna")
    await inbox.snooze(item.id, for_s=3600, by="Anna")
    store.advance(61)
    [seen] = (await inbox.list(InboxQuery(role="经理"))).items
    assert (seen.assignee, seen.snoozed_until_us, seen.chain) == (None, None, chain[1:])
    store.advance(599)
    assert await due(store) == 1
    top = await inbox.get(item.id)
    assert (top.role, top.chain, top.escalate_at_us) == ("CEO", (), None)
    assert await timers(store) == 0
    store.advance(1e6)
    assert (await inbox.answer(item.id, choice="yes", by="董事长")).status == "answered"


async def test_missed_escalation_steps_are_made_in_order_until_the_deadline(
    inbox: Inbox, store: MemoryStore
) -> None:
    chain = (
        EscalationStep(role="a", after_s=10),
        EscalationStep(role="b", after_s=10),
        EscalationStep(role="c", after_s=100),
    )
    item = await post(inbox, store, chain=chain, default="no")
    store.advance(1000)
    assert await due(store) == 1
    done = await inbox.get(item.id)
    assert done.answer is not None
    assert (done.role, done.status, done.answer.choice) == ("b", "expired", "no")
    events = (await store.feed()).events
    assert [(event.details or {})["change"] for event in events] == [
        "posted", "escalated", "escalated", "expired"
    ]  # fmt: skip


async def test_a_snoozed_item_is_hidden_and_returns_by_itself(
    inbox: Inbox, store: MemoryStore
) -> None:
    item = await post(inbox, store, in_s=7200)
    hidden = await inbox.snooze(item.id, for_s=3600, by="Anna")
    assert hidden.status == "open"
    assert not (await inbox.list()).items
    assert len((await inbox.list(InboxQuery(snoozed=True))).items) == 1
    store.advance(3601)
    [back] = (await inbox.list()).items
    assert (back.id, back.snoozed_until_us, back.deadline_us) == (item.id, None, item.deadline_us)


async def test_a_snoozed_item_can_be_answered_and_snoozed_again(
    inbox: Inbox, store: MemoryStore
) -> None:
    item = await inbox.post(question())
    await inbox.snooze(item.id, for_s=3600, by="Anna")
    until = await store.now_us() + 50_000_000
    again = await inbox.snooze(item.id, until_us=until, by="Anna")
    assert again.snoozed_until_us == until
    assert await timers(store) == 1
    done = await inbox.answer(item.id, choice="yes", by="Bob")
    assert (done.status, done.snoozed_until_us) == ("answered", None)
    assert await timers(store) == 0


@pytest.mark.parametrize(
    "times",
    [
        {},
        {"for_s": 5, "until_us": 10**16},
        {"for_s": 0},
        {"for_s": -1},
        {"for_s": float("nan")},
        {"for_s": float("inf")},
        {"until_us": 5},
        {"until_us": 10**30},
    ],
)
async def test_a_snooze_requires_one_future_time(inbox: Inbox, times: dict[str, Any]) -> None:
    item = await inbox.post(question())
    with pytest.raises(InboxAnswerInvalid):
        await inbox.snooze(item.id, by="Anna", **times)
    assert await inbox.get(item.id) == item


async def test_a_snooze_beyond_the_deadline_is_refused(inbox: Inbox, store: MemoryStore) -> None:
    item = await post(inbox, store, default="no")
    with pytest.raises(InboxAnswerInvalid, match="deadline before that"):
        await inbox.snooze(item.id, for_s=61, by="Anna")


async def test_leftover_inbox_timers_are_removed_and_other_timers_stay(
    inbox: Inbox, store: MemoryStore
) -> None:
    item = await inbox.post(question())
    left = Timer(due_us=1, kind="inbox", id=item.id)
    gone = Timer(due_us=2, kind="inbox", id="inb_gone")
    foreign = [Timer(due_us=n, kind="query", id=f"m{n}") for n in range(150)]
    await store.write_documents([timer_write(each) for each in (left, gone, *foreign)])
    late = await post(inbox, store)
    store.advance(61)
    assert await due(store) == 1
    assert (await inbox.get(late.id)).status == "expired"
    assert await timers(store) == 150


async def test_an_item_with_a_past_deadline_expires_immediately(
    inbox: Inbox, store: MemoryStore
) -> None:
    item = await inbox.post(question(deadline_us=1))
    assert (await inbox.get(item.id)).status == "expired"
    assert not await store.get_document("inbox.open", item.id)


async def test_an_item_changed_concurrently_too_often_is_an_error_with_advice(
    store: MemoryStore,
) -> None:
    class Restless(MemoryStore):
        """Another process is always first."""

        async def write(self, batch: Any) -> Any:
            document = await self.get_document("inbox.open", batch.documents[0].key)
            if document is not None:
                same = DocumentWrite(collection="inbox.open", key=document.key, body=document.body)
                await self.write_documents([same])
            return await super().write(batch)

    restless = Restless()
    inbox = Inbox(restless)
    item = await inbox.post(question())
    with pytest.raises(Exception, match="try again"):
        await inbox.answer(item.id, choice="yes", by="Anna")
    overdue = await post(inbox, restless)
    restless.advance(61)
    with pytest.raises(Exception, match="try again"):
        await inbox.get(overdue.id)
