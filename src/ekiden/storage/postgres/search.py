"""The store as `SearchStore`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ekiden.core.jsonio import loads
from ekiden.storage.base import SearchEntry, SearchHit
from ekiden.storage.entries import (
    OwnEntry,
    check_after,
    is_name,
    names_among,
    other_length,
    own_entries,
)
from ekiden.storage.postgres.role import Role
from ekiden.storage.postgres.text import from_column, to_column
from ekiden.storage.values import check_limit
from ekiden.storage.words import asked_words, words_of_all

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
# The weights are those of `ekiden.storage.words.weights`.
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


class Search(Role):
    """Texts that are found by words."""

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
