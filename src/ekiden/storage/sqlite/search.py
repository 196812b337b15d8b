"""Texts that are found by words: SQL for writing, listing and finding them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import apsw

from ekiden.core.jsonio import dumps, loads
from ekiden.storage.base import SearchEntry, SearchHit
from ekiden.storage.entries import OwnEntry, from_bytes, is_name, other_length, to_bytes
from ekiden.storage.sqlite.connection import query
from ekiden.storage.sqlite.rows import Row, chunks
from ekiden.storage.words import weights

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
