"""Small facts about requests to Chat Completions."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from openai import AsyncOpenAI

from ekiden.compat.agents.models.openai_client_utils import is_official_openai_client

HEADERS = {"User-Agent": "Agents/Python 0.24.0"}
HEADERS_OVERRIDE: ContextVar[dict[str, str] | None] = ContextVar(
    "openai_chatcompletions_headers_override", default=None
)


class ChatCmplHelpers:
    """What differs between OpenAI and servers that speak the same."""

    @classmethod
    def is_openai(cls, client: AsyncOpenAI) -> bool:
        """Whether the client speaks to OpenAI itself."""
        return is_official_openai_client(client)

    @classmethod
    def get_store_param(cls, client: AsyncOpenAI, model_settings: Any) -> bool | None:
        """Whether OpenAI stores the answer; other servers are not asked."""
        default = True if cls.is_openai(client) else None
        return default if model_settings.store is None else bool(model_settings.store)

    @classmethod
    def get_stream_options_param(
        cls, client: AsyncOpenAI, model_settings: Any, stream: bool
    ) -> dict[str, bool] | None:
        """Whether the stream ends with token counts."""
        if not stream:
            return None
        default = True if cls.is_openai(client) else None
        wanted = default if model_settings.include_usage is None else model_settings.include_usage
        return None if wanted is None else {"include_usage": wanted}

    @classmethod
    def clean_gemini_tool_call_id(cls, tool_call_id: str, model: str | None = None) -> str:
        """The id without the signature of a thought that Gemini's servers append."""
        if model and "gemini" in model.lower() and "__thought__" in tool_call_id:
            return tool_call_id.split("__thought__")[0]
        return tool_call_id
