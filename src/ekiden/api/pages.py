"""Lists in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

T = TypeVar("T")

PAGE: Final = 50
"""The default page size."""
_ALL: Final = 200
"""The page size for a caller that wants all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """A page of a list."""

    items: Sequence[T]
    next_cursor: str | None = None
    """The cursor of the next page; `null` on the last one."""


Fetch: TypeAlias = Callable[[int, str | None], Awaitable[Page[T]]]
"""Returns at most this many entries of a list, starting at a cursor."""


class Pages(Generic[T]):
    """A list: iterate over all of it with ``async for``, or get a part with `page`."""

    def __init__(self, fetch: Fetch[T]) -> None:
        self._fetch = fetch

    async def page(self, *, limit: int = PAGE, cursor: str | None = None) -> Page[T]:
        """At most `limit` entries, starting at `cursor`, the `next_cursor` of another page."""
        return await self._fetch(limit, cursor)

    def __aiter__(self) -> AsyncIterator[T]:
        return self.rest()

    async def rest(self, *, cursor: str | None = None) -> AsyncIterator[T]:
        """All entries starting at `cursor`."""
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
    """A page of a list in memory, by the keys of its members; `None` if the cursor's key is
    unknown."""
    start = 0
    if cursor is not None:
        places = [place for place, each in enumerate(items) if key(each) == cursor]
        if not places:
            return None
        start = places[0] + 1
    shown = items[start : start + limit]
    has_more = start + limit < len(items)
    return Page(items=shown, next_cursor=key(shown[-1]) if has_more else None)
