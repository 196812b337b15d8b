"""The store as `SearchStore`: texts that are found by their words or their meaning."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import nsmallest
from importlib import import_module
from itertools import groupby
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import apsw

from ekiden.core.roles import Clock
from ekiden.core.values import dumps, loads
from ekiden.storage.base import SearchEntry, SearchHit
from ekiden.storage.search import (
    OwnEntry,
    asked_words,
    check_after,
    cosines,
    from_bytes,
    is_name,
    names_among,
    numpy_or_python,
    other_length,
    own_entries,
    own_vector,
    score_of,
    to_bytes,
    weights,
    words_of_all,
)
from ekiden.storage.sqlite.connection import query
from ekiden.storage.sqlite.readers import Read
from ekiden.storage.sqlite.rows import Row, chunks
from ekiden.storage.sqlite.writer import Work
from ekiden.storage.values import check_limit

T = TypeVar("T")

_PUT = (
    "INSERT INTO search_entries (space, key, updated_us, model, dims, vector, body, text)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (space, key) DO UPDATE SET"
    " updated_us = excluded.updated_us, model = excluded.model, dims = excluded.dims,"
    " vector = excluded.vector, body = excluded.body, text = excluded.text RETURNING id"
)
_PUT_VECTOR = (
    "UPDATE search_entries SET model = ?, dims = ?, vector = ?"
    " WHERE space = ? AND key = ? AND text = ?"
)
_PUT_WORDS = "INSERT OR REPLACE INTO search_words (rowid, words) VALUES (?, ?)"
_LENGTHS = "SELECT min(dims), max(dims) FROM search_entries WHERE space = ? AND model = ?"
_DROP_SPACE = (
    "DELETE FROM search_spaces WHERE num = ?1"
    " AND NOT EXISTS (SELECT 1 FROM search_entries WHERE space = ?1)"
)
_COUNTS = (
    "SELECT asked.value, count(*) FROM json_each(?) AS asked CROSS JOIN search_words"
    " WHERE search_words MATCH '\"' || asked.value || '\"' GROUP BY asked.key"
)
_TEXTS = "SELECT count(*) FROM search_entries WHERE space = ?"
_BEST = (
    "SELECT e.key, e.text, e.body, e.model, e.updated_us, best.shared FROM"
    " (SELECT e.id, e.key, hits.shared FROM"
    " (SELECT search_words.rowid AS entry, sum(asked.value) AS shared"
    " FROM json_each(?1) AS asked CROSS JOIN search_words"
    " WHERE search_words MATCH '\"' || asked.key || '\"' GROUP BY search_words.rowid) AS hits"
    " JOIN search_entries AS e ON e.id = hits.entry AND e.space = ?2"
    " ORDER BY hits.shared DESC, e.key LIMIT {limit:d}) AS best"
    " JOIN search_entries AS e ON e.id = best.id ORDER BY best.shared DESC, best.key"
)
_ENTRY = "e.key, e.text, e.body, e.model, e.updated_us"
_OF_MODEL = "FROM search_entries WHERE space = ? AND model = ? AND dims = ?"
_NEAREST = (
    f"SELECT {_ENTRY}, near.far FROM"
    " (SELECT id, key, round(coalesce(vec_distance_cosine(vector, ?), 1.0), 6) AS far"
    f" {_OF_MODEL} ORDER BY far, key LIMIT {{limit:d}}) AS near"
    " JOIN search_entries AS e ON e.id = near.id ORDER BY near.far, e.key"
)
_BY_ID = f"SELECT {_ENTRY} FROM search_entries AS e WHERE e.space = ? AND e.id = ?"


class PreparedEntry(NamedTuple):
    """An entry and its words."""

    own: OwnEntry
    words: Collection[str]


def put_entries(db: apsw.Connection, entries: Sequence[PreparedEntry], now_us: int) -> None:
    """Store entries in the order of their spaces; `UserError` for a vector of another length than
    those of its model may come after some were written."""
    for name, group in groupby(entries, key=lambda each: each.own.space):
        space = _made_space(db, name)
        words: list[Row] = []
        vectors: dict[str, OwnEntry] = {}
        for own, found in group:
            ((number,),) = query(db, _PUT, _row(space, own, now_us))
            words.append((number, _terms(space, found)))
            if own.vector is not None:
                vectors[own.model] = own
        db.executemany(_PUT_WORDS, words)
        for model, own in vectors.items():
            _check_lengths(db, space, model, own)


def put_vectors(db: apsw.Connection, entries: Sequence[OwnEntry]) -> list[str]:
    """Give entries that have the same text still these vectors; which. Raises as `put_entries`."""
    done: list[str] = []
    for own in entries:
        space = space_number(db, own.space)
        if space is None:
            continue
        _, key, _, model, dims, vector, _, text = _row(space, own, 0)
        db.execute(_PUT_VECTOR, (model, dims, vector, space, key, text))
        if db.changes():
            done.append(own.key)
            _check_lengths(db, space, own.model, own)
    return done


def find_entries(
    db: apsw.Connection,
    name: str,
    *,
    keys: Sequence[str] | None,
    after: str,
    not_of_model: str | None,
    limit: int,
) -> list[SearchEntry]:
    """Entries by key; `keys` are in order."""
    space = space_number(db, name)
    if space is None:
        return []
    if keys is None:
        rows = _listed(db, space, "", (), after, not_of_model, limit)
        return [_entry(name, row) for row in rows]
    found: list[SearchEntry] = []
    for chunk in chunks([key for key in keys if key > after]):
        of_these = f" AND key IN ({','.join('?' * len(chunk))})"
        rows = _listed(db, space, of_these, chunk, after, not_of_model, limit - len(found))
        found += [_entry(name, row) for row in rows]
        if len(found) >= limit:
            break
    return found


def delete_entries(db: apsw.Connection, name: str, keys: Sequence[str] | None) -> int:
    """Remove these, or all of the space; how many there were."""
    space = space_number(db, name)
    if space is None:
        return 0
    count = 0
    for chunk in [()] if keys is None else chunks(keys):
        of_these = "" if keys is None else f" AND key IN ({','.join('?' * len(chunk))})"
        entries = f"FROM search_entries WHERE space = ?{of_these}"
        values = (space, *chunk)
        db.execute(f"DELETE FROM search_words WHERE rowid IN (SELECT id {entries})", values)
        db.execute(f"DELETE {entries}", values)
        count += db.changes()
    db.execute(_DROP_SPACE, (space,))
    return count


def search_text(
    db: apsw.Connection, name: str, asked: Sequence[str], limit: int
) -> list[SearchHit]:
    """The entries with most of the words by weight, the best first."""
    space = space_number(db, name)
    if space is None or not asked:
        return []
    terms = [_term(space, word) for word in asked]
    with db:  # a transaction: what is counted is what is found
        counts = dict.fromkeys(terms, 0) | dict(query(db, _COUNTS, (dumps(terms),)))
        ((texts,),) = query(db, _TEXTS, (space,))
        weight = weights(counts, texts)
        asked_for = dumps({term: weight[term] for term, count in counts.items() if count})
        rows = query(db, _BEST.format(limit=limit), (asked_for, space))
    total = sum(weight.values())
    return [SearchHit(entry=found_entry(name, row), score=row[-1] / total) for row in rows]


def space_number(db: apsw.Connection, name: str) -> int | None:
    """The number that all of the space is found by; `None` if there is nothing in it."""
    if not is_name(name):
        return None
    for (number,) in query(db, "SELECT num FROM search_spaces WHERE name = ?", (name,)):
        return int(number)
    return None


def found_entry(name: str, row: Row) -> SearchEntry:
    """An entry, without its vector, of key, text, body, model and time."""
    key, text, body, model, updated_us = row[:5]
    return SearchEntry(
        space=name,
        key=key,
        text=loads(text),
        body=loads(body),
        model=model or "",
        updated_at_us=updated_us,
    )


def _made_space(db: apsw.Connection, name: str) -> int:
    number = space_number(db, name)
    if number is not None:
        return number
    db.execute("INSERT INTO search_spaces (name) VALUES (?)", (name,))
    return db.last_insert_rowid()


def _row(space: int, own: OwnEntry, now_us: int) -> Row:
    vector = own.vector
    return (
        space,
        own.key,
        now_us,
        None if vector is None else own.model,
        None if vector is None else len(vector),
        None if vector is None else to_bytes(vector),
        own.body,
        dumps(own.text),
    )


def _term(space: int, word: str) -> str:
    """A word of this space only. No word has this dot, and the tokenizer parts at none that is
    not ASCII."""
    return f"{space}·{word}"


def _terms(space: int, words: Iterable[str]) -> str:
    return " ".join([_term(space, word) for word in words])


def _check_lengths(db: apsw.Connection, space: int, model: str, own: OwnEntry) -> None:
    ((least, most),) = query(db, _LENGTHS, (space, model))
    if least != most and own.vector is not None:
        length = len(own.vector)
        raise other_length(own.name, model, length, least if most == length else most)


def _listed(
    db: apsw.Connection,
    space: int,
    of_these: str,
    keys: Sequence[str],
    after: str,
    not_of_model: str | None,
    limit: int,
) -> list[tuple[Any, ...]]:
    of_others = "" if not_of_model is None else " AND (model IS NULL OR model <> ?)"
    return query(
        db,
        "SELECT key, text, body, model, updated_us, vector FROM search_entries"
        f" WHERE space = ? AND key > ?{of_these}{of_others} ORDER BY key LIMIT {limit:d}",
        (space, after, *keys, *(() if not_of_model is None else (not_of_model,))),
    )


def _entry(name: str, row: Row) -> SearchEntry:
    entry, vector = found_entry(name, row), row[5]
    return entry if vector is None else replace(entry, vector=from_bytes(vector))


_versions: WeakKeyDictionary[apsw.Connection, str | None] = WeakKeyDictionary()


def search_vectors(
    db: apsw.Connection, name: str, asked: array[float], model: str, limit: int
) -> list[SearchHit]:
    """The nearest entries with vectors of this model and length, the nearest first."""
    space = space_number(db, name)
    if space is None:
        return []
    of_model = (space, model, len(asked))
    if _extension(db) is None:
        return _computed(db, name, asked, of_model, limit)
    rows = query(db, _NEAREST.format(limit=limit), (to_bytes(asked), *of_model))
    return [
        SearchHit(entry=found_entry(name, row), score=score_of(round(1.0 - row[-1], 6)))
        for row in rows
    ]


def vector_engine(db: apsw.Connection) -> str:
    """What computes the distances on this connection."""
    version = _extension(db)
    return numpy_or_python() if version is None else f"sqlite-vec {version}"


def _computed(
    db: apsw.Connection,
    name: str,
    asked: array[float],
    of_model: tuple[int, str, int],
    limit: int,
) -> list[SearchHit]:
    with db:  # a transaction: what is near is still there when it is read
        rows = query(db, f"SELECT id, key, vector {_OF_MODEL}", of_model)
        near = cosines([row[2] for row in rows], asked)
        best = nsmallest(
            limit, zip(near, rows, strict=True), key=lambda each: (-each[0], each[1][1])
        )
        found = [query(db, _BY_ID, (of_model[0], row[0]))[0] for _, row in best]
    return [
        SearchHit(entry=found_entry(name, row), score=score_of(cosine))
        for (cosine, _), row in zip(best, found, strict=True)
    ]


def _extension(db: apsw.Connection) -> str | None:
    """The version of sqlite-vec on this connection, which is loaded if it can be."""
    if db not in _versions:
        _versions[db] = _load(db)
    return _versions[db]


def _load(db: apsw.Connection) -> str | None:
    try:
        sqlite_vec = import_module("sqlite_vec")
    except ImportError:
        return None
    # Some builds of the engine cannot load anything, and some files do not fit the machine.
    with suppress(AttributeError, apsw.Error):
        db.enable_load_extension(True)
        try:
            db.load_extension(sqlite_vec.loadable_path())
            ((version,),) = query(db, "SELECT vec_version()")
            return str(version)
        finally:
            db.enable_load_extension(False)
    return None


class Searching:
    """Search by words or by meaning; uses the read and write connections of the store."""

    _clock: Clock

    async def put_entries(self, entries: Sequence[SearchEntry]) -> None:
        owned = own_entries(entries)
        if not owned:
            return
        words = await words_of_all([own.text for own in owned])
        prepared = [PreparedEntry(*each) for each in zip(owned, words, strict=True)]
        now_us = self._clock.now_us()
        await self._write(lambda db, _: put_entries(db, prepared, now_us))

    async def put_vectors(self, entries: Sequence[SearchEntry]) -> Sequence[str]:
        owned = own_entries(entries)
        if not owned:
            return ()
        return await self._write(lambda db, _: put_vectors(db, owned))

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
        named = None if keys is None else names_among(keys)
        begin = check_after(after)
        return await self._read(
            lambda db: find_entries(
                db, space, keys=named, after=begin, not_of_model=not_of_model, limit=limit
            )
        )

    async def delete_entries(self, space: str, *, keys: Collection[str] | None = None) -> int:
        named = None if keys is None else names_among(keys)
        return await self._write(lambda db, _: delete_entries(db, space, named))

    async def search_text(self, space: str, query: str, *, limit: int = 10) -> Sequence[SearchHit]:
        check_limit(limit, "entries")
        asked = asked_words(query)
        return await self._read(lambda db: search_text(db, space, asked, limit))

    async def search_vectors(
        self, space: str, vector: Sequence[float], *, model: str, limit: int = 10
    ) -> Sequence[SearchHit]:
        check_limit(limit, "entries")
        asked = own_vector(vector, "the question")
        if not is_name(model):
            return ()
        return await self._read(lambda db: search_vectors(db, space, asked, model, limit))

    async def _read(self, read: Read[T], *, quick: bool = False) -> T:
        raise NotImplementedError

    async def _write(self, work: Work[T]) -> T:
        raise NotImplementedError
