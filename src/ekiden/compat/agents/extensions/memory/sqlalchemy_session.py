"""Sessions in every database that SQLAlchemy knows."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ekiden.compat.agents.memory.session import SessionABC
from ekiden.compat.agents.memory.session_settings import (
    SessionSettings,
    coerce_session_settings,
    resolve_session_limit,
)
from ekiden.compat.agents.memory.sqlite_session import read_rows


class SQLAlchemySession(SessionABC):
    """A conversation in two tables. Needs `sqlalchemy[asyncio]` and a driver."""

    def __init__(
        self,
        session_id: str,
        *,
        engine: Any,
        create_tables: bool = False,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: SessionSettings | dict[str, Any] | None = None,
        ensure_ascii: bool = True,
    ) -> None:
        import sqlalchemy as sa

        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or {})
        self._engine = engine
        self._has_to_create = create_tables
        self._ensure_ascii = ensure_ascii
        self._creating = asyncio.Lock()
        self._metadata = sa.MetaData()
        now = sa.text("CURRENT_TIMESTAMP")
        self._sessions = sa.Table(
            sessions_table,
            self._metadata,
            sa.Column("session_id", sa.String, primary_key=True),
            sa.Column("created_at", sa.TIMESTAMP, server_default=now, nullable=False),
            sa.Column("updated_at", sa.TIMESTAMP, server_default=now, nullable=False),
        )
        self._messages = sa.Table(
            messages_table,
            self._metadata,
            sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
            sa.Column(
                "session_id",
                sa.String,
                sa.ForeignKey(f"{sessions_table}.session_id", ondelete="CASCADE"),
                nullable=False,
            ),
            sa.Column("message_data", sa.Text, nullable=False),
            sa.Column("created_at", sa.TIMESTAMP, server_default=now, nullable=False),
            sa.Index(f"idx_{messages_table}_session_time", "session_id", "created_at"),
        )

    @classmethod
    def from_url(
        cls,
        session_id: str,
        *,
        url: str,
        engine_kwargs: dict[str, Any] | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> SQLAlchemySession:
        """Connect to an address."""
        from sqlalchemy.ext.asyncio import create_async_engine

        engine = create_async_engine(url, **(engine_kwargs or {}))
        return cls(session_id, engine=engine, session_settings=session_settings, **kwargs)

    @property
    def engine(self) -> Any:
        """The engine; call its `dispose` at the end."""
        return self._engine

    async def _ready(self) -> None:
        if self._has_to_create:
            async with self._creating:
                async with self._engine.begin() as connection:
                    await connection.run_sync(self._metadata.create_all)
                self._has_to_create = False

    async def get_items(self, limit: int | None = None) -> list[Any]:
        import sqlalchemy as sa

        await self._ready()
        most = resolve_session_limit(limit, self.session_settings)
        table = self._messages
        query = sa.select(table.c.message_data).where(table.c.session_id == self.session_id)
        query = query.order_by(table.c.id.desc())
        if most is not None:
            query = query.limit(max(most, 0))
        async with self._engine.connect() as connection:
            rows = [row[0] for row in await connection.execute(query)]
        return read_rows(rows[::-1])

    async def add_items(self, items: list[Any]) -> None:
        import sqlalchemy as sa

        if not items:
            return
        await self._ready()
        sessions, mine = self._sessions, self._sessions.c.session_id == self.session_id
        rows = [
            {
                "session_id": self.session_id,
                "message_data": json.dumps(
                    item, ensure_ascii=self._ensure_ascii, separators=(",", ":")
                ),
            }
            for item in items
        ]
        async with self._engine.begin() as connection:
            known = await connection.execute(sa.select(sessions.c.session_id).where(mine))
            if known.first() is None:
                await connection.execute(sa.insert(sessions).values(session_id=self.session_id))
            await connection.execute(sa.insert(self._messages), rows)
            changed = sa.update(sessions).where(mine).values(updated_at=sa.func.now())
            await connection.execute(changed)

    async def pop_item(self) -> Any:
        import sqlalchemy as sa

        await self._ready()
        table = self._messages
        newest = sa.select(table.c.id, table.c.message_data)
        newest = newest.where(table.c.session_id == self.session_id)
        newest = newest.order_by(table.c.id.desc()).limit(1)
        async with self._engine.begin() as connection:
            found = (await connection.execute(newest)).first()
            if found is None:
                return None
            await connection.execute(sa.delete(table).where(table.c.id == found[0]))
        items = read_rows([found[1]])
        return items[0] if items else None

    async def clear_session(self) -> None:
        import sqlalchemy as sa

        await self._ready()
        async with self._engine.begin() as connection:
            for table in (self._messages, self._sessions):
                gone = sa.delete(table).where(table.c.session_id == self.session_id)
                await connection.execute(gone)
