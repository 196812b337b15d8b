"""Messages in SQLite: many writers at once in few statements, and an index for every question."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.errors import QueueFull, UserError
from ekiden.storage.base import (
    Batch,
    DocumentWrite,
    MessageFilter,
    MessageSettle,
    NewSession,
    QueuePut,
)
from ekiden.storage.sqlite import SqliteStore, queues
from tests.support.sqlite import execute

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
QUERIES = [
    (MessageFilter(keys=["a", "b"]), "messages_named"),
    (MessageFilter(keys=["a"], states=["open"], queue="q"), "messages_named"),
    (MessageFilter(waiters=["a", "b"], states=["open"]), "messages_waited_for"),
    (MessageFilter(waited_for=True, states=["open"]), "messages_waited_for"),
    (MessageFilter(queue="q", states=["open"]), "messages_in_line"),
    (MessageFilter(queues=["q", "p"], states=["open"]), "messages_in_line"),
    (MessageFilter(waiters=["a"], states=["open"], queue="q"), "messages_waited_for"),
    (MessageFilter(session_id="s"), "messages_of_session"),
    (MessageFilter(session_id="s", states=["answered", "late"]), "messages_of_session"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ekiden.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(path) as store:
        yield store


def put(number: int, **options: Any) -> QueuePut:
    return QueuePut(**{"queue": "q", "body": number, "key": f"k{number}", **options})


async def test_concurrent_puts_and_settlements_each_get_their_own_result(
    store: SqliteStore,
) -> None:
    receipts = await asyncio.gather(*(store.put_messages([put(n)]) for n in range(300)))
    ids = [receipt.id for (receipt,) in receipts]
    assert ids == sorted(set(ids))
    again = await asyncio.gather(*(store.put_messages([put(n)]) for n in range(250, 350)))
    assert [receipt.is_new for (receipt,) in again] == [False] * 50 + [True] * 50
    assert [receipt.id for (receipt,) in again[:50]] == ids[250:]
    results = await asyncio.gather(
        *(
            store.settle_messages(
                [
                    MessageSettle(key=f"k{n}", state="answered", answer=n),
                    MessageSettle(key=f"k{n % 300}", state="failed"),
                ]
            )
            for n in range(400)
        )
    )
    assert [own for own, _ in results[:350]] == ["settled"] * 350
    assert [own for own, _ in results[350:]] == ["no"] * 50
    assert {other for _, other in results} == {"no"}
    page = await store.find_messages(limit=500)
    assert [(each.key, each.answer, each.state) for each in page] == [
        (f"k{n}", n, "answered") for n in range(350)
    ]


async def test_a_full_queue_refuses_one_put_of_a_group_and_accepts_the_others(
    store: SqliteStore,
) -> None:
    fates = await asyncio.gather(
        *(store.put_messages([put(n, bound=3), put(n, key=None, bound=3)]) for n in range(4)),
        store.put_messages([put(9, queue="other", bound=1)]),
        store.put_messages([put(8, queue="other")]),
        store.settle_messages([MessageSettle(key="k0", state="answered")]),
        return_exceptions=True,
    )
    assert [isinstance(fate, QueueFull) for fate in fates[:4]] == [False, True, True, True]
    assert not any(isinstance(fate, Exception) for fate in fates[4:])
    assert fates[-1] == ["settled"]
    assert await store.queue_depth("q") == 1
    assert await store.queue_depth("other") == 2


async def test_duplicates_in_a_full_queue_are_accepted(store: SqliteStore) -> None:
    await store.put_messages([put(1), put(2, dedup_key="d")])
    receipts = await store.put_messages(
        [
            put(1, bound=2),
            put(3, dedup_key="d", bound=2),
            put(4, queue="p", dedup_key="d", bound=2),
            put(5, queue="p", dedup_key="d", bound=1),
            put(4, queue="p", bound=1),
        ]
    )
    assert [receipt.is_new for receipt in receipts] == [False, False, True, False, False]
    assert receipts[4].id == receipts[2].id > 0 == receipts[1].id == receipts[3].id


async def test_an_invalid_key_fails_alone(store: SqliteStore) -> None:
    fates = await asyncio.gather(
        store.put_messages([put(1)]),
        store.put_messages([put(2, key="lone \ud800")]),
        store.settle_messages([MessageSettle(key="\udc00", state="answered")]),
        store.put_messages([put(3, waiter="lone \ud800")]),
        store.put_messages([put(4)]),
        return_exceptions=True,
    )
    assert [isinstance(fate, UserError) for fate in fates] == [False, True, True, True, False]
    assert await store.queue_depth("q") == 2


async def test_a_stale_batch_in_a_group_stores_nothing(store: SqliteStore) -> None:
    await store.create(NewSession(id="s", agent="a", status="waiting"))
    stale = Batch(
        documents=[DocumentWrite(collection="c", key="k", body=1, expected_version=5)],
        messages=[put(7)],
        wakes=["s"],
    )
    fates = await asyncio.gather(
        store.put_messages([put(1, session_id="s")]),
        store.write(stale),
        store.settle_messages([MessageSettle(key="k1", state="answered")]),
        return_exceptions=True,
    )
    assert [type(fate).__name__ for fate in fates] == ["list", "StaleDocument", "list"]
    assert fates[2] == ["settled"]
    row = await store.get("s")
    assert (row.status, row.wakes) == ("ready", 1)
    assert [each.key for each in await store.find_messages()] == ["k1"]


@pytest.mark.parametrize(("where", "index"), QUERIES)
async def test_messages_are_found_with_an_index(
    path: Path, store: SqliteStore, where: MessageFilter, index: str
) -> None:
    sql, values = queues.page_sql(where, 0, 10)
    for value in values:
        sql = sql.replace("?", repr(value), 1)
    plan = [row[3] for row in execute(path, f"EXPLAIN QUERY PLAN {sql}")]
    assert any(index in line for line in plan), plan


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (
            "SELECT id FROM messages WHERE queue = 'q' AND state = 'open' AND due_ms <= 1"
            " ORDER BY priority DESC, id LIMIT 1",
            "messages_in_line",
        ),
        (
            "SELECT id FROM messages WHERE queue = 'q' AND state = 'open' AND due_ms <= 1"
            " ORDER BY id LIMIT 1",
            "messages_in_line",
        ),
        ("SELECT count(*) FROM messages WHERE queue = 'q' AND state = 'open'", "messages_in_line"),
        (
            "SELECT id FROM messages WHERE settled_us < 1 ORDER BY settled_us LIMIT 1",
            "messages_settled",
        ),
    ],
)
async def test_messages_are_taken_and_pruned_with_an_index(
    path: Path, store: SqliteStore, sql: str, index: str
) -> None:
    plan = [row[3] for row in execute(path, f"EXPLAIN QUERY PLAN {sql}")]
    assert index in plan[0], plan


async def test_an_event_without_a_session_row_is_ignored(path: Path) -> None:
    async with SqliteStore(path) as store:
        await store.create(NewSession(id="s", agent="a"))
    execute(
        path,
        "INSERT INTO events (session, seq, type, at_us) VALUES (99, 1, 3, 5), (-1, 1, 'gone', 0)",
    )
    async with SqliteStore(path) as store:
        assert (await store.find_events()).events == []
        assert (await store.feed()).events == []
        assert await store.events("") == []
        assert await store.feed_end() == "2"
