"""Search entries in PostgreSQL: `SearchStore` by words and vectors."""

from __future__ import annotations

import asyncio
import sys
from array import array
from collections.abc import Collection, Sequence
from dataclasses import replace
from heapq import nsmallest
from itertools import groupby
from typing import Any, NamedTuple

from ekiden.core.values import loads
from ekiden.storage.base import SearchEntry, SearchHit
from ekiden.storage.postgres.changes import Role
from ekiden.storage.postgres.database import WITHOUT_EXTENSION
from ekiden.storage.postgres.rows import from_column, to_column
from ekiden.storage.search import (
    CheckedEntry,
    check_after,
    checked_entries,
    cosines,
    is_valid_name,
    numpy_or_python,
    query_words,
    score_of,
    to_bytes,
    unit_vector,
    valid_keys,
    words_of_all,
    wrong_length,
)
from ekiden.storage.values import check_limit

ENTRY = """
    e.key, e.text, e.body, e.model,
    (extract(epoch from e.updated_at) * 1000000)::bigint as updated_at_us"""
"""The columns that `found_entry` reads."""

SPACE = "(select num from search_spaces where name = $1)"
"""The number of a space."""

_MAKE_SPACE = "insert into search_spaces (name) values ($1) on conflict (name) do nothing"
_LOCK_SPACE = "select num from search_spaces where name = $1 for update"
_PUT = """
insert into search_entries (space, key, model, dims, vector, body, text, terms)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict (space, key) do update
set updated_at = excluded.updated_at, model = excluded.model, dims = excluded.dims,
    vector = excluded.vector, body = excluded.body, text = excluded.text, terms = excluded.terms"""
_PUT_VECTOR = """
update search_entries set model = $4, dims = $5, vector = $6
where space = $1 and key = $2 and text = $3 returning 1"""
_LENGTHS = "select min(dims), max(dims) from search_entries where space = $1 and model = $2"
_FIND = f"""
select {ENTRY}, e.vector from search_entries as e
where e.space = {SPACE} and e.key > $2 and ($3::text[] is null or e.key = any($3))
    and ($4::text is null or e.model is null or e.model <> $4)
order by e.key limit $5"""
_DROP = """
with gone as (
    delete from search_entries
    where space = $1 and ($2::text[] is null or key = any($2)) returning 1
)
select count(*) from gone"""
_DROP_SPACE = """
delete from search_spaces
where num = $1 and not exists (select from search_entries where space = $1)"""
# Terms contain the number of their space, so the index of terms finds only its entries. `+ 0` keeps
# the planner from also reading all entries of the space by the other index.
# The weights are those of `ekiden.storage.search.weights`.
_BEST = f"""
with found as materialized (
    select hits.ids, hits.keys, greatest(1, round(1000 * ln(
        1 + (texts.count - greatest(hits.count, 1) + 0.5::float8) / (greatest(hits.count, 1) + 0.5)
    )))::bigint as weight
    from (select count(*) as count from search_entries where space = $1) as texts,
    unnest($2::text[]) as asked (term),
    lateral (
        select array_agg(e.id) as ids, array_agg(e.key) as keys, count(*) as count
        from search_entries as e where e.terms @> array[asked.term] and e.space + 0 = $1
    ) as hits
), best as (
    select hit.id, hit.key collate "C" as key, sum(found.weight) as shared
    from found, unnest(found.ids, found.keys) as hit (id, key)
    group by 1, 2 order by 3 desc, 2 limit $3
)
select {ENTRY}, best.shared::float8 / (select sum(weight) from found)::float8 as score
from best join search_entries as e on e.id = best.id and e.space = $1
order by best.shared desc, best.key"""
_MAX_DIMS = 16_000
"""The maximum of the extension's vector type."""
_BLOCK = 16
"""The extension compares only vectors whose length is a multiple of this, as with nearly all
embedders. Some builds of it crash the server with other lengths on processors that they were not
built for."""
_SEND_HEAD = 20
"""The bytes before the values of an array with one dimension in the server's binary format. Each
value follows its own length, of 4 bytes."""
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


class Search(Role):
    """Search entries, and the search by words."""

    async def put_entries(self, entries: Sequence[SearchEntry]) -> None:
        checked = checked_entries(entries)
        words = await words_of_all([entry.text for entry in checked])
        groups = [
            (space, list(group))
            for space, group in groupby(
                zip(checked, words, strict=True), key=lambda each: each[0].space
            )
        ]

        async def work(connection: Any) -> None:
            for space, group in groups:
                await _put(connection, space, group)

        if groups:
            await self._database.transact(work)
            self._changes.changed()

    async def put_vectors(self, entries: Sequence[SearchEntry]) -> Sequence[str]:
        checked = checked_entries(entries)

        async def work(connection: Any) -> list[str]:
            done: list[str] = []
            for space, group in groupby(checked, key=lambda each: each.space):
                done += await _put_vectors(connection, space, list(group))
            return done

        if not checked:
            return ()
        done = await self._database.transact(work)
        self._changes.changed()
        return done

    async def find_entries(
        self,
        space: str,
        *,
        keys: Collection[str] | None = None,
        after: str = "",
        not_of_model: str | None = None,
        limit: int = 100,
    ) -> Sequence[SearchEntry]:
        check_limit(limit, "entries")
        found = await self._database.query(
            _FIND,
            to_column(space),
            to_column(check_after(after)),
            None if keys is None else [to_column(key) for key in valid_keys(keys)],
            None if not_of_model is None else to_column(not_of_model),
            limit,
            repeatable=True,
        )
        return [
            replace(
                found_entry(space, record),
                vector=None if record["vector"] is None else tuple(record["vector"]),
            )
            for record in found
        ]

    async def delete_entries(self, space: str, *, keys: Collection[str] | None = None) -> int:
        chosen = None if keys is None else [to_column(key) for key in valid_keys(keys)]

        async def work(connection: Any) -> int:
            number = await connection.fetchval(_LOCK_SPACE, to_column(space))
            if number is None:
                return 0
            count: int = await connection.fetchval(_DROP, number, chosen)
            await connection.execute(_DROP_SPACE, number)
            return count

        if not is_valid_name(space):
            self._database.refuse_if_closed()
            return 0
        count = await self._database.transact(work)
        self._changes.changed()
        return count

    async def search_text(self, space: str, query: str, *, limit: int = 10) -> Sequence[SearchHit]:
        check_limit(limit, "entries")
        words = query_words(query)
        number = await self._space_number(space)
        if number is None or not words:
            return ()
        terms = [_term(number, word) for word in words]
        found = await self._database.query(_BEST, number, terms, limit, repeatable=True)
        return [
            SearchHit(entry=found_entry(space, record), score=record["score"]) for record in found
        ]

    async def _space_number(self, space: str) -> int | None:
        """The number of the space; `None` for a space without entries."""
        sql = "select num from search_spaces where name = $1"
        found = await self._database.query(sql, to_column(space), repeatable=True)
        return found[0][0] if found and is_valid_name(space) else None


def found_entry(space: str, record: Any) -> SearchEntry:
    """An entry from its `ENTRY` columns, without its vector."""
    return SearchEntry(
        space=space,
        key=from_column(record["key"]),
        text=from_column(record["text"]),
        body=loads(record["body"]),
        model=from_column(record["model"] or ""),
        updated_at_us=record["updated_at_us"],
    )


async def _put(
    connection: Any, space: str, entries: Sequence[tuple[CheckedEntry, Collection[str]]]
) -> None:
    """Store entries of one space; after `UserError` the transaction must be rolled back."""
    number = await _lock_space(connection, to_column(space))
    await connection.executemany(_PUT, [_row(number, entry, words) for entry, words in entries])
    await _check_lengths(connection, number, [entry for entry, _ in entries])


async def _put_vectors(connection: Any, space: str, entries: Sequence[CheckedEntry]) -> list[str]:
    """Store the vectors of entries whose text is unchanged; returns their keys."""
    number = await connection.fetchval(_LOCK_SPACE, to_column(space))
    if number is None:
        return []
    done = []
    for entry in entries:
        _, key, model, dims, vector, _, text, _ = _row(number, entry, ())
        if await connection.fetchval(_PUT_VECTOR, number, key, text, model, dims, vector):
            done.append(entry)
    await _check_lengths(connection, number, done)
    return [entry.key for entry in done]


async def _check_lengths(connection: Any, number: int, entries: Sequence[CheckedEntry]) -> None:
    """Compare the shortest and the longest vector of each model after a write."""
    entry_of_model = {entry.model: entry for entry in entries if entry.vector is not None}
    for model, entry in entry_of_model.items():
        shortest, longest = await connection.fetchrow(_LENGTHS, number, to_column(model))
        length = len(entry.vector or ())
        if shortest != longest:
            known = shortest if longest == length else longest
            raise wrong_length(entry.name, model, length, known)


async def _lock_space(connection: Any, name: str) -> int:
    """The number of the space, which is created if needed, and locked until the transaction
    ends."""
    # Another process may remove the empty space between the two statements.
    while True:
        number: int | None = await connection.fetchval(_LOCK_SPACE, name)
        if number is not None:
            return number
        await connection.execute(_MAKE_SPACE, name)


def _row(space: int, entry: CheckedEntry, words: Collection[str]) -> tuple[Any, ...]:
    vector = entry.vector
    return (
        space,
        to_column(entry.key),
        None if vector is None else to_column(entry.model),
        None if vector is None else len(vector),
        vector,
        entry.body,
        to_column(entry.text),
        [_term(space, word) for word in words],
    )


def _term(space: int, word: str) -> str:
    """The word with the number of its space, so that two spaces share no terms. No word has this
    dot."""
    return f"{space}·{word}"


class Extension(NamedTuple):
    """pgvector in this database."""

    schema: str
    """The quoted name of the extension's schema."""
    version: str


async def find_extension(connection: Any) -> Extension | None:
    """pgvector, if the database has it."""
    found = await connection.fetchrow(_EXTENSION)
    return None if found is None else Extension(*found)


class Vectors(Role):
    """The search by vectors."""

    _extension: Extension | None = None
    """Set whenever the store connects."""

    async def search_vectors(
        self, space: str, vector: Sequence[float], *, model: str, limit: int = 10
    ) -> Sequence[SearchHit]:
        check_limit(limit, "entries")
        query = unit_vector(vector, "the question")
        if not is_valid_name(space) or not is_valid_name(model):
            self._database.refuse_if_closed()
            return ()
        of_model = (to_column(space), to_column(model), len(query))
        found = await self._search_in_database(of_model, query, limit)
        if found is None:
            found = await self._search_in_process(of_model, query, limit)
        return [
            SearchHit(entry=found_entry(space, record), score=score_of(cosine))
            for cosine, record in found
        ]

    def _vector_engine(self) -> str:
        """The implementation that compares vectors."""
        found = self._extension
        return numpy_or_python() if found is None else f"pgvector {found.version}"

    async def _search_in_database(
        self, of_model: tuple[str, str, int], query: array[float], limit: int
    ) -> list[tuple[float, Any]] | None:
        """The best cosines and their entries; `None` if the database cannot compute them."""

        async def work(connection: Any) -> list[Any] | None:
            # Read here, because the first connection of the store sets it.
            extension = self._extension
            if extension is None or len(query) > _MAX_DIMS or len(query) % _BLOCK:
                return None
            sql = _NEAREST.format(schema=extension.schema)
            try:
                rows: list[Any] = await connection.fetch(sql, *of_model, query, limit)
            except WITHOUT_EXTENSION:
                self._extension = None
                return None
            return rows

        rows = await self._database.run(work)
        return None if rows is None else [(record["cosine"], record) for record in rows]

    async def _search_in_process(
        self, of_model: tuple[str, str, int], query: array[float], limit: int
    ) -> list[tuple[float, Any]]:
        """The best cosines and their entries, computed in a thread of this process."""
        rows = await self._database.query(_ALL, *of_model, repeatable=True)
        near = await asyncio.to_thread(_cosines, rows, query)
        best = nsmallest(
            limit, zip(near, rows, strict=True), key=lambda each: (-each[0], each[1]["key"])
        )
        numbers = [record["id"] for _, record in best]
        found = await self._database.query(_BY_ID, *of_model, numbers, repeatable=True)
        by_id = {record["id"]: record for record in found}
        return [(cosine, by_id[record["id"]]) for cosine, record in best if record["id"] in by_id]


def _cosines(rows: Sequence[Any], query: array[float]) -> list[float]:
    return cosines([_sent_vector(record["sent"]) for record in rows], query)


def _sent_vector(sent: bytes) -> bytes:
    """The vector in little-endian form, from the server's binary format, which is big-endian."""
    numbers = array("f", sent[_SEND_HEAD:])[1::2]
    if sys.byteorder == "little":
        numbers.byteswap()
    return to_bytes(numbers)
