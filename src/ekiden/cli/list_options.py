"""Options that all list commands share, and how a page is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.api.values import PAGE
from ekiden.cli.options import CursorOption, JsonLinesOption, JsonOption, LimitOption, WideOption
from ekiden.cli.output import emit, note, say
from ekiden.cli.tables import Table, print_table
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from ekiden.api.values import Pages

T = TypeVar("T")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The options of a list that may be long."""

    limit: Annotated[
        int | None,
        Parameter(
            name="--limit",
            validator=Number(gte=1, lte=1000),
            help="How many; 50 by default, or all with --json-lines.",
        ),
    ] = None
    cursor: CursorOption = None
    wide: WideOption = False
    json_lines: JsonLinesOption = False
    as_json: JsonOption = False

    usual: ClassVar[int | None] = PAGE
    """How many are shown by default."""

    @property
    def is_json(self) -> bool:
        """Whether the output is JSON."""
        return self.as_json or self.json_lines

    async def show(
        self, found: Pages[T], table: Callable[[Sequence[T]], Table], *, none: str
    ) -> Sequence[T]:
        """Print a page, or `none`, and print on standard error where the next one begins."""
        from ekiden.core.documents import to_json

        wanted = self.limit or (None if self.json_lines else self.usual)
        if self.json_lines and wanted is None:
            async for each in found.rest(cursor=self.cursor):
                emit(to_json(each))
            return ()
        items, cursor = await _first(found, wanted, self.cursor)
        if self.json_lines:
            for each in items:
                emit(to_json(each))
        elif self.as_json:
            emit(to_json(items))
        elif items:
            print_table(*table(items), wide=self.wide)
        else:
            say(none)
        if cursor is not None:
            note(dumps({"next_cursor": cursor}) if self.is_json else f"more: --cursor {cursor}")
        return items


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class WholeListing(Listing):
    """The options of a list that is shown as a whole."""

    limit: LimitOption = None

    usual: ClassVar[int | None] = None


LISTING = Listing()
WHOLE = WholeListing()


async def _first(
    found: Pages[T], wanted: int | None, cursor: str | None
) -> tuple[list[T], str | None]:
    """The first entries of a list, all without a limit, and where the rest begins."""
    items: list[T] = []
    while True:
        # A page is short if very many had to be looked at for it.
        room = 1000 if wanted is None else wanted - len(items)
        page = await found.page(limit=room, cursor=cursor)
        items += page.items
        cursor = page.next_cursor
        if cursor is None or len(items) == wanted:
            return items, cursor
