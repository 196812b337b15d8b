"""Embeddings from Gemini."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ekiden.core.errors import ModelError
from ekiden.embeddings.vendors import GeminiEmbedder
from tests.support.embedding_servers import GeminiEmbeddings, vector_of
from tests.support.vendor import DROP, GARBLED, HANG, status

pytest.importorskip("google.genai")


def embedder(server: GeminiEmbeddings, **options: Any) -> GeminiEmbedder:
    options = {"api_key": "g-test", "base_url": server.origin, "pause_s": 0.001, **options}
    return GeminiEmbedder(options.pop("model", "gemini-embedding-001"), **options)


async def embed(which: GeminiEmbedder, texts: Sequence[str]) -> Any:
    return await asyncio.to_thread(which.embed, texts)


def unit(text: str, dimensions: int) -> Any:
    vector = np.asarray(vector_of(text, dimensions))
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("model", ["gemini-embedding-001", "gemini-embedding-2"])
async def test_each_text_gets_a_vector_of_length_one(model: str) -> None:
    texts = ["a parcel", "退款 🎉", "a flight"]
    async with GeminiEmbeddings() as server:
        vectors = await embed(embedder(server, model=model), texts)
    assert vectors.shape == (3, 3072)
    for row, text in zip(vectors, texts, strict=True):
        assert row == pytest.approx(unit(text, 3072), abs=1e-6)
    assert all("outputDimensionality" not in each for each in server.bodies[0]["requests"])


async def test_a_shorter_dimension_is_requested() -> None:
    async with GeminiEmbeddings() as server:
        small = embedder(server, dimension=768)
        assert (await embed(small, ["one"])).shape == (1, 768)
    assert server.bodies[0]["requests"][0]["outputDimensionality"] == 768
    assert small.name == "gemini:gemini-embedding-001/768"


async def test_texts_are_sent_in_batches_and_empty_ones_are_not_sent() -> None:
    texts = ["", *(f"request number {number}" for number in range(65))]
    async with GeminiEmbeddings() as server:
        vectors = await embed(embedder(server, dimension=8), texts)
    assert [len(body["requests"]) for body in server.bodies] == [64, 1]
    assert not vectors[0].any()
    assert vectors[65] == pytest.approx(unit(texts[65], 8), abs=1e-6)


@pytest.mark.parametrize(
    "trouble", [status(429, retry_after="1"), status(500), status(503), DROP, HANG], ids=str
)
async def test_a_transient_failure_is_retried(trouble: Any) -> None:
    async with GeminiEmbeddings(troubles=[trouble]) as server:
        assert (await embed(embedder(server, timeout_s=0.2), ["one"])).any()
    assert len(server.requests) == 2


@pytest.mark.parametrize("code", [400, 401, 403])
async def test_a_permanent_error_is_raised_at_once_with_its_status(code: int) -> None:
    async with GeminiEmbeddings(troubles=[status(code)]) as server:
        with pytest.raises(ModelError, match=f"answered {code}") as raised:
            await embed(embedder(server), ["one"])
    assert raised.value.status == code
    assert len(server.requests) == 1


async def test_a_server_that_never_answers_times_out() -> None:
    async with GeminiEmbeddings(troubles=[HANG]) as server:
        with pytest.raises(ModelError, match="did not answer within 0.1 s"):
            await embed(embedder(server, timeout_s=0.1, retries=0), ["one"])


async def test_an_unreachable_server_is_an_error() -> None:
    async with GeminiEmbeddings() as server:
        address = server.origin
    with pytest.raises(ModelError, match="gemini:gemini-embedding-001: ConnectError"):
        await embed(GeminiEmbedder(base_url=address, retries=0), ["one"])


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda vectors: vectors[:-1], "1 vectors for 2 texts"),
        (lambda vectors: [vectors[0], vectors[1][:-1]], "of 3071 numbers, not 3072"),
        (lambda vectors: [vectors[0], []], "of 0 numbers, not 3072"),
        (lambda vectors: [], "0 vectors for 2 texts"),
    ],
    ids=["too few", "too short", "empty", "nothing"],
)
async def test_an_invalid_response_is_an_error(spoil: Any, told: str) -> None:
    async with GeminiEmbeddings(spoil=spoil) as server:
        with pytest.raises(ModelError, match=told):
            await embed(embedder(server), ["one", "two"])


async def test_a_truncated_response_is_an_error() -> None:
    async with GeminiEmbeddings(troubles=[GARBLED]) as server:
        with pytest.raises(ModelError):
            await embed(embedder(server), ["one"])
