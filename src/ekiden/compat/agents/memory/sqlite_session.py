"""Sessions in an SQLite file, in the SDK's own tables."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import apsw

from ekiden.compat.agents.memory.session import SessionABC
from ekiden.compat.agents.memory.session_settings import (
    SessionSettings,
    coerce_session_settings,
    resolve_session_limit,
)

T = TypeVar("T")


class SQLiteSession(SessionABC):
    """A conversation in a file, or in memory. With ``:memory:`` the conversation is lost when the
    object is closed.

    Each call is one durable transaction. This class can open files of the SDK, and the SDK can open
    files of this class.
    """

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        for table in (sessions_table, messages_table):
            if not table.isidentifier():
                raise ValueError(f"{table!r} is no name of a table: letters, digits and _")
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or {})
        self.db_path = db_path
        self.sessions_table = sessions_table
        self.messages_table = messages_table
        self._lock = threading.Lock()
        self._db: apsw.Connection | None = self._opened()

    def _opened(self) -> apsw.Connection:
        db = apsw.Connection(str(self.db_path))
        db.set_busy_timeout(10_000)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA foreign_keys=ON")
        with db:
            for statement in self._schema():
                db.execute(statement)
        return db

    def _schema(self) -> Iterable[str]:
        yield f"""CREATE TABLE IF NOT EXISTS {self.sessions_table} (
            session_id TEXT PRIMARY KEY,
            created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
            updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)"""
        yield f"""CREATE TABLE IF NOT EXISTS {self.messages_table} (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session_id TEXT NOT NULL REFERENCES {self.sessions_table}(session_id) ON DELETE CASCADE,
            message_data TEXT NOT NULL,
            created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)"""
        yield f"""CREATE INDEX IF NOT EXISTS idx_{self.messages_table}_session_id
            ON {self.messages_table} (session_id, id)"""

    async def in_transaction(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run a function with the database in a thread, as one transaction."""

        def locked() -> T:
            with self._lock:
                if self._db is None:
                    raise RuntimeError(f"{type(self).__name__} is closed")
                with self._db:
                    done = work(self._db)
                return done

        return await asyncio.to_thread(locked)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        most = resolve_session_limit(limit, self.session_settings)

        def read(db: apsw.Connection) -> list[Any]:
            rows = db.execute(
                f"SELECT message_data FROM {self.messages_table} WHERE session_id = ? "
                "ORDER BY id DESC LIMIT ?",
                (self.session_id, -1 if most is None else max(most, 0)),
            )
            return read_rows([str(row[0]) for row in rows][::-1])

        return await self.in_transaction(read)

    async def add_items(self, items: list[Any]) -> None:
        if items:
            await self.in_transaction(lambda db: self._insert(db, items))

    def _insert(self, db: apsw.Connection, items: list[Any]) -> list[int]:
        """Store items; gives their row ids."""
        mine = (self.session_id,)
        db.execute(f"INSERT OR IGNORE INTO {self.sessions_table} (session_id) VALUES (?)", mine)
        added = []
        for item in items:
            db.execute(
                f"INSERT INTO {self.messages_table} (session_id, message_data) VALUES (?, ?)",
                (self.session_id, json.dumps(item)),
            )
            added.append(db.last_insert_rowid())
        db.execute(
            f"UPDATE {self.sessions_table} SET updated_at = CURRENT_TIMESTAMP WHERE session_id = ?",
            mine,
        )
        return added

    async def pop_item(self) -> Any:
        def pop(db: apsw.Connection) -> Any:
            for (data,) in db.execute(
                f"DELETE FROM {self.messages_table} WHERE id = (SELECT MAX(id) FROM "
                f"{self.messages_table} WHERE session_id = ?) RETURNING message_data",
                (self.session_id,),
            ):
                found = read_rows([str(data)])
                return found[0] if found else None
            return None

        return await self.in_transaction(pop)

    async def clear_session(self) -> None:
        def clear(db: apsw.Connection) -> None:
            for table in (self.messages_table, self.sessions_table):
                db.execute(f"DELETE FROM {table} WHERE session_id = ?", (self.session_id,))

        await self.in_transaction(clear)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None


def read_rows(rows: list[str]) -> list[Any]:
    """Items of stored texts; a text that is no JSON is left out."""
    items = []
    for data in rows:
        try:
            items.append(json.loads(data))
        except json.JSONDecodeError:
            continue
    return items
