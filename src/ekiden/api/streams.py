"""Streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Generic, Self, TypeVar

from ekiden.api.portal import Portal

T = TypeVar("T")


class AsyncStream(Generic[T]):
    """Live values for ``async for``; ``async with`` closes the stream when you leave early."""

    def __init__(self, source: AsyncGenerator[T, None]) -> None:
        self._source = source

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        return await self._source.__anext__()

    async def aclose(self) -> None:
        """Stop reading; the source continues."""
        await self._source.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


class Stream(Generic[T]):
    """Live values for ``for``; ``with`` closes the stream when you leave early."""

    def __init__(self, source: AsyncStream[T], portal: Portal) -> None:
        self._source, self._portal = source, portal

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return self._portal.run(_next(self._source))
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Stop reading; the source continues."""
        self._portal.run(self._source.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


async def _next(members: AsyncIterator[T]) -> T:
    return await members.__anext__()
