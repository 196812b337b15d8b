"""The databases that processes of a test share."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import apsw

from ekiden.app.stores import open_store
from ekiden.storage.base import Store
from tests.faults.scenarios import DatabaseName
from tests.support.sql import execute


class Database(Protocol):
    """A store's place, which outlives every process that uses it."""

    name: DatabaseName

    @property
    def url(self) -> str:
        """As `open_store` takes it."""
        ...

    def open(self) -> Store:
        """A handle of this process's own; ``async with`` opens it."""
        ...

    async def expire_lease(self, session_id: str) -> None:
        """Let the session's lease, if there is one, have run out."""
        ...


class PostgresDatabase:
    """A schema of a PostgreSQL database."""

    name: DatabaseName = "postgres"

    def __init__(self, url: str) -> None:
        self.url = url

    def open(self) -> Store:
        return open_store(self.url)

    async def expire_lease(self, session_id: str) -> None:
        await execute(
            self.url,
            "update sessions set lease_until = clock_timestamp() - interval '1 second' "
            "where id = $1 and owner is not null",
            session_id,
        )


class SqliteDatabase:
    """A file."""

    name: DatabaseName = "sqlite"

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def url(self) -> str:
        return str(self._file)

    def open(self) -> Store:
        return open_store(self.url)

    async def expire_lease(self, session_id: str) -> None:
        db = apsw.Connection(str(self._file))
        try:
            db.set_busy_timeout(10_000)
            db.execute(
                "update sessions set lease_until = 0 where id = ? and owner is not null",
                (session_id,),
            )
        finally:
            db.close()
