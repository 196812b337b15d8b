"""The official client of OpenAI's interfaces, for a server on the loopback address."""

from __future__ import annotations

import openai


def openai_client(url: str, *, key: str = "none", retries: int = 2) -> openai.AsyncOpenAI:
    """A client; it does not load the certificates that a loopback address has no use for."""
    return openai.AsyncOpenAI(
        base_url=f"{url}/v1",
        api_key=key,
        max_retries=retries,
        timeout=60,
        http_client=openai.DefaultAsyncHttpxClient(verify=False),
    )
