"""What the parameters of several routes have in common."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

from fastapi import Query

from ekiden.api.texts import MOMENT, MOST_EVENTS, PLAIN
from ekiden.app.moments import read_moment
from ekiden.core.server_errors import RequestInvalid


def word(description: str, *, most: int = 200) -> Any:
    """A text in the query."""
    return Query(max_length=most, pattern=PLAIN, description=description)


def time(description: str) -> Any:
    """A time in the query; `moment` reads it."""
    return Query(
        max_length=40,
        pattern=MOMENT,
        description=f"{description} A date, a date with a time (UTC, unless it names its zone), or "
        "how long ago: `90s`, `30m`, `2h`, `7d`, `4w`.",
        examples=["7d"],
    )


def moment(text: str | None, *, what: str) -> datetime | None:
    """The time that `text` means; without a zone it is UTC. `RequestInvalid` if it means none."""
    if text is None:
        return None
    try:
        return read_moment(text, zone=UTC)
    except (ValueError, OverflowError) as exc:
        raise RequestInvalid(
            f"{what}: {text[:40]!r} is no time; give a date, such as 2025-03-01 or "
            "2025-03-01T14:30:00Z, or how long ago: 90s, 30m, 2h, 7d or 4w"
        ) from exc


User: TypeAlias = Annotated[str | None, word("Only those of this user.", most=500)]
EventNumber: TypeAlias = Annotated[int, Query(ge=1, le=MOST_EVENTS)]
