"""Questions are stored as they are asked, and those that make no sense are refused."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.errors import StaleDocument, UserError
from ekiden.core.errors.messages import InboxItemNotFound
from ekiden.core.questions import EscalationStep
from ekiden.inbox import Inbox, InboxSettings
from ekiden.storage.memory import MemoryStore
from tests.unit.inbox.conftest import question


async def test_a_posted_item_is_open_and_found_by_its_id(inbox: Inbox) -> None:
    posted = await inbox.post(
        question(context={"客户": "山田 👩‍💻"}, body="\udc00 half a character")
    )
    assert posted.status == "open"
    assert posted.created_at_us > 0
    assert await inbox.get(posted.id) == posted


async def test_an_unknown_id_is_not_found_and_the_error_has_advice(inbox: Inbox) -> None:
    with pytest.raises(InboxItemNotFound, match="ekiden inbox list"):
        await inbox.get("inb_none")


async def test_posting_the_same_item_again_returns_its_current_state(inbox: Inbox) -> None:
    item = question()
    first = await inbox.post(item)
    assert await inbox.post(item) == first
    done = await inbox.answer(item.id, choice="no", by="Anna")
    assert await inbox.post(item) == done
    assert len((await inbox.list()).items) == 0


async def test_a_different_item_with_a_used_id_is_refused(inbox: Inbox) -> None:
    first = await inbox.post(question())
    with pytest.raises(UserError, match="another inbox item"):
        await inbox.post(question(id=first.id, subject="something else"))
    await inbox.answer(first.id, choice="yes", by="Anna")
    with pytest.raises(UserError, match="another inbox item"):
        await inbox.post(question(id=first.id, subject="something else"))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"id": "a b"}, "not a valid id"),
        ({"id": ""}, "not a valid id"),
        ({"kind": "joke"}, "kind must be one of"),
        ({"from_agent": ""}, "needs `from_agent`"),
        ({"subject": "  "}, "subject"),
        ({"subject": "x" * 2001}, "into its body"),
        ({"priority": 5}, "priority"),
        ({"status": "answered"}, "must be open"),
        ({"options": ("yes", "ＹＥＳ ")}, "look the same"),
        ({"options": ("yes", " ")}, "an option must be text"),
        ({"options": ("yes", "n" * 501)}, "an option must have"),
        ({"options": tuple(map(str, range(101)))}, "at most 100"),
        ({"default": "maybe"}, "not one of the options"),
        ({"deadline_us": -1}, "microseconds"),
        ({"deadline_us": 10**17}, "microseconds"),
        ({"role": " "}, "must not be empty"),
        ({"role": "a\nb"}, "one line"),
        ({"role": "r" * 201}, "longer than 200"),
        ({"chain": (EscalationStep(role="boss", after_s=0),)}, "chain must be"),
        ({"chain": (EscalationStep(role="boss", after_s=float("inf")),)}, "chain must be"),
        ({"chain": (EscalationStep(role="boss", after_s=10**400),)}, "chain must be"),
        ({"chain": (EscalationStep(role="boss", after_s=1e10),)}, "at most 1e"),
        ({"chain": (EscalationStep(role="", after_s=1),)}, "chain must be"),
        ({"from_agent": 5}, "from_agent must be a text"),
        ({"body": 5}, "body must be a text"),
        ({"options": 5}, "a list of texts"),
        ({"deadline_us": "noon"}, "deadline_us must be a whole number"),
        ({"chain": (EscalationStep(role="boss", after_s=1),) * 51}, "at most 50"),
        ({"context": object()}, "not JSON"),
    ],
)
async def test_an_invalid_item_is_refused_and_nothing_is_stored(
    inbox: Inbox, store: MemoryStore, fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        await inbox.post(question(**fields))
    for collection in ("inbox.open", "inbox.order", "timers"):
        assert not await store.list_documents(collection)


async def test_items_get_default_role_and_escalation_chain_from_the_settings(
    store: MemoryStore,
) -> None:
    chain = (EscalationStep(role="经理", after_s=60), EscalationStep(role="CEO", after_s=600))
    inbox = Inbox(store, settings=InboxSettings(role="CEO の秘書", escalation=chain))
    plain = await inbox.post(question())
    assert (plain.role, plain.chain) == ("CEO の秘書", chain)
    assert plain.escalate_at_us == plain.created_at_us + 60_000_000
    own = await inbox.post(question(role="legal"))
    assert (own.role, own.chain, own.escalate_at_us) == ("legal", (), None)
    notice = await inbox.post(question(notice=True))
    assert (notice.role, notice.chain) == ("CEO の秘書", ())
    longer = (EscalationStep(role="boss", after_s=5),)
    chained = await inbox.post(question(chain=longer))
    assert chained.chain == longer


async def test_the_default_is_spelled_as_in_the_options(inbox: Inbox) -> None:
    posted = await inbox.post(question(default="NO", deadline_us=10**16))
    assert posted.default == "no"


async def test_item_writes_can_be_committed_by_the_caller(inbox: Inbox, store: MemoryStore) -> None:
    item = question(created_at_us=await store.now_us(), deadline_us=10**16)
    await store.write_documents(inbox.item_writes(item))
    assert (await inbox.get(item.id)).subject == item.subject
    assert [each.id for each in (await inbox.list()).items] == [item.id]
    with pytest.raises(StaleDocument):
        await store.write_documents(inbox.item_writes(item))
    await inbox.answer(item.id, choice="yes", by="Anna")
    with pytest.raises(StaleDocument):
        await store.write_documents(inbox.item_writes(item))
    assert (await inbox.get(item.id)).status == "answered"


async def test_item_writes_require_a_creation_time(inbox: Inbox) -> None:
    with pytest.raises(UserError, match="created_at_us"):
        inbox.item_writes(question())


async def test_ids_are_found_by_prefix(inbox: Inbox) -> None:
    for name in ("inb_a1", "inb_a2", "inb_b", "inb_b2"):
        await inbox.post(question(id=name))
    await inbox.answer("inb_a1", choice="yes", by="Anna")
    assert await inbox.ids("inb_a") == ("inb_a2", "inb_a1")
    assert await inbox.ids("inb_b") == ("inb_b",)
    assert await inbox.ids("zzz") == ()


@pytest.mark.parametrize("item_id", ["", "a/b", "\udc80", "x" * 129, "一"])
async def test_an_invalid_id_is_not_found(inbox: Inbox, item_id: str) -> None:
    with pytest.raises(InboxItemNotFound):
        await inbox.get(item_id)
    assert await inbox.ids(item_id) == ()


def test_a_deeply_nested_context_is_accepted() -> None:
    context: object = None
    for _ in range(900):
        context = [context]
    assert question(context=context).to_json()["context"] is context
