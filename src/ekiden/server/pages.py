"""Lists in pages."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeAlias, TypeVar

from fastapi import Path, Query
from pydantic import BaseModel, Field

from ekiden.api.values import SESSION_ID

T = TypeVar("T")

Cursor: TypeAlias = Annotated[
    str | None,
    Query(max_length=500, description="`next_cursor` of the previous page; none for the first."),
]
SessionId: TypeAlias = Annotated[
    str,
    Path(
        min_length=1,
        max_length=128,
        pattern=SESSION_ID,
        description="The session's id.",
    ),
]


def limit_to(most: int) -> Any:
    """How many members a page has."""
    return Query(ge=1, le=most, description="The most results.")


def cursor_as(pattern: str, *, most: int = 500) -> Any:
    """The cursor of a list whose cursors look so."""
    return Query(
        max_length=most,
        pattern=pattern,
        description="`next_cursor` of the previous page; none for the first.",
    )


class Page(BaseModel, Generic[T]):
    """A page of a list."""

    items: list[T]
    next_cursor: str | None = Field(
        default=None, description="The cursor of the next page; `null` on the last one."
    )
