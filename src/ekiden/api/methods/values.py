"""Types that all resources use: pages of lists, patterns for texts, and times written by people."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Generic, TypeAlias, TypeVar

from ekiden.core.dataclass import dataclass

T = TypeVar("T")

PAGE: Final = 50
"""The default page size."""
_ALL: Final = 200
"""The page size for iterating over a whole list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """One page of a list, and the cursor of the next page."""

    items: Sequence[T]
    next_cursor: str | None = None
    """The cursor of the next page; `null` on the last page."""


Fetch: TypeAlias = Callable[[int, str | None], Awaitable[Page[T]]]
"""A function of a limit and a cursor. It returns the page that begins at the cursor and has at most
as many entries as the limit."""


class Pages(Generic[T]):
    """A list in pages. Iterate over all entries with ``async for``, or get one page with `page`."""

    def __init__(self, fetch: Fetch[T]) -> None:
        self._fetch = fetch

    async def page(self, *, limit: int = PAGE, cursor: str | None = None) -> Page[T]:
        """Return a page of at most `limit` entries. `cursor` is the `next_cursor` of the previous
        page. Without `cursor`, this method returns the first page."""
        return await self._fetch(limit, cursor)

    def __aiter__(self) -> AsyncIterator[T]:
        return self.rest()

    async def rest(self, *, cursor: str | None = None) -> AsyncIterator[T]:
        """Iterate over all entries from `cursor` on."""
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
    """Return a page of a list in memory. The cursors are keys of entries. Returns `None` for an
    unknown cursor."""
    start = 0
    if cursor is not None:
        places = [place for place, each in enumerate(items) if key(each) == cursor]
        if not places:
            return None
        start = places[0] + 1
    shown = items[start : start + limit]
    has_more = start + limit < len(items)
    return Page(items=shown, next_cursor=key(shown[-1]) if has_more else None)


_ODD: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029"

PLAIN: Final = r"^[^\x00]*$"
"""Text without NUL characters. Some stores cannot search for NUL characters."""
ONE_LINE: Final = rf"^[^{_ODD}]+$"
"""Text without control characters and line breaks."""
PERSON: Final = rf"^[^\s{_ODD}][^{_ODD}]*$"
"""A person's name, in any script."""
PARTY: Final = rf"^[^#\s{_ODD}][^#{_ODD}]*$"
"""An agent's name on the bus."""
MEMORY_KEY: Final = rf"^[^{_ODD}]*[^\s{_ODD}][^{_ODD}]*$"
"""Text without control characters that is not blank."""
SAID: Final = r"[^\s\x1c-\x1f\x85]"
"""Text that is not blank. Python also strips the characters named here; in JSON Schema they are not
white space."""
KEY_NAME: Final = (
    r"^[!-~\u00c0-\u024f\u0400-\u0481\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]"
    r"[ -~\u00c0-\u024f\u0400-\u0481\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]*$"
)
"""The name of an API key: Latin, Cyrillic, Chinese, Japanese and Korean letters, and printable
ASCII characters."""
TENANT: Final = r"^[a-z0-9]([a-z0-9_]{0,30}[a-z0-9])?$"
"""Valid tenant names."""
CAPABILITIES: Final = r"^[^\x00]*[^\s\x00,，、][^\x00]*$"
"""At least one name; commas separate the names."""
EVENT_CURSOR: Final = r"-?[0-9]{1,18}\.[0-9]{1,18}\.[0-9]{1,18}"
"""A position in the events of a store."""
SESSION_ID: Final = r"^[A-Za-z0-9_\-.:@]+$"
"""The id of a session."""
ADDRESSED: Final = r"^[^\x00-\x1f\x7f]*$"
"""Text that can be part of a path."""
MOST_EVENTS: Final = 1_000_000_000
"""The highest possible number of an event."""

_DATE = (
    r"(?:19[7-9][0-9]|2[0-9]{3})-"
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-9]))"
)
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_ZONE = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?"
MOMENT: Final = rf"^(?:[0-9]{{1,4}}[smhdw]|{_DATE}(?:T{_CLOCK}{_ZONE})?)$"
"""A time as text: a date, a date with a time, or a time span before now."""
TIMES: Final = (
    "Give a date, a date with a time (UTC, unless it contains a time zone), or a time span before "
    "now, such as `30m` or `7d`."
)
"""The description of a time parameter."""
Moment: TypeAlias = datetime | str
"""A time: a `datetime`, or a text that matches `MOMENT`. A time without a time zone is in UTC."""

AGO: Final = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_moment(text: str, *, now: datetime | None = None, zone: tzinfo | None = None) -> datetime:
    """Return the time in `text`. Raises `ValueError` or `OverflowError` for an invalid time.

    If `text` has no time zone, `zone` applies; the default is the time zone of this machine.
    """
    now = (now or datetime.now()).astimezone()
    ago = AGO.fullmatch(text)
    if ago is not None:
        return now - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    found = datetime.fromisoformat(text)
    if found.tzinfo is None and zone is not None:
        found = found.replace(tzinfo=zone)
    try:
        # From its timestamp: at the change to summer time, `astimezone` alone turns 02:30, which
        # the clocks skip, into 01:30.
        return datetime.fromtimestamp(found.timestamp(), UTC).astimezone()
    except OSError as exc:
        raise ValueError(f"{text[:40]!r} is too far away") from exc
