"""One store, several event loops."""

import asyncio
import gc
import threading

import pytest

from ekiden.core.errors import UserError
from ekiden.storage.base import NewSession
from ekiden.storage.postgres import PostgresStore


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_store_works_in_consecutive_event_loops(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)

    def successive_runs() -> None:
        asyncio.run(store.create(NewSession(id="s", agent="a")))
        row = asyncio.run(store.get("s"))
        assert row.id == "s"
        asyncio.run(store.wait_for_change(0))
        asyncio.run(store.close())
        gc.collect()

    await asyncio.to_thread(successive_runs)


async def test_a_store_refuses_two_event_loops_at_once(postgres_store: PostgresStore) -> None:
    caught: list[Exception] = []

    def other_thread() -> None:
        try:
            asyncio.run(postgres_store.get("s"))
        except Exception as exc:
            caught.append(exc)

    thread = threading.Thread(target=other_thread)
    thread.start()
    await asyncio.to_thread(thread.join)
    assert isinstance(caught[0], UserError)
    assert await postgres_store.queue_depth("q") == 0
