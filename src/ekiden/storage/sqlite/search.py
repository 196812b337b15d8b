"""Search entries in SQLite: `SearchStore` by words and vectors."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
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
    CheckedEntry,
    check_after,
    checked_entries,
    cosines,
    from_bytes,
    is_valid_name,
    numpy_or_python,
    query_words,
    score_of,
    to_bytes,
    unit_vector,
    valid_keys,
    weights,
    words_of_all,
    wrong_length,
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

    entry: CheckedEntry
    words: Collection[str]


def put_entries(db: apsw.Connection, entries: Sequence[PreparedEntry], now_us: int) -> None:
    """Store entries that are ordered by space. `UserError` for a vector of another length than
    others of its model may come after some entries were written."""
    for name, group in groupby(entries, key=lambda each: each.entry.space):
        space = _get_or_create_space(db, name)
        rows: list[Row] = []
        entry_of_model: dict[str, CheckedEntry] = {}
        for entry, words in group:
            ((number,),) = query(db, _PUT, _row(space, entry, now_us))
            rows.append((number, " ".join([_term(space, word) for word in words])))
            if entry.vector is not None:
                entry_of_model[entry.model] = entry
        db.executemany(_PUT_WORDS, rows)
        for entry in entry_of_model.values():
            _check_lengths(db, space, entry)


def put_vectors(db: apsw.Connection, entries: Sequence[CheckedEntry]) -> list[str]:
    """Store the vectors of entries whose text is unchanged, and return their keys. Raises as
    `put_entries`."""
    done: list[str] = []
    for entry in entries:
        space = space_number(db, entry.space)
        if space is None:
            continue
        _, key, _, model, dims, vector, _, text = _row(space, entry, 0)
        db.execute(_PUT_VECTOR, (model, dims, vector, space, key, text))
        if db.changes():
            done.append(entry.key)
            _check_lengths(db, space, entry)
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
    """Entries with keys above `after`, ordered by key; `keys` must be in order."""
    space = space_number(db, name)
    if space is None:
        return []
    if keys is None:
        rows = _find(db, space, "", (), after, not_of_model, limit)
        return [_entry(name, row) for row in rows]
    found: list[SearchEntry] = []
    for chunk in chunks([key for key in keys if key > after]):
        and_keys = f" AND key IN ({','.join('?' * len(chunk))})"
        rows = _find(db, space, and_keys, chunk, after, not_of_model, limit - len(found))
        found += [_entry(name, row) for row in rows]
        if len(found) >= limit:
            break
    return found


def delete_entries(db: apsw.Connection, name: str, keys: Sequence[str] | None) -> int:
    """Remove these entries, or all of the space, and return their number."""
    space = space_number(db, name)
    if space is None:
        return 0
    count = 0
    for chunk in [()] if keys is None else chunks(keys):
        and_keys = "" if keys is None else f" AND key IN ({','.join('?' * len(chunk))})"
        entries = f"FROM search_entries WHERE space = ?{and_keys}"
        values = (space, *chunk)
        db.execute(f"DELETE FROM search_words WHERE rowid IN (SELECT id {entries})", values)
        db.execute(f"DELETE {entries}", values)
        count += db.changes()
    db.execute(_DROP_SPACE, (space,))
    return count


def search_text(
    db: apsw.Connection, name: str, words: Sequence[str], limit: int
) -> list[SearchHit]:
    """The entries with the highest weight of shared words, best first."""
    space = space_number(db, name)
    if space is None or not words:
        return []
    terms = [_term(space, word) for word in words]
    with db:  # One transaction: the counts and the hits come from the same state.
        counts = dict.fromkeys(terms, 0) | dict(query(db, _COUNTS, (dumps(terms),)))
        ((texts,),) = query(db, _TEXTS, (space,))
        weight = weights(counts, texts)
        weighted = dumps({term: weight[term] for term, count in counts.items() if count})
        rows = query(db, _BEST.format(limit=limit), (weighted, space))
    total = sum(weight.values())
    return [SearchHit(entry=found_entry(name, row), score=row[-1] / total) for row in rows]


def space_number(db: apsw.Connection, name: str) -> int | None:
    """The number of the space; `None` for a space without entries."""
    if not is_valid_name(name):
        return None
    for (number,) in query(db, "SELECT num FROM search_spaces WHERE name = ?", (name,)):
        return int(number)
    return None


def found_entry(name: str, row: Row) -> SearchEntry:
    """An entry without its vector, from a row that begins with key, text, body, model and time."""
    key, text, body, model, updated_us = row[:5]
    return SearchEntry(
        space=name,
        key=key,
        text=loads(text),
        body=loads(body),
        model=model or "",
        updated_at_us=updated_us,
    )


def _get_or_create_space(db: apsw.Connection, name: str) -> int:
    number = space_number(db, name)
    if number is not None:
        return number
    db.execute("INSERT INTO search_spaces (name) VALUES (?)", (name,))
    return db.last_insert_rowid()


def _row(space: int, entry: CheckedEntry, now_us: int) -> Row:
    vector = entry.vector
    return (
        space,
        entry.key,
        now_us,
        None if vector is None else entry.model,
        None if vector is None else len(vector),
        None if vector is None else to_bytes(vector),
        entry.body,
        dumps(entry.text),
    )


def _term(space: int, word: str) -> str:
    """The word with the number of its space, so that two spaces share no terms. No word has this
    dot, and the tokenizer, which splits only at ASCII characters, keeps the term together."""
    return f"{space}·{word}"


def _check_lengths(db: apsw.Connection, space: int, entry: CheckedEntry) -> None:
    """Compare the shortest and the longest vector of the entry's model after a write."""
    ((shortest, longest),) = query(db, _LENGTHS, (space, entry.model))
    if shortest != longest and entry.vector is not None:
        length = len(entry.vector)
        known = shortest if longest == length else longest
        raise wrong_length(entry.name, entry.model, length, known)


def _find(
    db: apsw.Connection,
    space: int,
    and_keys: str,
    keys: Sequence[str],
    after: str,
    not_of_model: str | None,
    limit: int,
) -> list[tuple[Any, ...]]:
    of_others = "" if not_of_model is None else " AND (model IS NULL OR model <> ?)"
    return query(
        db,
        "SELECT key, text, body, model, updated_us, vector FROM search_entries"
        f" WHERE space = ? AND key > ?{and_keys}{of_others} ORDER BY key LIMIT {limit:d}",
        (space, after, *keys, *(() if not_of_model is None else (not_of_model,))),
    )


def _entry(name: str, row: Row) -> SearchEntry:
    entry, vector = found_entry(name, row), row[5]
    return entry if vector is None else replace(entry, vector=from_bytes(vector))


_versions: WeakKeyDictionary[apsw.Connection, str | None] = WeakKeyDictionary()
"""The version of sqlite-vec on each connection; `None` if it cannot be loaded."""


def search_vectors(
    db: apsw.Connection, name: str, vector: array[float], model: str, limit: int
) -> list[SearchHit]:
    """The entries with the most similar vectors of this model and length, most similar first."""
    space = space_number(db, name)
    if space is None:
        return []
    of_model = (space, model, len(vector))
    if _extension(db) is None:
        return _search_in_python(db, name, vector, of_model, limit)
    rows = query(db, _NEAREST.format(limit=limit), (to_bytes(vector), *of_model))
    return [
        SearchHit(entry=found_entry(name, row), score=score_of(round(1.0 - row[-1], 6)))
        for row in rows
    ]


def vector_engine(db: apsw.Connection) -> str:
    """The implementation that compares vectors on this connection."""
    version = _extension(db)
    return numpy_or_python() if version is None else f"sqlite-vec {version}"


def _search_in_python(
    db: apsw.Connection,
    name: str,
    vector: array[float],
    of_model: tuple[int, str, int],
    limit: int,
) -> list[SearchHit]:
    with db:  # One transaction: the best entries still exist when they are read.
        rows = query(db, f"SELECT id, key, vector {_OF_MODEL}", of_model)
        near = cosines([row[2] for row in rows], vector)
        best = nsmallest(
            limit, zip(near, rows, strict=True), key=lambda each: (-each[0], each[1][1])
        )
        found = [query(db, _BY_ID, (of_model[0], row[0]))[0] for _, row in best]
    return [
        SearchHit(entry=found_entry(name, row), score=score_of(cosine))
        for (cosine, _), row in zip(best, found, strict=True)
    ]


def _extension(db: apsw.Connection) -> str | None:
    """The version of sqlite-vec on this connection, which is loaded at the first call."""
    if db not in _versions:
        _versions[db] = _load(db)
    return _versions[db]


def _load(db: apsw.Connection) -> str | None:
    try:
        sqlite_vec = import_module("sqlite_vec")
    except ImportError:
        return None
    # Some builds of the engine cannot load extensions, and some files do not fit the machine.
    with suppress(AttributeError, apsw.Error):
        db.enable_load_extension(True)
        try:
            db.load_extension(sqlite_vec.loadable_path())
            ((version,),) = query(db, "SELECT vec_version()")
            return str(version)
        finally:
            db.enable_load_extension(False)
    return None


class SqliteSearch:
    """The `SearchStore` part of `SqliteStore`."""

    _clock: Clock

    async def put_entries(self, entries: Sequence[SearchEntry]) -> None:
        checked = checked_entries(entries)
        if not checked:
            return
        words = await words_of_all([entry.text for entry in checked])
        prepared = [PreparedEntry(*each) for each in zip(checked, words, strict=True)]
        now_us = self._clock.now_us()
        await self._write(lambda db, _: put_entries(db, prepared, now_us))

    async def put_vectors(self, entries: Sequence[SearchEntry]) -> Sequence[str]:
        checked = checked_entries(entries)
        if not checked:
            return ()
        return await self._write(lambda db, _: put_vectors(db, checked))

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
        chosen = None if keys is None else valid_keys(keys)
        check_after(after)
        return await self._read(
            lambda db: find_entries(
                db, space, keys=chosen, after=after, not_of_model=not_of_model, limit=limit
            )
        )

    async def delete_entries(self, space: str, *, keys: Collection[str] | None = None) -> int:
        chosen = None if keys is None else valid_keys(keys)
        return await self._write(lambda db, _: delete_entries(db, space, chosen))

    async def search_text(self, space: str, query: str, *, limit: int = 10) -> Sequence[SearchHit]:
        check_limit(limit, "entries")
        words = query_words(query)
        return await self._read(lambda db: search_text(db, space, words, limit))

    async def search_vectors(
        self, space: str, vector: Sequence[float], *, model: str, limit: int = 10
    ) -> Sequence[SearchHit]:
        check_limit(limit, "entries")
        query_vector = unit_vector(vector, "the question")
        if not is_valid_name(model):
            return ()
        return await self._read(lambda db: search_vectors(db, space, query_vector, model, limit))

    async def _read(self, read: Read[T], *, quick: bool = False) -> T:
        raise NotImplementedError

    async def _write(self, work: Work[T]) -> T:
        raise NotImplementedError
