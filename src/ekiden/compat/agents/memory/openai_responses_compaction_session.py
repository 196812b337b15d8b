"""Sessions that let OpenAI shorten what they keep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from openai import AsyncOpenAI
from pydantic import BaseModel

from ekiden.compat.agents.logger import logger as logger
from ekiden.compat.agents.memory.openai_conversations_session import OpenAIConversationsSession
from ekiden.compat.agents.memory.session import OpenAIResponsesCompactionArgs, Session, SessionABC
from ekiden.compat.agents.models.openai_provider import default_client
from ekiden.compat.agents.not_supported import placeholders

DEFAULT_COMPACTION_THRESHOLD = 10
OpenAIResponsesCompactionMode: TypeAlias = Literal["previous_response_id", "input", "auto"]


def select_compaction_candidate_items(items: list[Any]) -> list[Any]:
    """Items that a compaction would shorten: all but a user's words and earlier compactions."""

    def is_kept(item: Any) -> bool:
        if not isinstance(item, dict):
            return False
        said = item.get("type") in (None, "message") and item.get("role") == "user"
        return said or item.get("type") == "compaction"

    return [item for item in items if not is_kept(item)]


def default_should_trigger_compaction(context: dict[str, Any]) -> bool:
    """From ten such items on."""
    return len(context["compaction_candidate_items"]) >= DEFAULT_COMPACTION_THRESHOLD


def is_openai_model_name(model: str) -> bool:
    """Whether it is the name of a model of OpenAI, fine-tuned ones included."""
    name = model.strip().rsplit("/", 1)[-1].removeprefix("ft:").split(":", 1)[0]
    return name.startswith("gpt-") or (name.startswith("o") and name[1:2].isdigit())


class OpenAIResponsesCompactionSession(SessionABC):
    """Wraps another session, and compacts its items when there are many."""

    def __init__(
        self,
        session_id: str,
        underlying_session: Session,
        *,
        client: AsyncOpenAI | None = None,
        model: str = "gpt-4.1",
        compaction_mode: OpenAIResponsesCompactionMode = "auto",
        should_trigger_compaction: Callable[[dict[str, Any]], bool] | None = None,
        max_rollback_items: int | None = None,
    ) -> None:
        if isinstance(underlying_session, OpenAIConversationsSession):
            raise ValueError("OpenAIConversationsSession cannot be compacted: OpenAI keeps it")
        if not is_openai_model_name(model):
            raise ValueError(f"Unsupported model for OpenAI responses compaction: {model}")
        if max_rollback_items is not None and max_rollback_items <= 0:
            raise ValueError("max_rollback_items must be positive or None")
        self.session_id = session_id
        self.underlying_session = underlying_session
        self.session_settings = getattr(underlying_session, "session_settings", None)
        self.model = model
        self.compaction_mode = compaction_mode
        self.should_trigger_compaction = (
            should_trigger_compaction or default_should_trigger_compaction
        )
        self.max_rollback_items = max_rollback_items
        self._client = client
        self._response_id: str | None = None
        self._unstored_id: str | None = None
        self._turn = asyncio.Lock()

    @property
    def client(self) -> AsyncOpenAI:
        """The OpenAI client."""
        if self._client is None:
            self._client = default_client()
        return self._client

    def _mode(self, wanted: str | None, store: bool | None) -> str:
        mode = wanted or self.compaction_mode
        if mode != "auto":
            return mode
        is_stored = store is not False and self._response_id not in (None, self._unstored_id)
        return "previous_response_id" if is_stored else "input"

    async def run_compaction(
        self, args: OpenAIResponsesCompactionArgs | None = None, *, wrapper: Any = None
    ) -> None:
        """Compact the stored items if there are enough of them, or if `force` is set."""
        given: dict[str, Any] = dict(args or {})
        async with self._turn:
            self._response_id = given.get("response_id") or self._response_id
            store = given.get("store")
            if store is False:
                self._unstored_id = self._response_id
            mode = self._mode(given.get("compaction_mode"), store)
            if mode == "previous_response_id" and not self._response_id:
                raise ValueError(
                    "OpenAIResponsesCompactionSession.run_compaction requires a response_id "
                    "when using previous_response_id compaction."
                )
            items = await self.underlying_session.get_items()
            context = {
                "response_id": self._response_id,
                "compaction_mode": mode,
                "compaction_candidate_items": select_compaction_candidate_items(items),
                "session_items": items,
            }
            if given.get("force") or self.should_trigger_compaction(context):
                await self._compact(mode, items, wrapper)

    async def _compact(self, mode: str, items: list[Any], wrapper: Any) -> None:
        what: dict[str, Any] = {"model": self.model}
        if mode == "previous_response_id":
            what["previous_response_id"] = self._response_id
        else:
            what["input"] = items
        compacted = await self.client.responses.compact(**what)
        if wrapper is not None and compacted.usage is not None:
            from ekiden.compat.agents.models.openai_responses import usage_of

            wrapper.usage.add(usage_of(compacted))
        kept = [
            item.model_dump(exclude_unset=True) if isinstance(item, BaseModel) else item
            for item in compacted.output
        ]
        await self.underlying_session.clear_session()
        if kept:
            try:
                await self.underlying_session.add_items(kept)
            except Exception:
                await self.underlying_session.clear_session()
                await self.underlying_session.add_items(items)
                raise

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return await self.underlying_session.get_items(limit)

    async def add_items(self, items: list[Any]) -> None:
        async with self._turn:
            await self.underlying_session.add_items(items)

    async def pop_item(self) -> Any:
        async with self._turn:
            return await self.underlying_session.pop_item()

    async def clear_session(self) -> None:
        async with self._turn:
            await self.underlying_session.clear_session()
            self._response_id = None


__getattr__ = placeholders(__name__)
