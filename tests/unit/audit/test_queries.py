"""Asking the audit, page by page."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ekiden.audit import AuditPage, AuditQuery, audit_records, link
from ekiden.audit.record import previous_of
from ekiden.core.errors import UserError
from ekiden.core.events import AUDITED
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.testing.contracts.base import claimed, step
from tests.unit.audit.written import BEGINNING, START_US, event, handoff, story, write

STORY = ["s/2", "s/3.1", "s/3.2", "s/3.3", "s/5", "s/6"]


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with MemoryStore() as store:
        yield store


async def ids(store: Store, **query: Any) -> list[str]:
    """The ids of all records, oldest first."""
    page = await audit_records(store, AuditQuery(newest_first=False, **query), limit=1000)
    assert page.next_cursor is None
    return [each.id for each in page.records]


async def pages(store: Store, query: AuditQuery, limit: int) -> list[list[str]]:
    """The ids of every page."""
    found: list[list[str]] = []
    page: AuditPage | None = None
    while page is None or page.next_cursor is not None:
        cursor = None if page is None else page.next_cursor
        page = await audit_records(store, query, limit=limit, cursor=cursor)
        found.append([each.id for each in page.records])
    return found


async def test_all_records_are_listed_newest_first(store: Store) -> None:
    await write(store, story())
    page = await audit_records(store)
    assert [each.id for each in page.records] == STORY[::-1]
    assert await ids(store) == STORY


async def test_a_store_without_events_has_no_records(store: Store) -> None:
    page = await audit_records(store)
    assert (list(page.records), page.next_cursor) == ([], None)


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 100])
async def test_pages_together_contain_every_record_once(
    store: Store, newest_first: bool, limit: int
) -> None:
    for name in ("s", "t"):
        await write(store, story(name))
    query = AuditQuery(newest_first=newest_first)
    found = await pages(store, query, limit)
    assert all(len(page) == limit for page in found[:-1])
    everything = [each.id for each in (await audit_records(store, query, limit=1000)).records]
    assert [each for page in found for each in page] == everything
    assert len(everything) == len(set(everything)) == 12


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_of_rare_records_search_all_events(store: Store, limit: int) -> None:
    own = [handoff("s", seq, *BEGINNING, to=f"a{seq % 100}") for seq in range(1, 451)]
    await write(store, own)
    found = await pages(store, AuditQuery(agent="a7", status="validating"), limit)
    expected = [f"s/{seq}.2" for seq in (407, 307, 207, 107, 7)]
    assert [each for page in found for each in page] == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"agent": "triage"}, ["s/2", "s/3.1", "s/3.2", "s/3.3", "s/5"]),
        ({"agent": "router"}, ["s/2"]),
        ({"agent": "ms.sato"}, []),
        ({"agent": "nobody"}, []),
        ({"status": "validating"}, ["s/3.2"]),
        ({"status": "completed"}, ["s/5"]),
        ({"handoff_id": "s.h1"}, ["s/3.1", "s/3.2", "s/3.3", "s/5"]),
        ({"handoff_id": "s.h"}, []),
        ({"task": "s"}, STORY),
        ({"correlation_id": "s", "type": "route"}, ["s/2"]),
        ({"type": "handoff", "status": "completed"}, ["s/5"]),
        ({"type": "route", "status": "completed"}, []),
        ({"type": "tool_confirmation"}, ["s/6"]),
        ({"type": "message"}, []),
        ({"session_id": "s"}, STORY),
        ({"session_id": "x"}, []),
    ],
)
async def test_each_query_option_filters_the_records(
    store: Store, query: dict[str, Any], expected: list[str]
) -> None:
    await write(store, story())
    assert await ids(store, **query) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ORDERS", ["s/3.1", "s/3.2", "s/3.3", "s/5", "s/6"]),
        ("包裹", ["s/3.1", "s/3.2", "s/3.3"]),
        ("Ms.Sato", ["s/6"]),
        ("refund", ["s/6"]),
        ("METHOD", ["s/2"]),
        ("s.H1", ["s/3.1", "s/3.2", "s/3.3", "s/5"]),
        ("nothing", []),
        ("  ", STORY),
    ],
)
async def test_a_text_is_found_in_the_fields_of_records(
    store: Store, text: str, expected: list[str]
) -> None:
    await write(store, story())
    assert await ids(store, text=text) == expected


async def test_a_text_is_found_in_facts_with_special_characters(store: Store) -> None:
    facts = {"rule": {"says": ['say "hi"', "C:\\x", "\ud800 包裹"]}, "count": 17, "on": True}
    await write(store, [event("s", 1)], unhashed=())
    claim = await claimed(store, "s")
    await store.commit(claim, step(event("s", 2, "guardrail", details=facts), release=True))
    for text in ('say "hi"', "c:\\X", "包裹", "17", "true", "says"):
        assert await ids(store, text=text) == ["s/2"]


async def test_a_text_search_ignores_case_and_unicode_form(store: Store) -> None:
    broken = event("s", 2, "guardrail", error="Größe: cafe\u0301", details={"why": float("nan")})
    await write(store, [event("s", 1)], unhashed=())
    claim = await claimed(store, "s")
    await store.commit(claim, step(broken, release=True))
    for text in ("GRÖSSE", "caf\u00e9", " größe: CAFÉ"):
        assert await ids(store, text=text) == ["s/2"]


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("most", [1, 2, 3])
async def test_pages_that_scan_few_events_contain_every_record_once(
    store: Store, limit: int, most: int, newest_first: bool
) -> None:
    for name in ("s", "t", "u"):
        await write(store, story(name))
    query = AuditQuery(text="REFUND", newest_first=newest_first)
    found: list[str] = []
    shown = 0
    cursor: str | None = None
    while True:
        page = await audit_records(store, query, limit=limit, cursor=cursor, most=most)
        assert len(page.records) <= limit
        found += [each.id for each in page.records]
        shown += 1
        cursor = page.next_cursor
        if cursor is None:
            break
    names = ["s/6", "t/6", "u/6"]
    assert found == (names[::-1] if newest_first else names)
    assert shown > 1


async def test_task_and_correlation_id_find_records_across_sessions(store: Store) -> None:
    await write(store, [handoff("a", 1, "failed", task="ticket-7", correlation="c")])
    await write(store, [handoff("b", 1, "failed", task="ticket-7")])
    await write(store, [handoff("c", 1, "failed", task="ticket-8", correlation="c")])
    assert await ids(store, task="ticket-7") == ["a/1", "b/1"]
    # A session without a correlation id has its own id as one.
    assert await ids(store, correlation_id="c") == ["a/1", "c/1"]
    assert await ids(store, correlation_id="b") == ["b/1"]


async def test_query_times_use_their_own_time_zone(store: Store) -> None:
    await write(store, story())
    third = datetime.fromtimestamp(START_US / 1e6 + 3, UTC)
    assert await ids(store, since=third) == STORY[1:]
    assert await ids(store, until=third) == STORY[:1]
    assert await ids(store, since=third, until=third + timedelta(microseconds=1)) == STORY[1:4]
    local = third.astimezone().replace(tzinfo=None)
    assert await ids(store, since=local) == STORY[1:]
    elsewhere = third.astimezone(tz=None)
    assert await ids(store, since=elsewhere) == STORY[1:]


async def test_a_time_out_of_range_is_a_user_error(store: Store) -> None:
    with pytest.raises(UserError, match="too far away"):
        await audit_records(store, AuditQuery(since=datetime.min))


async def test_the_first_and_the_last_representable_time_are_valid(store: Store) -> None:
    await write(store, story())
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert await ids(store, since=first, until=last) == STORY
    assert await ids(store, since=last) == []


async def test_each_record_has_the_previous_hash(store: Store) -> None:
    await write(store, story())
    events = {each.seq: each for each in await store.events("s")}
    records = (await audit_records(store)).records
    for record in records:
        assert record.previous is not None
        assert record.hash == link(record.previous, events[record.seq])
    assert records[-1].previous == ""


@pytest.mark.parametrize("gap", [1, 40, 3000])
async def test_the_previous_hash_is_found_beyond_the_page(store: Store, gap: int) -> None:
    between = [event("s", 2 + number) for number in range(gap)]
    last = handoff("s", gap + 2, "completed")
    await write(store, [handoff("s", 1, *BEGINNING), *between, last])
    (record,) = (await audit_records(store, AuditQuery(status="completed"))).records
    first = (await store.events("s", limit=1))[0]
    assert record.previous == (first.details or {})["hash"]
    (begun,) = (await audit_records(store, AuditQuery(status="initiated"))).records
    assert begun.previous == ""


async def test_records_of_an_earlier_version_without_hashes_are_listed(store: Store) -> None:
    old = [handoff("s", 1, "completed"), event("s", 2)]
    await write(store, [handoff("s", 3, "failed")], unhashed=old)
    newer, older = (await audit_records(store)).records
    assert (older.hash, older.previous) == (None, None)
    assert newer.hash is not None
    assert newer.previous == ""


async def test_records_written_between_pages_do_not_move_the_pages(store: Store) -> None:
    await write(store, story())
    first = await audit_records(store, limit=3)
    await write(store, story("t"))
    rest = await audit_records(store, AuditQuery(session_id="s"), cursor=first.next_cursor)
    assert [each.id for each in (*first.records, *rest.records)] == STORY[::-1]


async def test_a_page_continues_after_the_event_at_its_cursor_was_deleted(store: Store) -> None:
    await write(store, [handoff("a", 1, *BEGINNING)])
    await write(store, [event("b", 1), handoff("b", 2, *BEGINNING)])
    page = await audit_records(store, limit=2)
    assert [each.id for each in page.records] == ["b/2.3", "b/2.2"]
    await store.delete("b")
    rest = await audit_records(store, cursor=page.next_cursor)
    assert [each.id for each in rest.records] == ["a/1.3", "a/1.2", "a/1.1"]


@pytest.mark.parametrize("cursor", ["", "x", "+", "1.2.3+", "1.2.3+1", "x+1.2", "1.2.3+1.2.3"])
async def test_a_malformed_cursor_is_a_user_error(store: Store, cursor: str) -> None:
    await write(store, story())
    with pytest.raises(UserError, match="next_cursor"):
        await audit_records(store, cursor=cursor)


@pytest.mark.parametrize("limit", [0, -5])
async def test_a_page_size_below_one_is_a_user_error(store: Store, limit: int) -> None:
    with pytest.raises(UserError, match="limit"):
        await audit_records(store, limit=limit)


async def test_a_record_that_cannot_be_hashed_is_still_listed(store: Store) -> None:
    await write(store, story())
    details = (await store.events("s"))[4].details
    assert details is not None
    details["reason"] = float("inf")
    found = (await audit_records(store, AuditQuery(status="completed"))).records
    before = (await store.events("s"))[2].details
    assert before is not None
    assert [each.previous for each in found] == [before["hash"]]


async def test_the_cache_of_previous_hashes_is_bounded(store: Store) -> None:
    await write(store, story())
    events = [each for each in await store.events("s") if each.type in AUDITED]
    last = {f"other{number}": "x" for number in range(20_000)}
    found = [await previous_of(store, [each], last) for each in events]
    assert last.keys() == {"s"}
    assert [value for each in found for value in each.values()] == [
        "",
        *((each.details or {})["hash"] for each in events[:-1]),
    ]
