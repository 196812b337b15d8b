"""The databases that processes of a test share."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import apsw

from ekiden.project.stores import open_store
from ekiden.storage.base import Store
from ekiden.storage.sqlite.connection import machine_clock
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

    async def expire_lease(self, session_id: str, *, in_s: float = 0.0) -> None:
        """Let the session's lease, if there is one, run out so soon, or have run out."""
        ...

    async def expire_leases_of(self, pid: int, *, in_s: float = 0.0) -> None:
        """The same for all leases of a process."""
        ...


class PostgresDatabase:
    """A schema of a PostgreSQL database."""

    name: DatabaseName = "postgres"
    _EXPIRE = (
        "update sessions set lease_until = clock_timestamp() + $2 * interval '1 second', "
        "lapses_at = '-infinity'"
    )

    def __init__(self, url: str) -> None:
        self.url = url

    def open(self) -> Store:
        return open_store(self.url)

    async def expire_lease(self, session_id: str, *, in_s: float = 0.0) -> None:
        await execute(
            self.url,
            f"{self._EXPIRE} where id = $1 and owner is not null",
            session_id,
            in_s,
        )

    async def expire_leases_of(self, pid: int, *, in_s: float = 0.0) -> None:
        await execute(self.url, f"{self._EXPIRE} where owner like $1", f"%-{pid}-%", in_s)


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

    async def expire_lease(self, session_id: str, *, in_s: float = 0.0) -> None:
        self._expire("id = ? and owner is not null", session_id, in_s)

    async def expire_leases_of(self, pid: int, *, in_s: float = 0.0) -> None:
        self._expire("owner like ?", f"%-{pid}-%", in_s)

    def _expire(self, condition: str, value: str, in_s: float) -> None:
        until_ms = machine_clock().now_ms() + int(in_s * 1000)
        db = apsw.Connection(str(self._file))
        try:
            db.set_busy_timeout(60_000)
            db.execute(f"update sessions set lease_until = ? where {condition}", (until_ms, value))
        finally:
            db.close()
