"""How many rows the tables have, without reading them all."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import apsw

from ekiden.core.jsonio import dumps
from ekiden.storage.copying import TableName
from ekiden.storage.sqlite.connection import query
from ekiden.storage.sqlite.copy_rows import count_sql, number_of
from ekiden.storage.values import EXACT_COUNT

_PROBES = 200


def count_tables(db: apsw.Connection, tables: Iterable[TableName]) -> dict[str, Any]:
    """The rows of each table, and under `estimated` the tables whose number is an estimate."""
    counts: dict[str, Any] = {}
    estimated: list[str] = []
    for table in tables:
        ((counts[table],),) = query(db, count_sql(table, at_most=EXACT_COUNT + 1))
        if counts[table] > EXACT_COUNT:
            counts[table] = _estimate(db, table)
            estimated.append(table)
    return {**counts, "estimated": estimated}


def _estimate(db: apsw.Connection, table: TableName) -> int:
    """So many of the numbers between the first and the last row as are there of some of them.

    Right unless rows were deleted, and then nearly.
    """
    key = number_of(table)
    ((first, last),) = query(
        db, f"SELECT (SELECT min({key}) FROM {table}), (SELECT max({key}) FROM {table})"
    )
    span = last - first + 1
    chance = Random(span)
    probes = [first + int((at + chance.random()) * span / _PROBES) for at in range(_PROBES)]
    ((hits,),) = query(
        db,
        f"SELECT count(*) FROM json_each(?) AS probe CROSS JOIN {table} AS its"
        f" ON its.{key} = probe.value",
        (dumps(probes),),
    )
    return max(int(span * hits // _PROBES), EXACT_COUNT)
