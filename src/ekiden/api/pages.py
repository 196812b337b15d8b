"""Lists, which come in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

T = TypeVar("T")

PAGE: Final = 50
"""How many a page has, unless somebody says otherwise."""
_ALL: Final = 200
"""How many are fetched at once by whoever wants all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """Some of a list."""

    items: Sequence[T]
    next_cursor: str | None = None
    """Where the next page begins; `null` on the last one."""


Fetch: TypeAlias = Callable[[int, str | None], Awaitable[Page[T]]]
"""At most so many of a list, from a cursor on."""


class Pages(Generic[T]):
    """A list: ``async for`` goes through all of it, `page` gives a part."""

    def __init__(self, fetch: Fetch[T]) -> None:
        self._fetch = fetch

    async def page(self, *, limit: int = PAGE, cursor: str | None = None) -> Page[T]:
        """At most `limit` of it, from `cursor` on, which is the `next_cursor` of another page."""
        return await self._fetch(limit, cursor)

    def __aiter__(self) -> AsyncIterator[T]:
        return self.rest()

    async def rest(self, *, cursor: str | None = None) -> AsyncIterator[T]:
        """All of it from `cursor` on."""
        while True:
            page = await self._fetch(_ALL, cursor)
            for each in page.items:
                yield each
            cursor = page.next_cursor
            if cursor is None:
                return


def page_of(
    items: Sequence[T], *, limit: int, cursor: str | None, key: Callable[[T], str]
) -> Page[T] | None:
    """A page of a list that is all here, by the keys of its members; `None` if nothing has the key
    that the page is to begin after."""
    start = 0
    if cursor is not None:
        places = [place for place, each in enumerate(items) if key(each) == cursor]
        if not places:
            return None
        start = places[0] + 1
    shown = items[start : start + limit]
    has_more = start + limit < len(items)
    return Page(items=shown, next_cursor=key(shown[-1]) if has_more else None)
