"""A process that opens a store with given migrations, and is killed at one of its statements:
``python -m tests.support.migrating_child URL MIGRATIONS STATEMENT``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

import apsw

from ekiden.storage.copying import Migration
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.sqlite import SqliteStore


def kill_at(statement: int) -> None:
    """Kill this process when SQLite begins its statement with this number; 0: never."""
    begun = 0

    def count(event: object) -> None:
        nonlocal begun
        begun += 1
        if begun == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    apsw.connection_hooks.append(lambda db: db.trace_v2(apsw.SQLITE_TRACE_STMT, count))


async def open_once(url: str, migrations: list[Migration]) -> None:
    """Open the store, and close it."""
    if url.startswith("postgresql://"):
        async with PostgresStore(url, migrations=migrations) as store:
            await store.info()
    else:
        async with SqliteStore(url, migrations=migrations) as file:
            await file.info()


if __name__ == "__main__":
    kill_at(int(sys.argv[3]))
    given = [
        Migration(number=each[0], name=each[1], sql=each[2]) for each in json.loads(sys.argv[2])
    ]
    asyncio.run(open_once(sys.argv[1], given))
