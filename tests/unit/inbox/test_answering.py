"""An item is answered once, by a person, with an answer that fits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.conversation.messages import agent_queue
from ekiden.core.current_agent import AGENT_VARIABLE, acting_as
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import InboxAnswerInvalid, InboxForbidden, InboxItemClosed
from ekiden.inbox import Inbox
from ekiden.storage.base import Batch, MessageFilter, NewSession, QueuePut, Written
from ekiden.storage.memory import MemoryStore
from tests.unit.inbox.conftest import confirmation, question


async def test_an_answer_records_choice_person_time_and_channel(inbox: Inbox) -> None:
    item = await inbox.post(question())
    done = await inbox.answer(item.id, choice="YES", text="好的", by=" 安娜 ", via="terminal")
    assert done.status == "answered"
    assert done.answer is not None
    assert (done.answer.choice, done.answer.text) == ("yes", "好的")
    assert (done.answer.by, done.answer.via) == ("安娜", "terminal")
    assert done.answer.at_us >= item.created_at_us
    assert await inbox.get(item.id) == done


async def test_answering_a_conversation_needs_text_and_giving_back_does_not(
    inbox: Inbox,
) -> None:
    handed = question(kind="handoff", options=("answer", "give back"))
    item = await inbox.post(handed)
    for text in ("", "  "):
        with pytest.raises(InboxAnswerInvalid, match="needs an answer in `text`"):
            await inbox.answer(item.id, choice="Answer", text=text, by="Bob")
    assert (await inbox.answer(item.id, choice="give back", by="Bob")).status == "answered"


async def test_the_second_answer_is_refused_with_who_answered_first_and_when(inbox: Inbox) -> None:
    item = await inbox.post(question())
    await inbox.answer(item.id, choice="yes", by="安娜")
    with pytest.raises(InboxItemClosed, match=r"answered already by 安娜 at 20..-") as closed:
        await inbox.answer(item.id, choice="no", by="Bob")
    assert (closed.value.status, closed.value.by) == ("answered", "安娜")
    answer = (await inbox.get(item.id)).answer
    assert answer is not None
    assert answer.choice == "yes"


class SlowStore(MemoryStore):
    """Takes a moment to write, as a database does: meanwhile all others look at what is there."""

    async def write(self, batch: Batch) -> Written:
        await asyncio.sleep(0)
        return await super().write(batch)


async def test_one_of_many_concurrent_answers_wins_and_wakes_the_session_once() -> None:
    store = SlowStore()
    inbox = Inbox(store)
    await store.create(NewSession(id="s", agent="sales", status="waiting"))
    item = await inbox.post(question(session_id="s"))
    outcomes = await asyncio.gather(
        *(inbox.answer(item.id, choice="yes", by=f"person {n}") for n in range(20)),
        return_exceptions=True,
    )
    won = [each for each in outcomes if not isinstance(each, BaseException)]
    lost = [each for each in outcomes if isinstance(each, InboxItemClosed)]
    assert (len(won), len(lost)) == (1, 19)
    assert won[0].answer is not None
    assert {each.by for each in lost} == {won[0].answer.by}
    row = await store.get("s")
    assert (row.wakes, row.status) == (1, "ready")


async def test_the_waiting_message_is_answered_with_the_item(
    inbox: Inbox, store: MemoryStore
) -> None:
    await store.put_messages([QueuePut(queue=agent_queue("person"), body={}, key="m1")])
    item = await inbox.post(question(message_id="m1"))
    await inbox.answer(item.id, choice="no", by="Anna")
    [message] = await store.find_messages(MessageFilter(keys=["m1"]))
    assert message.state == "answered"
    assert message.answer["payload"]["choice"] == "no"


async def test_the_waiting_message_of_a_cancelled_item_fails(
    inbox: Inbox, store: MemoryStore
) -> None:
    await store.put_messages([QueuePut(queue=agent_queue("person"), body={}, key="m1")])
    item = await inbox.post(question(message_id="m1"))
    await inbox.cancel(item.id, by="Anna", reason="no longer needed")
    [message] = await store.find_messages(MessageFilter(keys=["m1"]))
    assert (message.state, message.answer["code"]) == ("failed", "inbox.closed")


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ({"choice": "maybe"}, "not one of the options .* 'yes', 'no'"),
        ({"choice": "yess"}, "did you mean 'yes'"),
        ({"choice": " "}, "needs a choice"),
        ({}, "needs a choice"),
        ({"choice": "yes", "by": " "}, "must not be empty"),
        ({"choice": "yes", "by": "a\x1b[31m"}, "control"),
        ({"choice": "yes", "by": "\udc80"}, "control"),
        ({"choice": "yes", "by": "Nobody"}, "a person's name"),
        ({"choice": "yes", "always": True}, "not an approval of a tool"),
        ({"choice": "yes", "arguments": "{}"}, "no arguments"),
        ({"choice": "yes", "text": "x" * 100_001}, "at most 100,000"),
    ],
)
async def test_an_invalid_answer_changes_nothing(
    inbox: Inbox, reply: dict[str, Any], problem: str
) -> None:
    item = await inbox.post(question())
    with pytest.raises(InboxAnswerInvalid, match=problem):
        await inbox.answer(item.id, **{"by": "Anna", **reply})
    assert await inbox.get(item.id) == item


@pytest.mark.parametrize("reply", [{"choice": 5}, {"text": b"yes"}, {"seen_version": "1"}])
async def test_an_answer_of_the_wrong_type_changes_nothing(
    inbox: Inbox, reply: dict[str, Any]
) -> None:
    item = await inbox.post(question())
    with pytest.raises(UserError, match="of an answer must be"):
        await inbox.answer(item.id, **{"by": "Anna", "choice": "yes", **reply})
    assert await inbox.get(item.id) == item


async def test_a_question_without_options_is_answered_with_text(inbox: Inbox) -> None:
    item = await inbox.post(question(options=()))
    with pytest.raises(InboxAnswerInvalid, match="`text` is empty"):
        await inbox.answer(item.id, text=" ", by="Anna")
    with pytest.raises(InboxAnswerInvalid, match="has no options"):
        await inbox.answer(item.id, choice="yes", by="Anna")
    done = await inbox.answer(item.id, text="請打八折 🎉", by="Anna")
    assert done.answer is not None
    assert (done.answer.choice, done.answer.text) == ("", "請打八折 🎉")


async def test_a_notice_is_acknowledged_without_text(inbox: Inbox) -> None:
    item = await inbox.post(question(kind="rollback_failed", options=(), notice=True))
    assert (await inbox.answer(item.id, by="Anna")).status == "answered"


async def test_agents_cannot_answer_assign_or_snooze(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = await inbox.post(question())
    tries: list[Any] = [
        lambda: inbox.answer(item.id, choice="yes", by="Anna"),
        lambda: inbox.answer_identical(item.id, choice="yes", by="Anna"),
        lambda: inbox.assign(item.id, "Anna", by="Anna"),
        lambda: inbox.snooze(item.id, for_s=5, by="Anna"),
    ]
    for attempt in tries:
        with acting_as("sales"), pytest.raises(InboxForbidden, match="'sales' tried"):
            await attempt()
    monkeypatch.setenv(AGENT_VARIABLE, "sales")
    for attempt in tries:
        with pytest.raises(InboxForbidden):
            await attempt()
    assert await inbox.get(item.id) == item


async def test_an_agent_cancels_only_its_own_items(inbox: Inbox) -> None:
    item = await inbox.post(question())
    with acting_as("stranger"), pytest.raises(InboxForbidden):
        await inbox.cancel(item.id, by="Anna")
    with acting_as("sales"):
        gone = await inbox.cancel(item.id, by="Anna", reason="found it out")
    assert (gone.status, gone.closed_by, gone.reason) == ("cancelled", "sales", "found it out")
    with pytest.raises(InboxItemClosed, match="cancelled already by sales"):
        await inbox.answer(item.id, choice="yes", by="Anna")


async def test_edited_arguments_are_a_distinct_decision(inbox: Inbox) -> None:
    item = await inbox.post(confirmation())
    edited = '{"order": 1042, "amount": 3}'
    with pytest.raises(InboxAnswerInvalid, match="confirm_edit"):
        await inbox.answer(item.id, choice="yes", arguments=edited, by="Anna")
    done = await inbox.answer(
        item.id, choice="yes", arguments=edited, confirm_edit=True, always=True, by="Anna"
    )
    assert done.answer is not None
    assert (done.answer.arguments, done.answer.always) == (edited, True)


@pytest.mark.parametrize("same", ['{"order": 1042, "amount": 5}', '{"amount":5,"order":1042}'])
async def test_equal_arguments_are_not_an_edit(inbox: Inbox, same: str) -> None:
    item = await inbox.post(confirmation())
    done = await inbox.answer(item.id, choice="yes", arguments=same, by="Anna")
    assert done.answer is not None
    assert done.answer.arguments is None


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "{",
        "[]",
        "5",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 1, "a": 2}',
        "[" * 100_000,
        '{"order": 1042, "amount": 5.0}',
        '{"order": 1042, "amount": true}',
    ],
)
async def test_invalid_or_different_arguments_are_never_taken_as_unchanged(
    inbox: Inbox, arguments: str
) -> None:
    item = await inbox.post(confirmation())
    with pytest.raises(InboxAnswerInvalid):
        await inbox.answer(item.id, choice="yes", arguments=arguments, by="Anna")
    assert (await inbox.get(item.id)).status == "open"


async def test_invalid_arguments_of_a_model_can_be_replaced(inbox: Inbox) -> None:
    item = await inbox.post(confirmation(arguments='{"order": '))
    with pytest.raises(InboxAnswerInvalid, match="confirm_edit"):
        await inbox.answer(item.id, choice="yes", arguments='{"order": 1}', by="Anna")
    done = await inbox.answer(
        item.id, choice="yes", arguments='{"order": 1}', confirm_edit=True, by="Anna"
    )
    assert done.answer is not None
    assert done.answer.arguments == '{"order": 1}'


async def test_an_answer_to_an_outdated_version_of_an_item_is_refused(inbox: Inbox) -> None:
    item = await inbox.post(question())
    changed = await inbox.assign(item.id, "Bob", by="Anna")
    with pytest.raises(InboxAnswerInvalid, match="read it again"):
        await inbox.answer(item.id, choice="yes", by="Anna", seen_version=item.version)
    await inbox.answer(item.id, choice="yes", by="Anna", seen_version=changed.version)


async def test_only_identical_questions_are_answered_together(inbox: Inbox) -> None:
    same = [await inbox.post(confirmation()) for _ in range(130)]
    await inbox.snooze(same[5].id, for_s=60, by="Anna")
    others = [
        await inbox.post(confirmation(arguments='{"order": 1043, "amount": 5}')),
        await inbox.post(confirmation(context={"pct": 50})),
        await inbox.post(confirmation(from_agent="billing")),
        await inbox.post(confirmation(body="really")),
        await inbox.post(question()),
    ]
    result = await inbox.answer_identical(same[77].id, choice="yes", by="Anna")
    assert set(result.answered) == {item.id for item in same}
    assert result.closed == 0
    left = await inbox.list()
    assert {item.id for item in left.items} == {item.id for item in others}


async def test_bulk_answers_of_two_people_answer_each_item_once(inbox: Inbox) -> None:
    same = [await inbox.post(question()) for _ in range(40)]
    first, second = await asyncio.gather(
        inbox.answer_identical(same[0].id, choice="yes", by="Anna"),
        inbox.answer_identical(same[39].id, choice="no", by="Bob"),
    )
    assert sorted([*first.answered, *second.answered]) == sorted(item.id for item in same)


async def test_edited_arguments_are_refused_in_bulk(inbox: Inbox) -> None:
    item = await inbox.post(confirmation())
    with pytest.raises(InboxAnswerInvalid, match="one by one"):
        await inbox.answer_identical(item.id, choice="yes", arguments='{"a": 1}', by="Anna")
    with pytest.raises(InboxAnswerInvalid, match="not one of the options"):
        await inbox.answer_identical(item.id, choice="perhaps", by="Anna")
    same = item.arguments
    result = await inbox.answer_identical(item.id, choice="yes", arguments=same, by="Anna")
    assert result.answered == (item.id,)
    with pytest.raises(InboxItemClosed):
        await inbox.answer_identical(item.id, choice="yes", by="Anna")


async def test_an_assigned_item_can_be_answered_by_another_person(inbox: Inbox) -> None:
    item = await inbox.post(question())
    assert (await inbox.assign(item.id, "佐藤 さん", by="Anna")).assignee == "佐藤 さん"
    assert (await inbox.assign(item.id, None, by="Anna")).assignee is None
    await inbox.assign(item.id, "Bob", by="Anna")
    assert (await inbox.answer(item.id, choice="yes", by="Anna")).status == "answered"
    with pytest.raises(InboxItemClosed):
        await inbox.assign(item.id, "Bob", by="Anna")
