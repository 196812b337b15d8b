"""Sessions that OpenAI keeps: the Conversations API."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI, omit

from ekiden.compat.agents.memory.session import SessionABC
from ekiden.compat.agents.memory.session_settings import (
    SessionSettings,
    coerce_session_settings,
    resolve_session_limit,
)
from ekiden.compat.agents.models.openai_provider import default_client

_MOST_AT_ONCE = 20


async def start_openai_conversations_session(openai_client: AsyncOpenAI | None = None) -> str:
    """Begin a conversation at OpenAI; gives its id."""
    client = openai_client or default_client()
    conversation = await client.conversations.create(items=[])
    return conversation.id


class OpenAIConversationsSession(SessionABC):
    """A conversation that OpenAI stores. The first use creates it."""

    def __init__(
        self,
        *,
        conversation_id: str | None = None,
        openai_client: AsyncOpenAI | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self._id = conversation_id
        self.session_settings = coerce_session_settings(session_settings or {})
        self._client = openai_client or default_client()

    @property
    def session_id(self) -> str:
        """The id of the conversation. Raises `ValueError` before the first use."""
        if self._id is None:
            raise ValueError("the conversation has not begun: use the session first")
        return self._id

    @session_id.setter
    def session_id(self, value: str) -> None:
        self._id = value

    async def _get_session_id(self) -> str:
        if self._id is None:
            self._id = await start_openai_conversations_session(self._client)
        return self._id

    async def get_items(self, limit: int | None = None) -> list[Any]:
        most = resolve_session_limit(limit, self.session_settings)
        if most is not None and most <= 0:
            return []
        found: list[Any] = []
        listed = self._client.conversations.items.list(
            conversation_id=await self._get_session_id(),
            order="asc" if most is None else "desc",
            limit=omit if most is None else most,
        )
        async for item in listed:
            found.append(item.model_dump(exclude_unset=True))
            if most is not None and len(found) >= most:
                break
        return found if most is None else found[::-1]

    async def add_items(self, items: list[Any]) -> None:
        conversation = await self._get_session_id()
        for start in range(0, len(items), _MOST_AT_ONCE):
            await self._client.conversations.items.create(
                conversation_id=conversation, items=items[start : start + _MOST_AT_ONCE]
            )

    async def pop_item(self) -> Any:
        found = await self.get_items(limit=1)
        if not found:
            return None
        await self._client.conversations.items.delete(
            conversation_id=await self._get_session_id(), item_id=str(found[0]["id"])
        )
        return found[0]

    async def clear_session(self) -> None:
        if self._id is not None:
            await self._client.conversations.delete(conversation_id=self._id)
            self._id = None
