"""Sessions in Redis."""

from __future__ import annotations

import json
import time
from typing import Any

from ekiden.compat.agents.memory.session import SessionABC
from ekiden.compat.agents.memory.session_settings import (
    SessionSettings,
    coerce_session_settings,
    resolve_session_limit,
)
from ekiden.compat.agents.memory.sqlite_session import read_rows


class RedisSession(SessionABC):
    """A conversation as a list in Redis. Needs the package `redis`."""

    def __init__(
        self,
        session_id: str,
        *,
        redis_client: Any,
        key_prefix: str = "agents:session",
        ttl: int | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or {})
        self._redis = redis_client
        self._ttl = ttl
        self._owns_client = False
        self._session_key = f"{key_prefix}:{session_id}"
        self._messages_key = f"{self._session_key}:messages"
        self._counter_key = f"{self._session_key}:counter"

    @classmethod
    def from_url(
        cls,
        session_id: str,
        *,
        url: str,
        redis_kwargs: dict[str, Any] | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> RedisSession:
        """Connect to an address; `close` closes the connection."""
        from redis.asyncio import Redis

        client = Redis.from_url(url, **(redis_kwargs or {}))
        session = cls(session_id, redis_client=client, session_settings=session_settings, **kwargs)
        session._owns_client = True
        return session

    async def get_items(self, limit: int | None = None) -> list[Any]:
        most = resolve_session_limit(limit, self.session_settings)
        if most is not None and most <= 0:
            return []
        rows = await self._redis.lrange(self._messages_key, 0 if most is None else -most, -1)
        return read_rows([each.decode() if isinstance(each, bytes) else each for each in rows])

    async def add_items(self, items: list[Any]) -> None:
        if not items:
            return
        now = str(int(time.time()))
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hsetnx(self._session_key, "created_at", now)
            pipe.hset(self._session_key, mapping={"session_id": self.session_id, "updated_at": now})
            pipe.rpush(self._messages_key, *(json.dumps(each) for each in items))
            if self._ttl is not None:
                pipe.expire(self._session_key, self._ttl)
                pipe.expire(self._messages_key, self._ttl)
            await pipe.execute()

    async def pop_item(self) -> Any:
        found = await self._redis.rpop(self._messages_key)
        items = read_rows([found.decode() if isinstance(found, bytes) else found] if found else [])
        return items[0] if items else None

    async def clear_session(self) -> None:
        await self._redis.delete(self._session_key, self._messages_key, self._counter_key)

    async def close(self) -> None:
        """Close the connection that `from_url` opened."""
        if self._owns_client:
            await self._redis.aclose()

    async def ping(self) -> bool:
        """Whether Redis answers."""
        try:
            await self._redis.ping()
        except Exception:
            return False
        return True
