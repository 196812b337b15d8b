"""What the parameters of several routes have in common."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from fastapi import Query

from ekiden.api.texts import MOMENT, MOST_EVENTS, PLAIN, TIMES


def word(description: str, *, most: int = 200) -> Any:
    """A text in the query."""
    return Query(max_length=most, pattern=PLAIN, description=description)


def time(description: str) -> Any:
    """A time in the query; `moment_of` reads it."""
    return Query(
        max_length=40,
        pattern=MOMENT,
        description=f"{description} {TIMES}",
        examples=["7d"],
    )


User: TypeAlias = Annotated[str | None, word("Only those of this user.", most=500)]
EventNumber: TypeAlias = Annotated[int, Query(ge=1, le=MOST_EVENTS)]
