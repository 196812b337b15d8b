"""Embeddings from an endpoint that speaks as OpenAI does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ekiden.core.errors import ModelError
from ekiden.embeddings.vendors import OpenAIEmbedder
from tests.support.embedding_servers import OpenAIEmbeddings, vector_of
from tests.support.vendor import DROP, GARBLED, HANG, status

pytest.importorskip("openai")

_SOON = {"retry_after_ms": "1"}


def embedder(server: OpenAIEmbeddings, **options: Any) -> OpenAIEmbedder:
    options = {"api_key": "sk-test", "base_url": server.base_url, **options}
    return OpenAIEmbedder(options.pop("model", "text-embedding-3-small"), **options)


async def embed(which: OpenAIEmbedder, texts: Sequence[str]) -> Any:
    return await asyncio.to_thread(which.embed, texts)


def unit(text: str, dimensions: int) -> Any:
    vector = np.asarray(vector_of(text, dimensions))
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("floats", [False, True], ids=["base64", "float"])
async def test_vectors_come_in_order_and_have_length_one(floats: bool) -> None:
    async with OpenAIEmbeddings(floats=floats, shuffled=True) as server:
        vectors = await embed(embedder(server), ["a parcel", "退款 🎉", "a flight"])
    assert vectors.shape == (3, 1536)
    assert vectors.dtype == np.float32
    for row, text in zip(vectors, ["a parcel", "退款 🎉", "a flight"], strict=True):
        assert row == pytest.approx(unit(text, 1536), abs=1e-6)
    assert "dimensions" not in server.bodies[0]


async def test_a_shorter_dimension_is_requested() -> None:
    async with OpenAIEmbeddings() as server:
        small = embedder(server, dimension=256)
        vectors = await embed(small, ["one"])
    assert vectors.shape == (1, 256)
    assert server.bodies[0]["dimensions"] == 256
    assert small.name == "openai:text-embedding-3-small/256"
    assert embedder_name(None) == "openai:text-embedding-3-small/1536"


def embedder_name(dimension: int | None) -> str:
    return OpenAIEmbedder(api_key="k", dimension=dimension).name


async def test_a_model_of_another_server_gets_no_dimension_parameter() -> None:
    async with OpenAIEmbeddings(dimensions=768, key="none") as server:
        theirs = OpenAIEmbedder("nomic-embed-text", dimension=768, base_url=server.base_url)
        assert (await embed(theirs, ["one"])).shape == (1, 768)
        assert "dimensions" not in server.bodies[0]
        shorter = OpenAIEmbedder(
            "nomic-embed-text", dimension=64, base_url=server.base_url, shorten=True
        )
        assert (await embed(shorter, ["one"])).shape == (1, 64)


async def test_many_texts_are_sent_in_batches() -> None:
    texts = [f"request number {number}" for number in range(130)]
    async with OpenAIEmbeddings() as server:
        vectors = await embed(embedder(server, dimension=8), texts)
    assert [len(body["input"]) for body in server.bodies] == [64, 64, 2]
    assert vectors[129] == pytest.approx(unit(texts[129], 8), abs=1e-6)


async def test_long_texts_are_sent_in_batches_of_limited_size() -> None:
    async with OpenAIEmbeddings() as server:
        await embed(embedder(server, dimension=8), ["漢" * 100_000] * 40)
    assert [len(body["input"]) for body in server.bodies] == [32, 8]
    assert len(server.bodies[0]["input"][0].encode()) <= 8000


async def test_empty_texts_are_zero_vectors_and_not_sent() -> None:
    async with OpenAIEmbeddings() as server:
        vectors = await embed(embedder(server, dimension=8), ["", " \n\x00", "\ud800", "word"])
        assert (await embed(embedder(server, dimension=8), [""])).shape == (1, 8)
        assert (await embed(embedder(server, dimension=8), [])).shape == (0, 8)
    assert vectors.any(axis=1).tolist() == [False, False, False, True]
    assert [body["input"] for body in server.bodies] == [["word"]]


@pytest.mark.parametrize(
    "trouble",
    [status(429, **_SOON), status(500, **_SOON), status(503, **_SOON)],
    ids=lambda trouble: str(trouble.status),
)
async def test_a_transient_failure_is_retried(trouble: Any) -> None:
    async with OpenAIEmbeddings(troubles=[trouble, trouble]) as server:
        assert (await embed(embedder(server, retries=2), ["one"])).any()
    assert len(server.requests) == 3


@pytest.mark.parametrize("trouble", [DROP, HANG], ids=["drop", "hang"])
async def test_a_broken_or_silent_connection_is_retried(trouble: Any) -> None:
    async with OpenAIEmbeddings(troubles=[trouble]) as server:
        assert (await embed(embedder(server, timeout_s=0.2, retries=1), ["one"])).any()
    assert len(server.requests) == 2


async def test_a_server_that_never_answers_times_out() -> None:
    async with OpenAIEmbeddings(troubles=[HANG]) as server:
        with pytest.raises(ModelError, match="did not answer within 0.1 s"):
            await embed(embedder(server, timeout_s=0.1, retries=0), ["one"])


@pytest.mark.parametrize("code", [400, 401, 404])
async def test_a_permanent_error_is_raised_at_once_with_its_status(code: int) -> None:
    async with OpenAIEmbeddings(troubles=[status(code)]) as server:
        with pytest.raises(ModelError, match=f"answered {code}") as raised:
            await embed(embedder(server), ["one"])
    assert raised.value.status == code
    assert len(server.requests) == 1


async def test_a_server_that_stays_down_is_an_error_with_its_status() -> None:
    async with OpenAIEmbeddings() as server:
        server.away = status(503, **_SOON)
        with pytest.raises(ModelError) as raised:
            await embed(embedder(server, retries=2), ["one"])
    assert raised.value.status == 503
    assert len(server.requests) == 3


async def test_a_long_retry_after_is_not_waited_for() -> None:
    async with OpenAIEmbeddings(troubles=[status(429, retry_after="30")]) as server:
        with pytest.raises(ModelError, match="answered 429"):
            await embed(embedder(server, retries=5), ["one"])
    assert len(server.requests) == 1


async def test_after_a_failure_requests_fail_fast_for_a_while() -> None:
    async with OpenAIEmbeddings(troubles=[status(503, **_SOON)]) as server:
        shared = embedder(server, retries=0, rest_s=60.0)
        for told in ("answered 503", "asked again in", "asked again in"):
            with pytest.raises(ModelError, match=told) as raised:
                await embed(shared, ["one"])
            assert raised.value.status == 503
        assert not (await embed(shared, [""])).any()
    assert len(server.requests) == 1


async def test_after_the_pause_a_failed_server_is_tried_again() -> None:
    async with OpenAIEmbeddings(troubles=[status(503), status(400)]) as server:
        shared = embedder(server, retries=0, rest_s=0.0)
        for code in (503, 400):
            with pytest.raises(ModelError, match=f"answered {code}"):
                await embed(shared, ["one"])
        assert (await embed(shared, ["one"])).any()


async def test_an_unreachable_server_is_an_error() -> None:
    async with OpenAIEmbeddings() as server:
        address = server.base_url
    gone = OpenAIEmbedder(base_url=address, api_key="k", retries=0)
    with pytest.raises(ModelError, match="openai:text-embedding-3-small: "):
        await embed(gone, ["one"])


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda vectors: vectors[:-1], "1 vectors for 2 texts"),
        (lambda vectors: [*vectors, vectors[0]], "3 vectors for 2 texts"),
        (lambda vectors: [vectors[0], vectors[1][:-1]], "of 1535 numbers, not 1536"),
        (lambda vectors: [[0.0] * 1536, vectors[1]], "zero or not finite"),
        (lambda vectors: [[float("nan")] * 1536, vectors[1]], "zero or not finite"),
        (lambda vectors: [], "No embedding data"),
    ],
    ids=["too few", "too many", "too short", "zeros", "nan", "nothing"],
)
async def test_an_invalid_response_is_an_error(spoil: Any, told: str) -> None:
    async with OpenAIEmbeddings(spoil=spoil) as server:
        with pytest.raises(ModelError, match=told):
            await embed(embedder(server, retries=0), ["one", "two"])


async def test_vectors_of_words_instead_of_numbers_are_an_error() -> None:
    def spoil(vectors: list[list[Any]]) -> list[list[Any]]:
        return [["much"] * 1536]

    async with OpenAIEmbeddings(spoil=spoil, floats=True) as server:
        with pytest.raises(ModelError):
            await embed(embedder(server, retries=0), ["one"])


async def test_a_truncated_response_is_an_error() -> None:
    async with OpenAIEmbeddings(troubles=[GARBLED]) as server:
        with pytest.raises(ModelError):
            await embed(embedder(server, retries=0), ["one"])


async def test_wrongly_numbered_vectors_are_an_error() -> None:
    class Twice(OpenAIEmbeddings):
        async def answer(self, request: Any) -> Any:
            body = await super().answer(request)
            for each in body["data"]:
                each["index"] = 0
            return body

    async with Twice() as server:
        with pytest.raises(ModelError, match="not numbered from 0"):
            await embed(embedder(server), ["one", "two"])


async def test_several_threads_share_one_embedder() -> None:
    async with OpenAIEmbeddings() as server:
        shared = embedder(server, dimension=8)
        texts = [f"text {number}" for number in range(8)]
        rows = await asyncio.gather(*(embed(shared, [text]) for text in texts))
    for row, text in zip(rows, texts, strict=True):
        assert row[0] == pytest.approx(unit(text, 8), abs=1e-6)
