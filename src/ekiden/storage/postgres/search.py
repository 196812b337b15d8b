"""The store as `SearchStore`: texts that are found by their words or their meaning."""

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
from ekiden.storage.postgres.connection.errors import WITHOUT_EXTENSION
from ekiden.storage.postgres.role import Role
from ekiden.storage.postgres.rows import from_column, to_column
from ekiden.storage.search import (
    OwnEntry,
    asked_words,
    check_after,
    cosines,
    is_name,
    names_among,
    numpy_or_python,
    other_length,
    own_entries,
    own_vector,
    score_of,
    to_bytes,
    words_of_all,
)
from ekiden.storage.values import check_limit

ENTRY = """
    e.key, e.text, e.body, e.model,
    (extract(epoch from e.updated_at) * 1000000)::bigint as updated_at_us"""
"""The columns that `found_entry` reads."""

SPACE = "(select num from search_spaces where name = $1)"
"""The number that all of a space is found by."""

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
# The terms name the space already, and by them the entries are found: the planner must not also
# walk all of the space, so its number is compared in a way that no index helps with.
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


class Search(Role):
    """Search of texts by words."""

    async def put_entries(self, entries: Sequence[SearchEntry]) -> None:
        owned = own_entries(entries)
        words = await words_of_all([own.text for own in owned])
        groups = [
            (space, list(group))
            for space, group in groupby(
                zip(owned, words, strict=True), key=lambda each: each[0].space
            )
        ]

        async def work(connection: Any) -> None:
            for space, group in groups:
                await _put(connection, space, group)

        if groups:
            await self._database.transact(work)
            self._changes.changed()

    async def put_vectors(self, entries: Sequence[SearchEntry]) -> Sequence[str]:
        owned = own_entries(entries)

        async def work(connection: Any) -> list[str]:
            done: list[str] = []
            for space, group in groupby(owned, key=lambda each: each.space):
                done += await _put_vectors(connection, space, list(group))
            return done

        if not owned:
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
            None if keys is None else [to_column(key) for key in names_among(keys)],
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
        named = None if keys is None else [to_column(key) for key in names_among(keys)]

        async def work(connection: Any) -> int:
            number = await connection.fetchval(_LOCK_SPACE, to_column(space))
            if number is None:
                return 0
            count: int = await connection.fetchval(_DROP, number, named)
            await connection.execute(_DROP_SPACE, number)
            return count

        if not is_name(space):
            self._database.refuse_if_closed()
            return 0
        count = await self._database.transact(work)
        self._changes.changed()
        return count

    async def search_text(self, space: str, query: str, *, limit: int = 10) -> Sequence[SearchHit]:
        check_limit(limit, "entries")
        asked = asked_words(query)
        number = await self._space_number(space)
        if number is None or not asked:
            return ()
        terms = [_term(number, word) for word in asked]
        found = await self._database.query(_BEST, number, terms, limit, repeatable=True)
        return [
            SearchHit(entry=found_entry(space, record), score=record["score"]) for record in found
        ]

    async def _space_number(self, space: str) -> int | None:
        """`None` if there is nothing in it."""
        sql = "select num from search_spaces where name = $1"
        found = await self._database.query(sql, to_column(space), repeatable=True)
        return found[0][0] if found and is_name(space) else None


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
    connection: Any, space: str, entries: Sequence[tuple[OwnEntry, Collection[str]]]
) -> None:
    """Store entries of one space; `UserError`: the transaction must be undone."""
    number = await _locked_space(connection, to_column(space))
    await connection.executemany(_PUT, [_row(number, own, words) for own, words in entries])
    await _check_lengths(connection, number, [own for own, _ in entries])


async def _put_vectors(connection: Any, space: str, entries: Sequence[OwnEntry]) -> list[str]:
    """Give entries that have the same text still these vectors; which."""
    number = await connection.fetchval(_LOCK_SPACE, to_column(space))
    if number is None:
        return []
    done = []
    for own in entries:
        _, key, model, dims, vector, _, text, _ = _row(number, own, ())
        if await connection.fetchval(_PUT_VECTOR, number, key, text, model, dims, vector):
            done.append(own)
    await _check_lengths(connection, number, done)
    return [own.key for own in done]


async def _check_lengths(connection: Any, number: int, entries: Sequence[OwnEntry]) -> None:
    vectors = {own.model: own for own in entries if own.vector is not None}
    for model, own in vectors.items():
        least, most = await connection.fetchrow(_LENGTHS, number, to_column(model))
        length = len(own.vector or ())
        if least != most:
            raise other_length(own.name, model, length, least if most == length else most)


async def _locked_space(connection: Any, name: str) -> int:
    """The number of the space, which nobody else writes to until the transaction ends."""
    while True:
        number: int | None = await connection.fetchval(_LOCK_SPACE, name)
        if number is not None:
            return number
        await connection.execute(_MAKE_SPACE, name)


def _row(space: int, own: OwnEntry, words: Collection[str]) -> tuple[Any, ...]:
    vector = own.vector
    return (
        space,
        to_column(own.key),
        None if vector is None else to_column(own.model),
        None if vector is None else len(vector),
        vector,
        own.body,
        to_column(own.text),
        [_term(space, word) for word in words],
    )


def _term(space: int, word: str) -> str:
    """A word of this space only; no word has this dot."""
    return f"{space}·{word}"


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
    """Search of texts by meaning."""

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
