"""How many rows the tables have, without reading them all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ekiden.core.jsonio import loads
from ekiden.storage.copying import TableName
from ekiden.storage.postgres.copy_rows import count_sql
from ekiden.storage.values import EXACT_COUNT

Fetch = Callable[[str], Awaitable[list[Any]]]
"""The rows of a statement."""


async def count_tables(fetch: Fetch, tables: Iterable[TableName]) -> dict[str, Any]:
    """The rows of each table, and under `estimated` the tables whose number is an estimate: the
    planner's, from the size of the table."""
    names = list(tables)
    if not names:
        return {"estimated": []}
    counted = [f"({count_sql(name, at_most=EXACT_COUNT + 1)}) as {name}" for name in names]
    counts: dict[str, Any] = dict((await fetch(f"select {', '.join(counted)}"))[0])
    estimated = [name for name in names if counts[name] > EXACT_COUNT]
    for name in estimated:
        ((plan,),) = await fetch(f"explain (format json) select from {name}")
        counts[name] = max(int(loads(plan)[0]["Plan"]["Plan Rows"]), EXACT_COUNT)
    return {**counts, "estimated": estimated}
