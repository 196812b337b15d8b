"""What is no message, no setting and no question is refused with a sentence that says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.bus import Bus, BusSettings, MessageRecord
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import BusError
from ekiden.core.questions import InboxAnswer, InboxItem
from ekiden.inbox import Inbox
from ekiden.storage.memory import MemoryStore
from tests.support.cases import each_case
from tests.unit.bus.places import Desk, echo

BAD_MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({"from_agent": ""}, "a name that is not empty"),
    ({"to_agent": "  "}, "a name that is not empty"),
    ({"to_agent": 5}, "must be text"),
    ({"to_agent": "x" * 201}, "at most 200 characters"),
    ({"to_agent": "a\nb"}, "leave out control"),
    ({"to_agent": "a\ud800"}, "lone surrogates"),
    ({"to_agent": "a#b"}, "'#'"),
    ({"type": "shout"}, "is not a message type"),
    ({"id": ""}, "`id` of a message"),
    ({"id": "x" * 401}, "1 to 400"),
    ({"id": 7}, "`id` of a message"),
    ({"id": "a\x00b"}, "control characters"),
    ({"correlation_id": "\ud800"}, "lone surrogates"),
    ({"task": ""}, "`task` of a message"),
    ({"subject": "x" * 501}, "at most 500 characters"),
    ({"subject": None}, "a subject must be a text"),
    ({"subject": "\udfff"}, "lone surrogates"),
    ({"priority": 0}, "is not a message priority"),
    ({"priority": 5}, "is not a message priority"),
    ({"priority": True}, "is not a message priority"),
    ({"priority": "high"}, "is not a message priority"),
    ({"ttl": 0}, "`ttl`"),
    ({"ttl": -1.0}, "`ttl`"),
    ({"ttl": float("nan")}, "`ttl`"),
    ({"ttl": "1"}, "`ttl`"),
    ({"timeout_seconds": 0}, "`timeout_seconds`"),
    ({"timeout_seconds": float("inf")}, "`timeout_seconds`"),
    ({"timeout_seconds": None}, "`timeout_seconds`"),
    ({"created_at": "today"}, "`created_at`"),
    ({"payload": object()}, "not JSON"),
    ({"payload": {"deep": [1, {2}]}}, r"\['deep'\]\[1\]"),
    ({"payload": float("inf")}, "not JSON"),
    ({"payload": "x" * 1_000_001}, "1000003 bytes"),
    ({"payload": "日" * 400_000}, "1200002 bytes"),
    ({"payload": 10**5000}, "not JSON"),
]


@pytest.mark.parametrize(("fields", "said"), BAD_MESSAGES)
async def test_an_invalid_message_is_refused(fields: dict[str, Any], said: str) -> None:
    message = AgentMessage(**{"from_agent": "pm", "to_agent": "sales", **fields})
    async with Bus() as bus:
        with pytest.raises(UserError, match=said):
            await bus.send(message)
        if "type" not in fields:
            message.type = "query"
            async with bus.serve("sales", echo):
                with pytest.raises(UserError, match=said):
                    await bus.query(message)
        assert await bus.depths() == {}


@pytest.mark.parametrize("message", [None, {"from_agent": "pm"}, "hello"])
async def test_a_value_that_is_not_a_message_is_refused(message: Any) -> None:
    async with Bus() as bus:
        with pytest.raises(UserError, match="AgentMessage"):
            await bus.send(message)
        with pytest.raises(ValueError, match="'query'"):
            await bus.query(message)


@pytest.mark.parametrize(
    "payload",
    [None, True, 0, -(2**80), 1.5, "", "\ud800 \x00 🙂", [], {}, {"鍵": ["値", None]}, [[[[1]]]]],
)
async def test_any_json_payload_is_delivered_unchanged(payload: Any) -> None:
    async with Bus() as bus, bus.serve("営業-🙂", echo):
        assert await bus.agent("企画").ask("営業-🙂", "件名", payload) == payload


@each_case(
    "fields",
    [
        {"visibility_s": 0},
        {"visibility_s": float("inf")},
        {"visibility_s": True},
        {"retry_s": "1"},
        {"keep_s": -1},
        {"handler_timeout_s": 0},
        {"max_attempts": 0},
        {"mailbox_bound": 1.5},
        {"oldest_every": None},
        {"on_full": "explode"},
        {"victim": "tallest"},
    ],
)
def test_invalid_bus_settings_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        BusSettings(**fields)


def test_the_retry_delay_doubles_up_to_a_maximum() -> None:
    settings = BusSettings(retry_s=2, retry_max_s=30, handler_timeout_s=None)
    tries = [settings.retry_delay_s(number) for number in (1, 2, 3, 4, 5, 6, 10_000)]
    assert tries == [2, 4, 8, 16, 30, 30, 30]


async def test_a_bus_client_refuses_an_invalid_priority() -> None:
    async with Bus() as bus:
        for wrong in ("highest", 9, None):
            with pytest.raises(UserError, match="is not a priority"):
                await bus.agent("pm").send("sales", "news", priority=wrong)
            with pytest.raises(UserError, match="is not a priority"):
                await bus.agent("pm").ask("sales", "news", priority=wrong)
        with pytest.raises(UserError):
            bus.agent("")
        assert repr(bus.agent("pm")) == "<BusClient 'pm'>"


class People:
    """Answers what it is asked."""

    def __init__(self) -> None:
        self.items: list[InboxItem] = []

    async def ask_person(self, item: InboxItem) -> InboxAnswer:
        self.items.append(item)
        return InboxAnswer(choice=item.options[0], by="ms.sato", at_us=1, via="program")

    async def post(self, item: InboxItem) -> InboxItem:
        self.items.append(item)
        return item


async def test_an_escalation_posts_a_question_to_people() -> None:
    people = People()
    async with Bus(people=people, settings=BusSettings(role="boss")) as bus:
        seat = bus.agent("sales")
        answer = await seat.escalate("15 % off?", {"customer": 42}, options=["yes", "no"])
        assert (answer.choice, answer.by) == ("yes", "ms.sato")
        item = await seat.escalate("just saying", "in words", blocking=False, role="lawyer")
        message = AgentMessage(type="escalate", from_agent="pm", subject="help", ttl=60.0)
        await bus.escalate(message, options=("ok",))
    asked, told, last = people.items
    assert (asked.kind, asked.from_agent, asked.subject) == ("escalation", "sales", "15 % off?")
    assert (asked.context, asked.body, asked.role) == ({"customer": 42}, "", "boss")
    assert (asked.deadline_us, asked.notice) == (None, False)
    assert told is item
    assert (told.body, told.context, told.role, told.notice) == ("in words", None, "lawyer", True)
    assert last.deadline_us == last.created_at_us + 60_000_000


async def test_closing_the_bus_cancels_its_inbox_items() -> None:
    store = MemoryStore()
    inbox = Inbox(store)
    bus = Bus(store, people=inbox)
    await bus.__aenter__()
    asking = asyncio.create_task(bus.agent("sales").escalate("15 % off?", options=["yes", "no"]))
    while not (asked := (await inbox.list()).items):
        await store.wait_for_change(1)
    await bus.close()
    with pytest.raises(BusError, match="closed while the answer was waited for"):
        await asking
    assert (await inbox.get(asked[0].id)).status == "cancelled"


async def test_cancelling_an_escalation_cancels_its_inbox_item() -> None:
    store = MemoryStore()
    inbox = Inbox(store)
    async with Bus(store, people=inbox) as bus:
        asking = asyncio.create_task(bus.agent("sales").escalate("15 % off?", options=["yes"]))
        while not (asked := (await inbox.list()).items):
            await store.wait_for_change(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert (await inbox.get(asked[0].id)).status == "cancelled"


async def test_an_invalid_escalation_is_refused() -> None:
    message = AgentMessage(type="escalate", from_agent="pm", subject="help")
    async with Bus() as bus:
        with pytest.raises(UserError, match="has no inbox"):
            await bus.escalate(message)
    people = People()
    async with Bus(people=people) as bus:
        with pytest.raises(UserError, match="'escalate'"):
            await bus.escalate(AgentMessage(from_agent="pm"))
        for options in ("yes", ["x"] * 51, [""], ["x" * 201], [7]):
            with pytest.raises(UserError, match="option"):
                await bus.escalate(message, options=options)
    assert people.items == []


async def test_an_in_memory_bus_keeps_only_the_last_messages() -> None:
    async with Bus(settings=BusSettings(keep_most=3)) as bus, bus.serve("sales", echo):
        asked = [
            AgentMessage(type="query", from_agent="pm", to_agent="sales", payload=number)
            for number in range(10)
        ]
        for message in asked:
            await bus.query(message)
        kept = await bus.store.find_messages()
        assert [row.key for row in kept] == [message.id for message in asked[-3:]]
        assert (await bus.query(asked[-1])).payload == 9


async def test_a_requeued_message_is_not_dropped_from_memory() -> None:
    async with Bus(settings=BusSettings(keep_most=2)) as bus:
        desk = Desk()
        message = AgentMessage(from_agent="pm", to_agent="sales", ttl=1e-6, subject="first")
        await bus.send(message)
        async with bus.serve("stock", echo):
            async with bus.serve("sales", desk):
                await bus.agent("pm").send("sales", "second")
                await desk.has(1)
            assert (await bus.message(message.id)).state == "expired"
            await bus.requeue([message.id])
            for number in range(5):
                await bus.agent("pm").ask("stock", "left", number)
            assert (await bus.message(message.id)).state == "open"


async def test_closing_a_bus_leaves_a_given_store_open() -> None:
    async with MemoryStore() as store:
        bus = Bus(store)
        await bus.agent("pm").send("sales", "news")
        await bus.close()
        await bus.close()
        assert await store.queue_depth("agent:sales") == 1


def test_the_public_names_have_a_door() -> None:
    record = MessageRecord(message=AgentMessage(from_agent="a"), state="open", attempts=0)
    assert record.to_json()["state"] == "open"


def test_a_message_as_json_has_all_of_its_fields() -> None:
    message = AgentMessage(from_agent="a", to_agent="b", depth=2)
    fields = [name for name in AgentMessage.__slots__ if name != "redelivered"]
    assert list(message.to_json()) == fields
    assert AgentMessage.from_json(message.to_json()) == message
