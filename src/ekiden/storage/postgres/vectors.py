"""Texts that are found by meaning.

The distances of all vectors of a space and model are computed: exact, and quick enough for the
tens of thousands that one space has. Where the database has pgvector it computes them, and
otherwise this process does.
"""

from __future__ import annotations

import asyncio
import sys
from array import array
from collections.abc import Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

from ekiden.storage.base import SearchHit
from ekiden.storage.entries import cosines, is_name, numpy_or_python, own_vector, score_of, to_bytes
from ekiden.storage.postgres.errors import WITHOUT_EXTENSION
from ekiden.storage.postgres.role import Role
from ekiden.storage.postgres.search import ENTRY, SPACE, found_entry
from ekiden.storage.postgres.text import to_column
from ekiden.storage.values import check_limit

_MOST_DIMS = 16_000
"""Of the extension's type."""
_BLOCK = 16
"""Vectors of whole blocks, as those of nearly all embedders are, are left to the extension. There
are builds of it that kill the server over an odd rest on a processor they were not made for."""
_SEND_HEAD = 20
"""Of an array with one dimension, as the server sends it; then come length and value of each."""

_EXTENSION = """
select quote_ident(n.nspname), e.extversion
from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace
where e.extname = 'vector'"""
_OF_MODEL = f"where space = {SPACE} and model = $2 and dims = $3"
_NEAREST = f"""
with near as (
    select id, key,
        round((vector::{{schema}}.vector operator({{schema}}.<#>) $4::real[]::{{schema}}.vector)
            ::numeric, 6) as far
    from search_entries {_OF_MODEL} order by far, key limit $5
)
select {ENTRY}, (-near.far)::float8 as cosine
from near join search_entries as e on e.id = near.id order by near.far, near.key"""
_ALL = f"select id, key, array_send(vector) as sent from search_entries {_OF_MODEL}"
_BY_ID = f"""
select {ENTRY}, e.id from search_entries as e
where e.space = {SPACE} and e.model = $2 and e.dims = $3 and e.id = any($4)"""


class Extension(NamedTuple):
    """pgvector in this database."""

    schema: str
    """As it is written in a statement."""
    version: str


async def find_extension(connection: Any) -> Extension | None:
    """pgvector, if the database has it."""
    found = await connection.fetchrow(_EXTENSION)
    return None if found is None else Extension(*found)


class Vectors(Role):
    """Texts that are found by meaning."""

    _extension: Extension | None = None
    """Looked for whenever the store connects."""

    async def search_vectors(
        self, space: str, vector: Sequence[float], *, model: str, limit: int = 10
    ) -> Sequence[SearchHit]:
        check_limit(limit, "entries")
        asked = own_vector(vector, "the question")
        if not is_name(space) or not is_name(model):
            self._database.refuse_if_closed()
            return ()
        of_model = (to_column(space), to_column(model), len(asked))
        found = await self._nearest(of_model, asked, limit)
        if found is None:
            found = await self._computed(of_model, asked, limit)
        return [
            SearchHit(entry=found_entry(space, record), score=score_of(cosine))
            for cosine, record in found
        ]

    def _vector_engine(self) -> str:
        """What computes the distances."""
        found = self._extension
        return numpy_or_python() if found is None else f"pgvector {found.version}"

    async def _nearest(
        self, of_model: tuple[str, str, int], asked: array[float], limit: int
    ) -> list[tuple[float, Any]] | None:
        """As the database computes them; `None` if it cannot."""

        async def work(connection: Any) -> list[Any] | None:
            extension = self._extension
            if extension is None or len(asked) > _MOST_DIMS or len(asked) % _BLOCK:
                return None
            sql = _NEAREST.format(schema=extension.schema)
            try:
                rows: list[Any] = await connection.fetch(sql, *of_model, asked, limit)
            except WITHOUT_EXTENSION:
                self._extension = None
                return None
            return rows

        rows = await self._database.run(work)
        return None if rows is None else [(record["cosine"], record) for record in rows]

    async def _computed(
        self, of_model: tuple[str, str, int], asked: array[float], limit: int
    ) -> list[tuple[float, Any]]:
        """As this process computes them, beside the event loop."""
        rows = await self._database.query(_ALL, *of_model, repeatable=True)
        near = await asyncio.to_thread(_cosines, rows, asked)
        best = nsmallest(
            limit, zip(near, rows, strict=True), key=lambda each: (-each[0], each[1]["key"])
        )
        numbers = [record["id"] for _, record in best]
        found = await self._database.query(_BY_ID, *of_model, numbers, repeatable=True)
        by_id = {record["id"]: record for record in found}
        return [(cosine, by_id[record["id"]]) for cosine, record in best if record["id"] in by_id]


def _cosines(rows: Sequence[Any], asked: array[float]) -> list[float]:
    return cosines([_sent_vector(record["sent"]) for record in rows], asked)


def _sent_vector(sent: bytes) -> bytes:
    """The array as it is stored elsewhere; the server sends everything in network order."""
    numbers = array("f", sent[_SEND_HEAD:])[1::2]
    if sys.byteorder == "little":
        numbers.byteswap()
    return to_bytes(numbers)
