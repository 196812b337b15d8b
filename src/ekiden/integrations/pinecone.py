"""Memories mirrored to an index of Pinecone, through the vendor's own client.

The index must exist, with the dimension of the embedder and the metric ``cosine``. A space is a
namespace of it. What leaves the machine is the vector with the key, the embedder's name and the
version: no text and no metadata, since what is found is read from the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from ekiden.core.errors import UserError
from ekiden.core.errors.memory import BackendUnavailable
from ekiden.memory.base import BackendOptions, MemoryBackend, RemoteEntry, RemoteHit

if TYPE_CHECKING:
    from pinecone import AsyncIndex

NAME = "pinecone"
MISSING = "the package pinecone is not installed: pip install 'ekiden[pinecone]'"

_TIMEOUT_S = 10.0
_MAX_TOP_K = 10_000
_REQUEST_BYTES = 1_800_000
"""The vendor takes two million."""
_NUMBER_BYTES = 24
_ENTRY_BYTES = 3_000
"""At most, beside the vector: a key of 512 characters, and what is around it."""
_HOPELESS = frozenset({400, 413, 422})
"""The request itself is refused: the same again will be, too. All other statuses can pass; a key
that is refused (401, 403), because somebody may set another one and nothing must be lost."""

_T = TypeVar("_T")


def open_backend(options: BackendOptions) -> MemoryBackend:
    """The back end of the environment: ``PINECONE_API_KEY``, and ``PINECONE_HOST`` (the index's
    address) or ``PINECONE_INDEX`` (its name, which is looked up at the first use).

    Nothing is called yet. `UserError` if one of them, or the extra ``pinecone``, is missing.
    """
    if find_spec("pinecone") is None:
        raise UserError(MISSING)
    environ = options.environ
    key, host, index = (
        environ.get(name, "").strip()
        for name in ("PINECONE_API_KEY", "PINECONE_HOST", "PINECONE_INDEX")
    )
    if not key:
        raise UserError("memories in pinecone need an API key: set PINECONE_API_KEY")
    if not (host or index):
        raise UserError(
            "memories in pinecone need an index: set PINECONE_HOST to its address, "
            "or PINECONE_INDEX to its name"
        )
    return PineconeBackend(
        api_key=key, host=host or None, index=index or None, dimensions=options.dimensions
    )


class PineconeBackend:
    """A `MemoryBackend` over one index.

    An event loop has a client of its own, which is made at its first call; so the same back end
    serves a program that runs several loops, one after the other or at once.
    """

    name = NAME

    def __init__(
        self, *, api_key: str, host: str | None, index: str | None = None, dimensions: int
    ) -> None:
        """With `host` the index is not looked up by its name."""
        self._api_key = api_key
        self._host = host
        self._index = index
        self._dimensions = dimensions
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncIndex] = (
            WeakKeyDictionary()
        )

    async def upsert(self, space: str, entries: Sequence[RemoteEntry]) -> None:
        """As `MemoryBackend.upsert`."""
        vectors = [self._vector(entry) for entry in entries]
        size = max(_REQUEST_BYTES // (self._dimensions * _NUMBER_BYTES + _ENTRY_BYTES), 1)
        for start in range(0, len(vectors), size):
            client = await self._client()
            part = vectors[start : start + size]
            await self._translated(client.upsert(vectors=part, namespace=space))

    async def delete(self, space: str, keys: Sequence[str]) -> None:
        """As `MemoryBackend.delete`."""
        ids = [_id(key) for key in keys]
        if not ids:
            return
        client = await self._client()
        await self._forgiving(client.delete(ids=ids, namespace=space))

    async def clear(self, space: str) -> None:
        """As `MemoryBackend.clear`."""
        client = await self._client()
        await self._forgiving(client.delete(delete_all=True, namespace=space))

    async def search(
        self, space: str, vector: Sequence[float], *, model: str, limit: int
    ) -> Sequence[RemoteHit]:
        """As `MemoryBackend.search`."""
        self._check(vector)
        client = await self._client()
        answer = await self._translated(
            client.query(
                top_k=min(max(limit, 1), _MAX_TOP_K),
                vector=list(vector),
                namespace=space,
                filter={"model": {"$eq": model}},
                include_metadata=True,
            )
        )
        hits = [_hit(match.metadata, match.score) for match in answer.matches]
        return [hit for hit in hits if hit is not None][:limit]

    async def close(self) -> None:
        """As `MemoryBackend.close`, for the loop that runs."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def _client(self) -> AsyncIndex:
        from pinecone import AsyncIndex

        for ended in [loop for loop in self._clients if loop.is_closed()]:
            del self._clients[ended]
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            if self._host is None:
                self._host = await self._translated(self._look_up())
            try:
                client = AsyncIndex(host=self._host, api_key=self._api_key, timeout=_TIMEOUT_S)
            except ValueError as exc:
                raise BackendUnavailable(NAME, str(exc), retry=False) from exc
            self._clients[loop] = client
        return client

    async def _look_up(self) -> str:
        """The address of the index with this name."""
        from pinecone import AsyncPinecone, errors

        async with AsyncPinecone(api_key=self._api_key, timeout=_TIMEOUT_S) as pinecone:
            try:
                index = await pinecone.index(self._index or "")
            except errors.PineconeValueError as exc:  # It is being made, and has no address yet.
                raise BackendUnavailable(NAME, f"{exc!s:.300}") from exc
            await index.close()
            return index.host

    async def _translated(self, call: Awaitable[_T]) -> _T:
        from pinecone import errors

        try:
            return await call
        except errors.ApiError as exc:
            hopeless = exc.status_code in _HOPELESS
            problem = f"it answered {exc.status_code}: {exc.message:.300}"
            raise BackendUnavailable(NAME, problem, retry=not hopeless) from exc
        except (errors.PineconeValueError, errors.PineconeTypeError) as exc:
            raise BackendUnavailable(NAME, f"{exc!s:.300}", retry=False) from exc
        except errors.PineconeError as exc:
            raise BackendUnavailable(NAME, f"{type(exc).__name__}: {exc!s:.300}") from exc

    async def _forgiving(self, call: Awaitable[None]) -> None:
        """Removing from a namespace that is not there is fine."""
        from pinecone.errors import NotFoundError

        try:
            await self._translated(call)
        except BackendUnavailable as exc:
            if not isinstance(exc.__cause__, NotFoundError):
                raise

    def _vector(self, entry: RemoteEntry) -> dict[str, Any]:
        self._check(entry.vector)
        metadata = {"key": entry.key, "model": entry.model, "version": entry.version}
        return {"id": _id(entry.key), "values": list(entry.vector), "metadata": metadata}

    def _check(self, vector: Sequence[float]) -> None:
        if len(vector) != self._dimensions:
            problem = f"a vector has {len(vector)} numbers, not {self._dimensions}"
            raise BackendUnavailable(NAME, problem, retry=False)


def _id(key: str) -> str:
    """The vendor takes ASCII only."""
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _hit(metadata: Mapping[str, Any] | None, score: float) -> RemoteHit | None:
    """`None` for what somebody else put there."""
    key = (metadata or {}).get("key")
    if not isinstance(key, str):
        return None
    return RemoteHit(key=key, score=min(max(score, 0.0), 1.0))
