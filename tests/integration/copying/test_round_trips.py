"""What is copied is the same afterwards, and goes on in its new place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ekiden import Worker, search_sessions
from ekiden.app import open_store
from ekiden.app.copying import CopyReport, copy_store, verify_store
from ekiden.audit import head_of
from ekiden.core.copy_errors import NotCopyable
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
from tests.integration.copying.world import ODD, STORABLE_NAME, act, answered, rows_of, same, team

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
KINDS = ("sqlite", "postgresql")
WAYS = [(source, target) for source in KINDS for target in KINDS]


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


@pytest.mark.parametrize(("source", "target"), WAYS)
async def test_a_copy_shows_what_its_source_shows(source: str, target: str, place: Place) -> None:
    first, second = await made(place(source)), place(target)
    before = await rows_of(first)
    report = await copy_store(first, second)
    assert report.audit_ok
    assert report.tenants[0].audit.chained > 3
    assert dict(report.tenants[0].later) == {}
    assert await rows_of(first) == before
    assert same(await rows_of(second)) == same(before)
    async with open_store(first) as one, open_store(second) as other:
        shown, copied = await seen(one), await seen(other)
    # Who had taken a message is not there any more, so it is free.
    taken = shown.pop("taken")
    assert len(taken) == 1
    assert copied.pop("taken") == []
    assert copied == shown
    [found] = await verify_store(second)
    assert found.ok, (found.faults, found.audit)


async def test_there_and_back_again_everything_is_as_it_was(place: Place) -> None:
    first, middle, last = await made(place("sqlite")), place("postgresql"), place("sqlite")
    there = await copy_store(first, middle)
    back = await copy_store(middle, last)
    for table in ("sessions", "events", "steps", "messages", "search_entries"):
        assert there.tenants[0].digests[table] == back.tenants[0].digests[table]
    assert same(await rows_of(last)) == same(await rows_of(first))


@pytest.mark.slow
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(acts=st.lists(st.sampled_from(sorted(set(EVERYTHING))), max_size=6))
def test_any_store_comes_back_as_it_was(
    acts: list[str], postgres_server_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("stores")

    async def there_and_back() -> None:
        first, last = str(folder / "a.db"), str(folder / "b.db")
        await made(first, tuple(acts))
        import asyncpg

        joint = "&" if "?" in postgres_server_url else "?"
        schema = f"copy_{folder.name.replace('-', '_')}"
        await copy_store(first, f"{postgres_server_url}{joint}schema={schema}")
        await copy_store(f"{postgres_server_url}{joint}schema={schema}", last)
        connection = await asyncpg.connect(postgres_server_url)
        await connection.execute("set client_min_messages = warning")
        await connection.execute(f"drop schema {schema} cascade")
        await connection.close()
        assert same(await rows_of(last)) == same(await rows_of(first))

    asyncio.run(there_and_back())


@pytest.mark.parametrize(("source", "target"), WAYS)
async def test_what_waited_goes_on_in_the_copy(source: str, target: str, place: Place) -> None:
    first, second = await made(place(source), ("ask", "ready")), place(target)
    world.keys_seen.clear()
    await copy_store(first, second)
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


@pytest.mark.parametrize(("source", "target"), WAYS)
async def test_who_follows_the_feed_goes_on_where_it_was(
    source: str, target: str, place: Place
) -> None:
    first, second = place(source), place(target)
    async with open_store(first) as store:
        await act(store, "run", 0)
        await act(store, "delete", 1)
        assert await search_sessions(store, "hello")
        await act(store, "run", 2)
        end = await store.feed_end()
    await copy_store(first, second)
    async with open_store(second) as store:
        document = await store.get_document("sessions.search", "feed")
        assert document is not None
        page = await store.feed(after=document.body["after"], limit=1000)
        assert own(page) == {"run-2"}
        assert len(await search_sessions(store, "hello")) == 2
        await act(store, "run", 3)
        if source == target:
            later = await store.feed(after=end, limit=1000)
            assert own(later) == {"run-3"}


def own(page: EventPage) -> set[str]:
    """Whose events they are, without sessions that others began."""
    return {event.session_id for event in page.events if not event.session_id.startswith("ask_")}


async def test_a_number_is_not_given_again_in_a_copy(place: Place) -> None:
    first, second, third = place("sqlite"), place("postgresql"), place("sqlite")
    async with open_store(first) as store:
        for number in range(3):
            await act(store, "run", number)
        kept = (await store.list(limit=1)).sessions[0]
        await act(store, "bus", 4)
        cursor = (await store.list(limit=2)).next_cursor
        await store.delete(kept.id)
        last = (await store.find_messages(limit=100))[-1].id
    await copy_store(first, second)
    await copy_store(second, third)
    for url in (second, third):
        async with open_store(url) as store:
            page = await store.list(cursor=cursor)
            assert kept.id not in {row.id for row in page.sessions}
            await act(store, "bus", 5)
            assert (await store.find_messages(limit=100))[-1].id == last + 1


async def test_half_of_a_character_in_a_name_is_not_put_into_a_file(place: Place) -> None:
    first, second = place("postgresql"), place("sqlite")
    async with open_store(first) as store:
        await store.create(NewSession(id=ODD, agent="a"))
    with pytest.raises(NotCopyable, match="half of a character"):
        await copy_store(first, second)
    third = place("postgresql")
    await copy_store(first, third)
    async with open_store(third) as store:
        assert (await store.get(ODD)).agent == "a"


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_a_file_of_an_older_format_is_copied_as_it_is(
    number: int, target: str, place: Place
) -> None:
    sample = Path(__file__).parents[2] / "samples" / f"sqlite-format-{number}.db"
    before = sample.read_bytes()
    second = place(target)
    report: CopyReport = await copy_store(str(sample), second)
    assert report.audit_ok
    assert report.tenants[0].counts["events"] > 3
    assert sample.read_bytes() == before
    async with open_store(second) as store:
        assert (await store.list()).sessions[0].priority == 2
