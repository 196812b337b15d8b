"""A PostgreSQL server that goes away and comes back."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.storage.base import DocumentWrite, NewSession, QueuePut
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.postgres.database import ConnectionLost, translated
from tests.support.proxy import Proxy
from tests.support.server import Server, private_server
from tests.support.sql import connect, execute, terminate, until_blocked, until_waited_for

GATE = """
create function wait_here() returns trigger language plpgsql as
  $$ begin perform pg_advisory_xact_lock_shared(77); return new; end $$;
create trigger wait_here after update on documents
  for each row when (new.key = 'a') execute function wait_here();
"""
"""A change of the document `a` waits until the lock 77 is free."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that these tests may stop, and on which they may do as they like."""
    with private_server() as server:
        yield server


async def test_a_refused_connection_names_the_place_and_not_the_password(
    unused_tcp_port: int,
) -> None:
    store = PostgresStore(f"postgresql://me:s3cret@127.0.0.1:{unused_tcp_port}/relay")
    for _ in range(2):
        with pytest.raises(StoreUnavailable) as caught:
            await store.get("s")
        assert f"postgresql://me@127.0.0.1:{unused_tcp_port}/relay" in str(caught.value)
        assert "s3cret" not in f"{caught.value} {caught.value.__cause__!r}"
    await store.close()


async def test_a_database_that_does_not_exist_is_unavailable(postgres_server_url: str) -> None:
    path = urlsplit(postgres_server_url).path
    store = PostgresStore(postgres_server_url.replace(path, "/nowhere", 1))
    with pytest.raises(StoreUnavailable, match='"nowhere" does not exist'):
        await store.open()


async def test_a_stopped_server_is_unavailable_until_it_restarts(server: Server) -> None:
    async with PostgresStore(server.url) as store:
        await store.create(NewSession(id="s", agent="a"))
        await asyncio.to_thread(server.stop)
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await store.get("s")
            with pytest.raises(StoreUnavailable):
                await store.create(NewSession(id="t", agent="a"))
        await asyncio.to_thread(server.start)
        assert (await store.get("s")).id == "s"
        await store.create(NewSession(id="t", agent="a"))
        await asyncio.to_thread(server.crash)
        with pytest.raises(StoreUnavailable):
            await store.get("s")
        await asyncio.to_thread(server.start)
        assert (await store.get("t")).id == "t"


async def test_terminated_connections_are_replaced(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    await asyncio.gather(
        *(postgres_store.create(NewSession(id=f"s{n}", agent="a")) for n in range(5))
    )
    assert await terminate(postgres_url) >= 1
    rows = await asyncio.gather(*(postgres_store.get(f"s{n}") for n in range(5)))
    assert [row.id for row in rows] == ["s0", "s1", "s2", "s3", "s4"]


async def test_a_read_is_repeated_after_a_lost_connection(far: PostgresStore, proxy: Proxy) -> None:
    await far.create(NewSession(id="s", agent="a"))
    proxy.strike("lose_answer")
    assert (await far.get("s")).id == "s"
    assert proxy.struck.is_set()


async def test_a_write_without_a_key_is_not_repeated_after_a_lost_connection(
    far: PostgresStore, proxy: Proxy
) -> None:
    await far.put_messages([QueuePut(queue="q", body=1)])
    proxy.strike("lose_answer")
    with pytest.raises(StoreUnavailable, match="was lost"):
        await far.put_messages([QueuePut(queue="q", body=2)])
    assert await far.queue_depth("q") == 2


async def test_a_server_without_free_connections_is_unavailable(server: Server) -> None:
    await execute(f"{server.url}&schema=public", "create role small login connection limit 1")
    await execute(f"{server.url}&schema=public", "grant create on database postgres to small")
    url = server.url.replace("postgres@", "small@") + "&schema=small"
    async with PostgresStore(url) as store:
        with pytest.raises(StoreUnavailable, match="too many connections"):
            await PostgresStore(url).open()
        assert await store.queue_depth("q") == 0


async def test_a_database_with_a_limited_encoding_is_refused(server: Server) -> None:
    create = "create database latin encoding 'LATIN1' locale 'C' template template0"
    await execute(f"{server.url}&schema=public", create)
    with pytest.raises(UserError, match="encoding LATIN1"):
        await PostgresStore(server.url.replace("/postgres?", "/latin?")).open()


async def test_a_role_without_permissions_is_reported(server: Server) -> None:
    await execute(f"{server.url}&schema=public", "create role guest login")
    url = server.url.replace("postgres@", "guest@")
    with pytest.raises(UserError, match="permission denied"):
        await PostgresStore(url, schema="new").open()
    async with PostgresStore(server.url, schema="old"):
        with pytest.raises(UserError, match="the database role may not use"):
            await PostgresStore(url, schema="old").open()


async def test_a_database_deadlock_is_resolved_by_a_retry(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    first, second = (DocumentWrite(collection="c", key=key, body=1) for key in "ab")
    await postgres_store.write_documents([first, second])
    rival, gate = await connect(postgres_url), await connect(postgres_url)
    await gate.execute(GATE)
    # Who waits last looks for the deadlock and is undone: the store, which is held up until then.
    await rival.execute("set deadlock_timeout = '1h'")
    async with rival.transaction():
        await rival.execute("update documents set body = '2' where key = 'b'")
        async with gate.transaction():
            await gate.execute("select pg_advisory_xact_lock(77)")
            writing = asyncio.create_task(postgres_store.write_documents([first, second]))
            blocked = await until_blocked(postgres_url)
            waiting = asyncio.create_task(
                rival.execute("update documents set body = '2' where key = 'a'")
            )
            await until_waited_for(blocked, postgres_url)
        await waiting
    await writing
    await rival.close()
    await gate.close()
    versions = [each.version for each in await postgres_store.list_documents("c")]
    assert versions == [2, 2]


async def test_an_invalid_value_is_a_user_error(postgres_store: PostgresStore) -> None:
    with pytest.raises(UserError, match="cannot be stored"):
        await postgres_store.put_messages([QueuePut(queue="q", body=1, priority=2**70)])
    with pytest.raises(UserError, match="cannot be stored"):
        await postgres_store.create(NewSession(id="".join(map(str, range(5000))), agent="a"))


async def test_a_full_disk_is_reported_as_unavailable() -> None:
    error = translated(
        asyncpg.DiskFullError("could not extend file: No space left on device"),
        "postgresql://db/app",
        sent=True,
    )
    assert isinstance(error, StoreUnavailable)
    assert str(error) == (
        "the disk of postgresql://db/app is full: make room and try again; what was acknowledged "
        "is safe (could not extend file: No space left on device)"
    )


async def test_a_closed_store_refuses_until_it_is_opened(postgres_store: PostgresStore) -> None:
    await postgres_store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await postgres_store.get("s")
    await postgres_store.open()
    assert await postgres_store.queue_depth("q") == 0


async def test_a_store_opens_with_its_first_use(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await asyncio.gather(*(store.queue_depth("q") for _ in range(4)))
    await store.close()


async def test_awkward_names_are_stored_and_found(postgres_store: PostgresStore) -> None:
    name = "a\x00b \ud83d \x10 訳"
    await postgres_store.create(NewSession(id="s", agent=name, user_id=name))
    claim, row = await postgres_store.claim("s", owner=name, lease_s=30)
    assert (row.agent, row.user_id, row.owner) == (name, name, name)
    await postgres_store.release(claim)
    await postgres_store.write_documents([DocumentWrite(collection=name, key=name, body=1)])
    assert [each.key for each in await postgres_store.list_documents(name, prefix="a\x00")] == [
        name
    ]
    await postgres_store.put_messages([QueuePut(queue=name, body=1, dedup_key=name)])
    (message,) = await postgres_store.take_messages(name, owner=name, lease_s=30)
    assert (message.queue, message.owner) == (name, name)


def test_a_missing_driver_is_reported_with_its_extra() -> None:
    program = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "import inspect, ekiden\n"
        "assert len(inspect.getmembers(ekiden)) > 200\n"
        "from ekiden import *\n"
        "try:\n    PostgresStore('postgresql://db')\n"
        "except UserError as exc: print(exc)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'ekiden[postgres]'" in done.stdout, done.stderr


async def test_a_process_that_is_paused_amid_a_transaction_does_not_keep_its_locks(
    postgres_store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.storage.postgres.database.TRANSACTION_S", 0.5)
    document = DocumentWrite(collection="c", key="k", body=1)
    await postgres_store.write_documents([document])
    is_locked, awake = asyncio.Event(), asyncio.Event()

    async def work(connection: Any) -> None:
        await connection.execute("update documents set body = '2'")
        # The first half of a statement that the server does not know: it waits for the rest.
        connection._con._transport.write(_asking_to_prepare("select 1"))
        is_locked.set()
        await awake.wait()

    pausing = asyncio.create_task(postgres_store._database.transact(work))
    await is_locked.wait()
    async with PostgresStore(postgres_url) as other, asyncio.timeout(30):
        await other.write_documents([replace(document, body=3)])
    awake.set()
    with pytest.raises(ConnectionLost):
        await pausing
    found = await postgres_store.get_document("c", "k")
    assert found is not None
    assert found.body == 3


def _asking_to_prepare(sql: str) -> bytes:
    """The messages Parse and Flush."""
    body = b"half\0" + sql.encode() + b"\0\0\0"
    return b"P" + (len(body) + 4).to_bytes(4, "big") + body + b"H\0\0\0\4"
