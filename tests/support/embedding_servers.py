"""Servers on loopback that make embeddings: OpenAI's and Gemini's wire formats."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from ekiden.testing.servers.loopback import HttpRequest
from tests.support.vendor import Trouble, VendorServer

Spoil = Callable[[list[list[float]]], list[list[float]]]


def vector_of(text: str, dimensions: int) -> list[float]:
    """The same for the same text, and not of length 1."""
    seed = sha256(text.encode()).digest()
    return [float(seed[number % 32] - 127.5) / (number + 1) for number in range(dimensions)]


class OpenAIEmbeddings(VendorServer):
    """``/v1/embeddings``."""

    def __init__(
        self,
        *,
        dimensions: int = 1536,
        key: str = "sk-test",
        floats: bool = False,
        shuffled: bool = False,
        spoil: Spoil = lambda vectors: vectors,
        troubles: Sequence[Trouble] = (),
    ) -> None:
        super().__init__(troubles)
        self._dimensions, self._key = dimensions, key
        self._floats, self._shuffled, self._spoil = floats, shuffled, spoil
        self.bodies: list[dict[str, Any]] = []

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    def error(self, code: int, message: str) -> Any:
        return {"error": {"message": message, "type": "error", "param": None, "code": None}}

    async def answer(self, request: HttpRequest) -> Any:
        assert (request.method, request.path) == ("POST", "/v1/embeddings")
        assert request.headers["authorization"] == f"Bearer {self._key}"
        assert request.headers["content-type"] == "application/json"
        body = request.json()
        assert set(body) <= {"model", "input", "dimensions", "encoding_format", "user"}
        assert isinstance(body["model"], str)
        assert body.get("encoding_format", "float") in ("float", "base64")
        texts = body["input"]
        assert isinstance(texts, list)
        assert 1 <= len(texts) <= 2048
        for text in texts:
            assert isinstance(text, str)
            assert 0 < len(text.encode()) <= 8192
        self.bodies.append(body)
        length = body.get("dimensions", self._dimensions)
        vectors = self._spoil([vector_of(text, length) for text in texts])
        encoded = body.get("encoding_format") == "base64" and not self._floats
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": _base64(vector) if encoded else vector,
            }
            for index, vector in enumerate(vectors)
        ]
        return {
            "object": "list",
            "data": data[::-1] if self._shuffled else data,
            "model": body["model"],
            "usage": {"prompt_tokens": 5, "total_tokens": 5},
        }


class GeminiEmbeddings(VendorServer):
    """``/v1/models/…:batchEmbedContents``."""

    def __init__(
        self,
        *,
        dimensions: int = 3072,
        key: str = "g-test",
        spoil: Spoil = lambda vectors: vectors,
        troubles: Sequence[Trouble] = (),
    ) -> None:
        super().__init__(troubles)
        self._dimensions, self._key, self._spoil = dimensions, key, spoil
        self.bodies: list[dict[str, Any]] = []

    def error(self, code: int, message: str) -> Any:
        return {"error": {"code": code, "message": message, "status": "SCRIPTED"}}

    async def answer(self, request: HttpRequest) -> Any:
        assert request.method == "POST"
        folder, _, verb = request.path.rpartition(":")
        assert verb == "batchEmbedContents"
        version, _, model = folder[1:].partition("/")
        assert version in ("v1", "v1beta")
        assert model.startswith("models/")
        assert request.headers["x-goog-api-key"] == self._key
        assert "key=" not in request.query
        body = request.json()
        assert set(body) == {"requests"}
        assert 1 <= len(body["requests"]) <= 100
        vectors = []
        for each in body["requests"]:
            assert set(each) <= {"model", "content", "outputDimensionality", "taskType", "title"}
            assert each["model"] == model
            assert set(each["content"]) <= {"parts", "role"}
            [part] = each["content"]["parts"]
            assert set(part) == {"text"}
            assert part["text"]
            length = each.get("outputDimensionality", self._dimensions)
            vectors.append(vector_of(part["text"], length))
        self.bodies.append(body)
        return {"embeddings": [{"values": vector} for vector in self._spoil(vectors)]}


def _base64(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
