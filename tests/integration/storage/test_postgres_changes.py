"""Hints between processes."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

import pytest

from ekiden.storage.base import DocumentWrite, NewSession
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.postgres.address import parse_address
from ekiden.storage.postgres.changes import PAUSE_S
from tests.support.sql import connect, execute, terminate

LISTENERS = """
select pid from pg_stat_activity
where application_name = $1 and query ilike 'listen%'"""


async def listening(store: PostgresStore, url: str) -> list[int]:
    """Wait until the store listens, which ends its first wait early."""
    async with asyncio.timeout(60):
        while True:
            await store.wait_for_change(5)
            name = f"ekiden:{parse_address(url).schema}"
            found = [row["pid"] for row in await execute(url, LISTENERS, name)]
            if found:
                return found


async def test_a_change_wakes_waiters_in_other_processes(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    async with PostgresStore(postgres_url) as other, asyncio.timeout(60):
        await listening(other, postgres_url)
        waiting = [asyncio.create_task(other.wait_for_change(60)) for _ in range(3)]
        await asyncio.sleep(0)
        await postgres_store.create(NewSession(id="s", agent="a", status="ready"))
        await asyncio.gather(*waiting)


async def test_a_change_just_before_closing_is_still_notified(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    async with asyncio.timeout(60):
        await listening(postgres_store, postgres_url)
        waiting = asyncio.create_task(postgres_store.wait_for_change(60))
        async with PostgresStore(postgres_url) as other:
            await other.create(NewSession(id="s", agent="a"))
        await waiting


async def test_many_changes_send_few_notifications(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    heard: list[str] = []

    def hear(_connection: Any, _pid: int, _channel: str, payload: str) -> None:
        heard.append(payload)

    ear = await connect(postgres_url)
    await ear.add_listener(f"ekiden:{parse_address(postgres_url).schema}", hear)
    begin = time.monotonic()
    await asyncio.gather(
        *(postgres_store.create(NewSession(id=f"s{n}", agent="a")) for n in range(100))
    )
    await postgres_store.close()
    passed = time.monotonic() - begin
    await ear.fetch("select 1")
    assert 1 <= len(heard) <= passed / PAUSE_S + 1
    await ear.close()


async def test_a_listener_reconnects_after_a_lost_connection(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    before = await listening(postgres_store, postgres_url)
    await terminate(postgres_url)
    after = await listening(postgres_store, postgres_url)
    assert set(before).isdisjoint(after)


@pytest.mark.parametrize("timeout_s", [0.0, 0.05])
async def test_without_a_server_waiting_ends_at_its_timeout(
    unused_tcp_port: int, timeout_s: float
) -> None:
    store = PostgresStore(f"postgresql://me@127.0.0.1:{unused_tcp_port}/relay")
    async with asyncio.timeout(60):
        await store.wait_for_change(timeout_s)
        await store.close()


class Ear:
    """A process that waits for ready sessions of its agents."""

    def __init__(self, url: str, *agents: str, has_room: bool = True) -> None:
        self.store = PostgresStore(url)
        self.told = asyncio.Event()
        self.agents = agents
        self._has_room = has_room
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._wait())
        await self.told.wait()  # It listens.
        self.told.clear()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})
        await self.store.close()

    async def _wait(self) -> None:
        while True:
            await self.store.wait_for_ready(self.agents, 600, has_room=lambda: self._has_room)
            self.told.set()


@asynccontextmanager
async def hint_of(url: str) -> AsyncIterator[None]:
    """At the end, wait until the server has sent a hint.

    A store's `wait_for_change` also ends for other reasons, such as a connection that it made.
    """
    sent = asyncio.Event()
    connection = await connect(url)
    channel = f"ekiden:{parse_address(url).schema}"
    await connection.add_listener(channel, lambda *_: sent.set())
    yield
    await sent.wait()
    await connection.close()


async def notified(ears: list[Ear]) -> list[Ear]:
    """Those who were told of a session, of whom the first took it, once everybody else could have
    been told."""
    waiting = [asyncio.create_task(ear.told.wait()) for ear in ears]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    first = next(ear for ear in ears if ear.told.is_set())
    assert await first.store.claim_next(owner="w", lease_s=60, agents=first.agents) is not None
    heard = [asyncio.create_task(ear.store.wait_for_change(10)) for ear in ears]
    await asyncio.sleep(0)
    await ears[0].store.write_documents([DocumentWrite(collection="c", key="k", body=1)])
    await asyncio.gather(*heard)
    for each in waiting:
        each.cancel()
    return [ear for ear in ears if ear.told.is_set()]


async def test_a_ready_session_wakes_one_worker_of_its_agent(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    ears = [Ear(postgres_url, "a", "b") for _ in range(3)] + [Ear(postgres_url, "c")]
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        for ear in ears:
            await stack.enter_async_context(ear)
        # The hint of this one is sent first: two hints before the claim may name two.
        async with hint_of(postgres_url):
            await postgres_store.create(NewSession(id="idle", agent="a"))
        await postgres_store.create(NewSession(id="s", agent="b", status="ready"))
        [one] = await notified(ears)
        assert one in ears[:3]
        one.told.clear()
        await postgres_store.create(NewSession(id="t", agent="c", status="ready"))
        assert await notified(ears) == ears[3:]


async def test_a_woken_worker_without_capacity_wakes_another(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    full = [Ear(postgres_url, "a", has_room=False) for _ in range(3)]
    free = Ear(postgres_url, "a")
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        for ear in [*full, free]:
            await stack.enter_async_context(ear)
        for number in range(8):
            new = NewSession(id=f"s{number}", agent="a", status="ready")
            await postgres_store.create(new)
            await free.told.wait()
            free.told.clear()
            claimed = await free.store.claim_next(owner="w", lease_s=60, agents=["a"])
            assert claimed is not None
        assert not any(ear.told.is_set() for ear in full)


async def test_waiting_for_a_collection_ignores_other_changes(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    async with PostgresStore(postgres_url) as other, asyncio.timeout(60):
        await listening(other, postgres_url)
        await other.wait_for_change(0, about={"d"})
        any_, about = (
            asyncio.create_task(other.wait_for_change(60, about=topics)) for topics in (None, {"d"})
        )
        await asyncio.sleep(0)
        await postgres_store.write_documents([DocumentWrite(collection="c", key="k", body=1)])
        await any_
        assert not about.done()
        await postgres_store.write_documents([DocumentWrite(collection="d", key="k", body=1)])
        await about


async def test_a_waiting_worker_checks_again_when_a_lease_expires(
    postgres_store: PostgresStore,
) -> None:
    store = postgres_store
    new = NewSession(id="s", agent="a", status="ready")
    await store.claim("s", owner="dead", lease_s=0.4, create=new)
    async with asyncio.timeout(60):
        while await store.claim_next(owner="w", lease_s=60, agents=["a"]) is None:
            await store.wait_for_ready(["a"], 600, has_room=lambda: True)


async def test_waiting_for_other_agents_leaves_no_connection_open(postgres_url: str) -> None:
    listening = "select count(*) as many from pg_stat_activity where query ilike $1"
    store = PostgresStore(postgres_url)
    async with store:
        waits = [asyncio.create_task(store.wait_for_change(60))]
        for agent in ("a", "b", "c"):
            await asyncio.sleep(0)
            waits.append(
                asyncio.create_task(store.wait_for_ready([agent], 60, has_room=lambda: True))
            )
        async with asyncio.timeout(60):
            while not (await execute(postgres_url, listening, _listen(postgres_url)))[0]["many"]:
                pass
        for wait in waits:
            wait.cancel()
        await asyncio.wait(waits)
    assert (await execute(postgres_url, listening, _listen(postgres_url)))[0]["many"] == 0


def _listen(url: str) -> str:
    return f'listen "ekiden:{parse_address(url).schema}"%'


async def test_a_session_not_claimed_by_the_woken_worker_wakes_another(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    ears = [Ear(postgres_url, "a") for _ in range(2)]
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        for ear in ears:
            await stack.enter_async_context(ear)
        await listening(postgres_store, postgres_url)
        await postgres_store.create(NewSession(id="s", agent="a", status="ready"))
        waiting = [asyncio.create_task(ear.told.wait()) for ear in ears]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        dead = next(ear for ear in ears if ear.told.is_set())
        await dead.store.close()
        await asyncio.gather(*waiting)
