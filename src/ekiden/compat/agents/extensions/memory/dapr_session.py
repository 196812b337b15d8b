"""Sessions in a state store of Dapr."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal, TypeAlias

from ekiden.compat.agents.memory.session import SessionABC
from ekiden.compat.agents.memory.session_settings import (
    SessionSettings,
    coerce_session_settings,
    resolve_session_limit,
)

ConsistencyLevel: TypeAlias = Literal["eventual", "strong"]
DAPR_CONSISTENCY_EVENTUAL: ConsistencyLevel = "eventual"
DAPR_CONSISTENCY_STRONG: ConsistencyLevel = "strong"
_ATTEMPTS = 5


class DaprSession(SessionABC):
    """A conversation in one value of a Dapr state store. Needs the package `dapr`."""

    def __init__(
        self,
        session_id: str,
        *,
        state_store_name: str,
        dapr_client: Any,
        ttl: int | None = None,
        consistency: ConsistencyLevel = DAPR_CONSISTENCY_EVENTUAL,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or {})
        self._store = state_store_name
        self._client = dapr_client
        self._ttl = ttl
        self._consistency = consistency
        self._owns_client = False
        self._key = f"{session_id}:messages"
        self._turn = asyncio.Lock()

    @classmethod
    def from_address(
        cls,
        session_id: str,
        *,
        state_store_name: str,
        dapr_address: str = "localhost:50001",
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> DaprSession:
        """Connect to a sidecar; `close` closes the connection."""
        from dapr.aio.clients import DaprClient

        session = cls(
            session_id,
            state_store_name=state_store_name,
            dapr_client=DaprClient(address=dapr_address),
            session_settings=session_settings,
            **kwargs,
        )
        session._owns_client = True
        return session

    def _metadata(self, *, writing: bool) -> dict[str, str]:
        metadata: dict[str, str] = {"consistency": self._consistency}
        if writing and self._ttl is not None:
            metadata["ttlInSeconds"] = str(self._ttl)
        return metadata

    async def _read(self) -> tuple[list[Any], str | None]:
        """The items, and the mark of the version that was read."""
        found = await self._client.get_state(
            store_name=self._store, key=self._key, state_metadata=self._metadata(writing=False)
        )
        try:
            items = json.loads(found.data) if found.data else []
        except (json.JSONDecodeError, UnicodeDecodeError):
            items = []
        return items, found.etag or None

    async def _change(self, change: Any) -> Any:
        """Read, change, write; again if somebody else wrote meanwhile."""
        async with self._turn:
            for attempt in range(_ATTEMPTS):
                items, etag = await self._read()
                given = change(items)
                try:
                    await self._client.save_state(
                        store_name=self._store,
                        key=self._key,
                        value=json.dumps(items),
                        etag=etag,
                        state_metadata=self._metadata(writing=True),
                    )
                except Exception as error:
                    if attempt + 1 == _ATTEMPTS or "etag" not in str(error).lower():
                        raise
                    await asyncio.sleep(0.05 * 2**attempt)
                else:
                    return given
        return None

    async def get_items(self, limit: int | None = None) -> list[Any]:
        most = resolve_session_limit(limit, self.session_settings)
        if most is not None and most <= 0:
            return []
        items, _etag = await self._read()
        return items if most is None else items[-most:]

    async def add_items(self, items: list[Any]) -> None:
        if items:
            await self._change(lambda stored: stored.extend(items))

    async def pop_item(self) -> Any:
        return await self._change(lambda stored: stored.pop() if stored else None)

    async def clear_session(self) -> None:
        async with self._turn:
            await self._client.delete_state(
                store_name=self._store, key=self._key, state_metadata=self._metadata(writing=False)
            )

    async def close(self) -> None:
        """Close the connection that `from_address` opened."""
        if self._owns_client:
            await self._client.close()

    async def ping(self) -> bool:
        """Whether the sidecar answers."""
        try:
            await self._client.get_state(store_name=self._store, key="__ping__")
        except Exception:
            return False
        return True
