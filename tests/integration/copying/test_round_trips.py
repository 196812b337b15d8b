"""What is copied is the same afterwards, and goes on in its new place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ekiden import Worker, search_sessions
from ekiden.audit import head_of
from ekiden.project import open_store
from ekiden.project.copying import (
    BackupReport,
    CopyReport,
    backup_store,
    copy_store,
    restore_store,
    store_info,
    verify_store,
)
from ekiden.storage.base import (
    EventFilter,
    EventPage,
    MessageFilter,
    NewSession,
    SessionFilter,
    Store,
)
from ekiden.testing.contracts.base import fields_of
from tests.integration.copying import world
from tests.integration.copying.world import (
    ODD,
    STORABLE_NAME,
    act,
    answered,
    rows_of,
    same,
    team,
)

Place = Callable[[str], str]
EVERYTHING = (
    "run",
    "ask",
    "bus",
    "ready",
    "fork",
    "memory",
    "rewind",
    "key",
    "delete",
    "raw",
    "index",
    "run",
    "bus",
)
SOURCES = {"copy": "sqlite", "sqlite": "sqlite", "postgresql": "postgresql"}
"""Of a copy from SQLite to PostgreSQL, and of a backup that is restored."""
WAYS = pytest.mark.parametrize("way", list(SOURCES))
Go = Callable[[str, str], Awaitable[tuple[str, CopyReport | BackupReport]]]


@pytest.fixture
def go(place: Place, elsewhere: Place, tmp_path: Path) -> Go:
    """Takes a store one of these ways: where it is then, and what was reported."""

    async def taken(way: str, url: str) -> tuple[str, CopyReport | BackupReport]:
        if way == "copy":
            target = place("postgresql")
            return target, await copy_store(url, target)
        target = place("sqlite") if way == "sqlite" else elsewhere(url)
        backup = tmp_path / "备份 🗄.backup"
        await backup_store(url, backup)
        return target, await restore_store(backup, target)

    return taken


async def made(url: str, acts: tuple[str, ...] = EVERYTHING) -> str:
    """A store in which all of that was done."""
    async with open_store(url) as store:
        for number, what in enumerate(acts):
            await act(store, what, number)
    return url


async def seen(store: Store) -> dict[str, Any]:
    """What the public doors show."""
    sessions = (await store.list(limit=1000)).sessions
    feed = (await store.feed(limit=10_000)).events
    messages = await store.find_messages(MessageFilter(), limit=1000)
    return {
        "sessions": sessions,
        "ready": (await store.list(SessionFilter(status="ready"))).sessions,
        "feed": fields_of(feed),
        "found": fields_of((await store.find_events(EventFilter(), limit=10_000)).events),
        "steps": [await store.steps(row.id) for row in sessions],
        "heads": [head_of(row) for row in sessions],
        "keys": await store.list_documents("api_keys"),
        "taken": [each.id for each in messages if each.owner is not None and each.state == "open"],
        "messages": [replace(each, owner=None) for each in messages],
        "words": await store.search_text(f"{STORABLE_NAME}9", "退款"),
        "vectors": await store.search_vectors(f"{STORABLE_NAME}9", [0.1, -0.2, 0.3], model="m"),
        "entries": await store.find_entries(f"{STORABLE_NAME}9"),
    }


@WAYS
async def test_a_copy_shows_the_same_as_its_source(way: str, go: Go, place: Place) -> None:
    first = await made(place(SOURCES[way]))
    before = await rows_of(first)
    second, report = await go(way, first)
    assert report.tenants[0].audit.ok
    assert report.tenants[0].audit.chained > 3
    assert await rows_of(first) == before
    assert same(await rows_of(second)) == same(before)
    async with open_store(first) as one, open_store(second) as other:
        shown, copied = await seen(one), await seen(other)
    # Who had taken a message is not there any more, so it is free; a dump leaves that to its time.
    taken = shown.pop("taken")
    assert len(taken) == 1
    assert copied.pop("taken") == (taken if way == "postgresql" else [])
    assert copied == shown
    [found] = await verify_store(second)
    assert found.ok, (found.faults, found.audit)


@pytest.mark.slow
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(acts=st.lists(st.sampled_from(sorted(set(EVERYTHING))), max_size=6))
def test_any_store_is_equal_after_restoring_and_copying(
    acts: list[str], postgres_server_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("stores")

    async def there() -> None:
        first, last = str(folder / "a.db"), str(folder / "c.db")
        await made(first, tuple(acts))
        await backup_store(first, folder / "b.db")
        await restore_store(folder / "b.db", last)
        assert same(await rows_of(last)) == same(await rows_of(first))
        import asyncpg

        joint = "&" if "?" in postgres_server_url else "?"
        schema = f"copy_{folder.name.replace('-', '_')}"
        url = f"{postgres_server_url}{joint}schema={schema}"
        await copy_store(last, url)
        copied = await rows_of(url)
        connection = await asyncpg.connect(postgres_server_url)
        await connection.execute("set client_min_messages = warning")
        await connection.execute(f"drop schema {schema} cascade")
        await connection.close()
        assert same(copied) == same(await rows_of(first))

    asyncio.run(there())


@WAYS
async def test_suspended_runs_continue_in_the_copy(way: str, go: Go, place: Place) -> None:
    first = await made(place(SOURCES[way]), ("ask", "ready"))
    world.keys_seen.clear()
    second, _ = await go(way, first)
    assert await answered(second, "ask-0") == "done"
    async with open_store(second) as store:
        assert (await store.get("ready-1")).outcome == "done"
        assert (await store.get("ready-1")).seq > 3
    in_copy = list(world.keys_seen)
    world.keys_seen.clear()
    async with open_store(first) as store:
        # In the source it is done once more, as if the copy were not there: with the same keys.
        await Worker(store, team()).run(until_idle=True)
    assert world.keys_seen
    assert world.keys_seen == in_copy
    [found] = await verify_store(second)
    assert found.ok


@WAYS
async def test_a_feed_follower_continues_at_its_place_in_the_copy(
    way: str, go: Go, place: Place
) -> None:
    first = place(SOURCES[way])
    async with open_store(first) as store:
        await act(store, "run", 0)
        await act(store, "delete", 1)
        assert await search_sessions(store, "hello")
        await act(store, "run", 2)
        end = await store.feed_end()
    second, _ = await go(way, first)
    async with open_store(second) as store:
        document = await store.get_document("sessions.search", "feed")
        assert document is not None
        page = await store.feed(after=document.body["after"], limit=1000)
        assert own(page) == {"run-2"}
        assert len(await search_sessions(store, "hello")) == 2
        await act(store, "run", 3)
        if way != "copy":
            later = await store.feed(after=end, limit=1000)
            assert own(later) == {"run-3"}


def own(page: EventPage) -> set[str]:
    """Whose events they are, without sessions that others began."""
    return {event.session_id for event in page.events if not event.session_id.startswith("ask_")}


async def test_numbers_are_not_reused_in_a_copy(place: Place, tmp_path: Path) -> None:
    first, second, third = place("sqlite"), place("postgresql"), tmp_path / "backup.db"
    async with open_store(first) as store:
        for number in range(3):
            await act(store, "run", number)
        kept = (await store.list(limit=1)).sessions[0]
        await act(store, "bus", 4)
        cursor = (await store.list(limit=2)).next_cursor
        await store.delete(kept.id)
        last = (await store.find_messages(limit=100))[-1].id
    await copy_store(first, second)
    await backup_store(first, third)
    for url in (second, str(third)):
        async with open_store(url) as store:
            page = await store.list(cursor=cursor)
            assert kept.id not in {row.id for row in page.sessions}
            await act(store, "bus", 5)
            assert (await store.find_messages(limit=100))[-1].id == last + 1


async def test_a_lone_surrogate_in_a_name_is_dumped_and_restored(go: Go, place: Place) -> None:
    first = place("postgresql")
    async with open_store(first) as store:
        await store.create(NewSession(id=ODD, agent="a"))
    second, _ = await go("postgresql", first)
    async with open_store(second) as store:
        assert (await store.get(ODD)).agent == "a"


@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
async def test_a_file_of_an_older_format_is_copied_without_changing_it(
    target: str, place: Place, upgrade: Callable[[], int]
) -> None:
    first, second = Path(await made(place("sqlite"))), place(target)
    before = first.read_bytes()
    newest = upgrade()
    if target == "sqlite":
        assert (await restore_store(first, second)).ok
    else:
        assert (await copy_store(str(first), second)).audit_ok
    [old], [new] = await store_info(str(first)), await store_info(second)
    assert (old["format"], new["format"]) == (newest - 1, newest)
    assert old["events"] == new["events"] > 3
    assert first.read_bytes() == before
