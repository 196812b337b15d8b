"""Lists, which come in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ekiden.api.portal import Portal

T = TypeVar("T")

_PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """Some of a list."""

    items: tuple[T, ...]
    next_cursor: str | None = None
    """Where the next page begins; `None` on the last one."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """As the server sent it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[T]):
    """What a list is asked for."""

    path: str
    params: Mapping[str, Any]
    parse: Callable[[Any], T]


class Ask(Protocol):
    """Sends a request and gives the JSON of the answer."""

    def __call__(
        self, method: str, path: str, *, params: Mapping[str, Any] | None = None
    ) -> Awaitable[Any]: ...


class AsyncPages(Generic[T]):
    """A list: ``async for`` goes through all of it, `page` gives a part."""

    def __init__(self, ask: Ask, what: Listing[T]) -> None:
        self._ask, self._what = ask, what

    async def page(self, *, limit: int = 50, cursor: str | None = None) -> Page[T]:
        """At most `limit` of it, from `cursor` on, which is the `next_cursor` of another page."""
        params = {**self._what.params, "limit": limit}
        if cursor is not None:
            params["cursor"] = cursor
        answer = await self._ask("GET", self._what.path, params=params)
        return Page(
            items=tuple(self._what.parse(each) for each in answer["items"]),
            next_cursor=answer.get("next_cursor"),
            raw=answer,
        )

    async def __aiter__(self) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            page = await self.page(limit=_PAGE, cursor=cursor)
            for each in page.items:
                yield each
            cursor = page.next_cursor
            if cursor is None:
                return


class Pages(Generic[T]):
    """A list: ``for`` goes through all of it, `page` gives a part."""

    def __init__(self, pages: AsyncPages[T], portal: Portal) -> None:
        self._pages, self._portal = pages, portal

    def page(self, *, limit: int = 50, cursor: str | None = None) -> Page[T]:
        """At most `limit` of it, from `cursor` on, which is the `next_cursor` of another page."""
        return self._portal.run(self._pages.page(limit=limit, cursor=cursor))

    def __iter__(self) -> Iterator[T]:
        cursor: str | None = None
        while True:
            page = self.page(limit=_PAGE, cursor=cursor)
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return
