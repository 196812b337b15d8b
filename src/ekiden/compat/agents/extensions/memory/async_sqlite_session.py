"""The same as `SQLiteSession`, under the name of the SDK's other implementation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ekiden.compat.agents.memory.session_settings import SessionSettings
from ekiden.compat.agents.memory.sqlite_session import SQLiteSession


class AsyncSQLiteSession(SQLiteSession):
    """A conversation in an SQLite file, with an async `close`."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        super().__init__(session_id, db_path, sessions_table, messages_table, session_settings)

    async def close(self) -> None:  # type: ignore[override]
        """Close the file."""
        await asyncio.to_thread(super().close)
