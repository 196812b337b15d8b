"""Whether a client speaks to OpenAI itself."""

from __future__ import annotations

from urllib.parse import urlsplit

from openai import AsyncOpenAI


def is_official_openai_base_url(base_url: object, *, websocket: bool = False) -> bool:
    """Whether the address is OpenAI's own."""
    parts = urlsplit(str(base_url))
    scheme = "wss" if websocket else "https"
    return parts.scheme == scheme and parts.hostname == "api.openai.com"


def is_official_openai_client(client: AsyncOpenAI) -> bool:
    """Whether the client's address is OpenAI's own."""
    return is_official_openai_base_url(getattr(client, "base_url", ""))
