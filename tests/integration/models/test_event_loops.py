"""A model may be used on several event loops after each other, and leaves nothing open."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import Any

from ekiden.core.items import text_of, user_message
from ekiden.core.model import ModelRequest, ModelResponse
from ekiden.models import resolve_model
from ekiden.testing import say
from ekiden.testing.openai_server import OpenAIServer


async def _ask(model: Any) -> str:
    request = ModelRequest(instructions=None, input=[user_message("hi")])
    (response,) = [event async for event in model.respond(request)]
    assert isinstance(response, ModelResponse)
    return text_of(response.output[0])


def test_one_model_serves_loop_after_loop_and_closes_with_each() -> None:
    kept: list[Any] = []

    async def program(text: str) -> str:
        async with OpenAIServer([say(text), say(text)]) as server:
            model = resolve_model("openai:m", base_url=server.base_url, api_key="k")
            kept.append(model)
            await _ask(model)
            return await _ask(model)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [asyncio.run(program(text)) for text in "ab"] == ["a", "b"]
        gc.collect()


async def test_equal_names_share_one_model_and_its_connections() -> None:
    async with OpenAIServer([say("a"), say("b")]) as server:
        first = resolve_model("openai:m", base_url=server.base_url, api_key="k")
        second = resolve_model("openai:m", base_url=server.base_url, api_key="k")
        assert first is second
        assert await _ask(first) == "a"
        assert await _ask(second) == "b"


async def test_a_closed_model_opens_again() -> None:
    async with OpenAIServer([say("a"), say("b")]) as server:
        model: Any = resolve_model("openai:m", base_url=server.base_url, api_key="k")
        assert await _ask(model) == "a"
        await model.aclose()
        await model.aclose()
        assert await _ask(model) == "b"
