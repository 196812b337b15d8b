"""Sessions in MongoDB."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from ekiden.compat.agents.memory.session import SessionABC
from ekiden.compat.agents.memory.session_settings import (
    SessionSettings,
    coerce_session_settings,
    resolve_session_limit,
)
from ekiden.compat.agents.memory.sqlite_session import read_rows


class MongoDBSession(SessionABC):
    """A conversation as documents in MongoDB. Needs the package `pymongo`."""

    def __init__(
        self,
        session_id: str,
        *,
        client: Any,
        database: str = "agents",
        sessions_collection: str = "agent_sessions",
        messages_collection: str = "agent_messages",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or {})
        self._client = client
        self._owns_client = False
        self._sessions = client[database][sessions_collection]
        self._messages = client[database][messages_collection]

    @classmethod
    def from_uri(
        cls,
        session_id: str,
        *,
        uri: str,
        database: str = "agents",
        client_kwargs: dict[str, Any] | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> MongoDBSession:
        """Connect to an address; `close` closes the connection."""
        from pymongo.asynchronous.mongo_client import AsyncMongoClient

        client: Any = AsyncMongoClient(uri, **(client_kwargs or {}))
        session = cls(
            session_id,
            client=client,
            database=database,
            session_settings=session_settings,
            **kwargs,
        )
        session._owns_client = True
        return session

    async def get_items(self, limit: int | None = None) -> list[Any]:
        most = resolve_session_limit(limit, self.session_settings)
        if most is not None and most <= 0:
            return []
        cursor = self._messages.find({"session_id": self.session_id}).sort("seq", -1)
        rows = await (cursor if most is None else cursor.limit(most)).to_list()
        return read_rows([each["message_data"] for each in rows][::-1])

    async def add_items(self, items: list[Any]) -> None:
        if not items:
            return
        now = datetime.now(UTC)
        counted = await self._sessions.find_one_and_update(
            {"session_id": self.session_id},
            {
                "$setOnInsert": {"created_at": now},
                "$set": {"updated_at": now},
                "$inc": {"_seq": len(items)},
            },
            upsert=True,
            return_document=True,
        )
        first = counted["_seq"] - len(items)
        await self._messages.insert_many(
            [
                {
                    "session_id": self.session_id,
                    "seq": first + place,
                    "message_data": json.dumps(item),
                }
                for place, item in enumerate(items)
            ]
        )

    async def pop_item(self) -> Any:
        found = await self._messages.find_one_and_delete(
            {"session_id": self.session_id}, sort=[("seq", -1)]
        )
        items = read_rows([found["message_data"]] if found else [])
        return items[0] if items else None

    async def clear_session(self) -> None:
        await self._messages.delete_many({"session_id": self.session_id})
        await self._sessions.delete_one({"session_id": self.session_id})

    async def close(self) -> None:
        """Close the connection that `from_uri` opened."""
        if self._owns_client:
            await self._client.close()

    async def ping(self) -> bool:
        """Whether MongoDB answers."""
        try:
            await self._client.admin.command("ping")
        except Exception:
            return False
        return True
