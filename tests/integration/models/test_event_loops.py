"""A model may be used on several event loops after each other, and leaves nothing open."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from ekiden.core.conversation.model import ModelRequest, ModelResponse, text_of, user_message
from ekiden.models import resolve_model
from ekiden.testing import say
from ekiden.testing.servers.openai import OpenAIServer


async def _ask(model: Any) -> str:
    request = ModelRequest(instructions=None, input=[user_message("hi")])
    (response,) = [event async for event in model.respond(request)]
    assert isinstance(response, ModelResponse)
    return text_of(response.output[0])


@pytest.fixture
def base_url() -> Iterator[str]:
    """A server on a loop and thread of its own, that says ``1`` to ``4``."""
    started = threading.Event()
    found: list[Any] = []

    async def serve() -> None:
        async with OpenAIServer([say(str(number)) for number in range(1, 5)]) as server:
            stop = asyncio.Event()
            found.extend([server.base_url, asyncio.get_running_loop(), stop])
            started.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    started.wait()
    url, loop, stop = found
    yield url
    loop.call_soon_threadsafe(stop.set)
    thread.join()


def test_one_model_serves_loop_after_loop_and_closes_with_each(base_url: str) -> None:
    model = resolve_model("openai:m", base_url=base_url, api_key="k")

    async def program() -> list[str]:
        return [await _ask(model), await _ask(model)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asyncio.run(program()) == ["1", "2"]
        assert asyncio.run(program()) == ["3", "4"]
        gc.collect()


async def test_calls_at_the_same_time_share_one_pool() -> None:
    async with OpenAIServer([say("a"), say("a"), say("a")]) as server:
        model = resolve_model("openai:m", base_url=server.base_url, api_key="k")
        assert await asyncio.gather(_ask(model), _ask(model), _ask(model)) == ["a", "a", "a"]


async def test_equal_names_share_one_model_and_its_connections() -> None:
    async with OpenAIServer([say("a"), say("b")]) as server:
        first = resolve_model("openai:m", base_url=server.base_url, api_key="k")
        second = resolve_model("openai:m", base_url=server.base_url, api_key="k")
        assert first is second
        assert await _ask(first) == "a"
        assert await _ask(second) == "b"


async def test_a_closed_model_reopens_on_use() -> None:
    async with OpenAIServer([say("a"), say("b")]) as server:
        model: Any = resolve_model("openai:m", base_url=server.base_url, api_key="k")
        assert await _ask(model) == "a"
        await model.aclose()
        await model.aclose()
        assert await _ask(model) == "b"
