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

    async def expire_leases_of(self, pid: int) -> None:
        """Let all leases of a process have run out."""
        ...


class PostgresDatabase:
    """A schema of a PostgreSQL database."""

    name: DatabaseName = "postgres"
    _EXPIRE = (
        "update sessions set lease_until = clock_timestamp() - interval '1 second', "
        "lapses_at = '-infinity'"
    )

    def __init__(self, url: str) -> None:
        self.url = url

    def open(self) -> Store:
        return open_store(self.url)

    async def expire_lease(self, session_id: str) -> None:
        await execute(
            self.url,
            f"{self._EXPIRE} where id = $1 and owner is not null",
            session_id,
        )

    async def expire_leases_of(self, pid: int) -> None:
        await execute(self.url, f"{self._EXPIRE} where owner like $1", f"%-{pid}-%")


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
        self._expire("id = ? and owner is not null", session_id)

    async def expire_leases_of(self, pid: int) -> None:
        self._expire("owner like ?", f"%-{pid}-%")

    def _expire(self, condition: str, value: str) -> None:
        db = apsw.Connection(str(self._file))
        try:
            db.set_busy_timeout(10_000)
            db.execute(f"update sessions set lease_until = 0 where {condition}", (value,))
        finally:
            db.close()
