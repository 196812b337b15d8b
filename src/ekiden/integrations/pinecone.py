"""Vector search of memories with Pinecone, through the vendor's client.

The index must exist, with the dimension of the embedder and the metric ``cosine``. A memory space
is a namespace of the index. Pinecone gets the vector, the key, the name of the embedder and the
version of a memory, but no text and no metadata. Ekiden reads text and metadata from the store.
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
"""The maximum size of a request; the vendor's limit is two million."""
_NUMBER_BYTES = 24
_ENTRY_BYTES = 3_000
"""The maximum size of an entry without its vector; a key has up to 512 characters."""
_FINAL_STATUSES = frozenset({400, 413, 422})
"""Statuses of an invalid request: a retry would fail again. A refused API key (401, 403) is not
final, because a new key may be set and the entries must not be lost."""

_T = TypeVar("_T")


def open_backend(options: BackendOptions) -> MemoryBackend:
    """Create the back end from the environment variables ``PINECONE_API_KEY`` and
    ``PINECONE_HOST``, the address of the index. Instead of the latter, ``PINECONE_INDEX`` can name
    the index. Its address is then requested at the first use.

    This call makes no request. Raises `UserError` if a variable or the extra ``pinecone`` is
    missing.
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
    """A `MemoryBackend` that uses one index of Pinecone.

    Each event loop has its own client, which is created at the first call. So a program can use the
    back end in several event loops.
    """

    name = NAME

    def __init__(
        self, *, api_key: str, host: str | None, index: str | None = None, dimensions: int
    ) -> None:
        """`host` is the address of the index. Without it, the address is looked up by `index`."""
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
        await self._delete(client.delete(ids=ids, namespace=space))

    async def clear(self, space: str) -> None:
        """As `MemoryBackend.clear`."""
        client = await self._client()
        await self._delete(client.delete(delete_all=True, namespace=space))

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
        """As `MemoryBackend.close`, for the running event loop."""
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
            except errors.PineconeValueError as exc:  # A new index has no address yet.
                raise BackendUnavailable(NAME, f"{exc!s:.300}") from exc
            await index.close()
            return index.host

    async def _translated(self, call: Awaitable[_T]) -> _T:
        from pinecone import errors

        try:
            return await call
        except errors.ApiError as exc:
            problem = f"it answered {exc.status_code}: {exc.message:.300}"
            retry = exc.status_code not in _FINAL_STATUSES
            raise BackendUnavailable(NAME, problem, retry=retry) from exc
        except (errors.PineconeValueError, errors.PineconeTypeError) as exc:
            raise BackendUnavailable(NAME, f"{exc!s:.300}", retry=False) from exc
        except errors.PineconeError as exc:
            raise BackendUnavailable(NAME, f"{type(exc).__name__}: {exc!s:.300}") from exc

    async def _delete(self, call: Awaitable[None]) -> None:
        """Await a deletion. A missing namespace is not an error."""
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
    # Pinecone accepts only ASCII ids.
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _hit(metadata: Mapping[str, Any] | None, score: float) -> RemoteHit | None:
    """The hit, or `None` for a vector that Ekiden did not store."""
    key = (metadata or {}).get("key")
    if not isinstance(key, str):
        return None
    return RemoteHit(key=key, score=min(max(score, 0.0), 1.0))
