"""Pages of items: in order, filtered, and whole whatever happens meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox, InboxQuery
from ekiden.storage.memory import MemoryStore
from tests.unit.inbox.conftest import confirmation, question


async def names(inbox: Inbox, **query: Any) -> list[str]:
    """The subjects of what is listed, over all pages."""
    found: list[InboxItem] = []
    cursor = None
    while True:
        page = await inbox.list(InboxQuery(**query), limit=2, cursor=cursor)
        found.extend(page.items)
        cursor = page.next_cursor
        if cursor is None:
            return [item.subject for item in found]


@pytest.fixture
async def filled(inbox: Inbox, store: MemoryStore) -> Inbox:
    """An inbox with items of all kinds."""
    rows: list[dict[str, Any]] = [
        {"subject": "old", "priority": 2},
        {"subject": "urgent", "priority": 4, "role": "CEO"},
        {"subject": "new", "session_id": "s1", "body": "Größe 客户"},
        {"subject": "low", "priority": 1, "context": {"customer": "山田"}},
    ]
    for fields in rows:
        await inbox.post(question(**fields))
        store.advance(1)
    await inbox.post(confirmation(subject="tool", from_agent="billing"))
    return inbox


async def test_open_items_are_ordered_by_priority_then_newest_first(filled: Inbox) -> None:
    assert await names(filled) == ["urgent", "tool", "new", "old", "low"]


async def test_closed_items_are_listed_last_closed_first_and_any_lists_all(
    filled: Inbox, store: MemoryStore
) -> None:
    ids = {item.subject: item.id for item in (await filled.list()).items}
    await filled.answer(ids["new"], choice="yes", by="Anna", text="sure")
    store.advance(1)
    await filled.cancel(ids["urgent"], by="Bob", reason="不再需要")
    assert await names(filled, status="closed") == ["urgent", "new"]
    assert await names(filled, status="answered") == ["new"]
    assert await names(filled, status="cancelled", text="需要") == ["urgent"]
    assert await names(filled, status="expired") == []
    assert await names(filled, status="any") == ["tool", "old", "low", "urgent", "new"]
    assert await names(filled, status="any", text="SURE") == ["new"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"role": "ceo"}, ["urgent"]),
        ({"kind": "confirmation"}, ["tool"]),
        ({"agent": "billing"}, ["tool"]),
        ({"session_id": "s1"}, ["new"]),
        ({"priority": 1}, ["low"]),
        ({"text": "GRÖSSE"}, ["new"]),
        ({"text": "山田?"}, []),
        ({"text": "山田"}, ["low"]),
        ({"text": "1042"}, ["tool"]),
        ({"agent": "sales", "priority": 2}, ["new", "old"]),
        ({"assignee": "Anna"}, []),
        ({"assignee": ""}, ["urgent", "tool", "new", "old", "low"]),
    ],
)
async def test_filters_restrict_the_list(
    filled: Inbox, query: dict[str, Any], expected: list[str]
) -> None:
    assert await names(filled, **query) == expected


async def test_items_are_filtered_by_assignee(filled: Inbox) -> None:
    [item] = (await filled.list(InboxQuery(role="CEO"))).items
    await filled.assign(item.id, "佐藤", by="Anna")
    assert await names(filled, assignee="佐藤") == ["urgent"]


async def test_pages_continue_although_items_were_answered_meanwhile(
    inbox: Inbox, store: MemoryStore
) -> None:
    posted = []
    for number in range(450):
        posted.append(await inbox.post(question(subject=str(number))))
        store.advance(0.001)
    first = await inbox.list(limit=200)
    assert [item.subject for item in first.items] == [str(n) for n in range(449, 249, -1)]
    for item in first.items:
        await inbox.answer(item.id, choice="yes", by="Anna")
    await inbox.post(question(subject="new"))
    second = await inbox.list(limit=200, cursor=first.next_cursor)
    assert [item.subject for item in second.items] == [str(n) for n in range(249, 49, -1)]
    third = await inbox.list(limit=200, cursor=second.next_cursor)
    assert len(third.items) == 50
    assert third.next_cursor is None


async def test_rare_matches_are_found_across_pages(inbox: Inbox, store: MemoryStore) -> None:
    for number in range(620):
        await inbox.post(question(subject=str(number), role="x" if number % 300 == 0 else "y"))
        store.advance(0.001)
    assert await names(inbox, role="x") == ["600", "300", "0"]


@pytest.mark.parametrize("cursor", ["", "x", "1/9/1", "3/00000000000000000/inb_1", "1/7/\n"])
async def test_an_invalid_cursor_is_refused(inbox: Inbox, cursor: str) -> None:
    with pytest.raises(UserError, match="not a cursor"):
        await inbox.list(cursor=cursor)


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_an_invalid_limit_is_refused(inbox: Inbox, limit: int) -> None:
    with pytest.raises(UserError, match="1 to 1000"):
        await inbox.list(limit=limit)
