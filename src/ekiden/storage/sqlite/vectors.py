"""Texts that are found by meaning.

The distances of all vectors of a space and model are computed: exact, and quick enough for the
tens of thousands that one space has. With the extension `sqlite-vec` (the extra `vectors`) the
engine does it where the vectors are; without it numpy, or plain Python.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from heapq import nsmallest
from importlib import import_module
from weakref import WeakKeyDictionary

import apsw

from ekiden.storage.base import SearchHit
from ekiden.storage.entries import cosines, numpy_or_python, score_of, to_bytes
from ekiden.storage.sqlite.connection import query
from ekiden.storage.sqlite.search import found_entry, space_number

_ENTRY = "e.key, e.text, e.body, e.model, e.updated_us"
_OF_MODEL = "FROM search_entries WHERE space = ? AND model = ? AND dims = ?"
_NEAREST = (
    f"SELECT {_ENTRY}, near.far FROM"
    " (SELECT id, key, round(coalesce(vec_distance_cosine(vector, ?), 1.0), 6) AS far"
    f" {_OF_MODEL} ORDER BY far, key LIMIT {{limit:d}}) AS near"
    " JOIN search_entries AS e ON e.id = near.id ORDER BY near.far, e.key"
)
_BY_ID = f"SELECT {_ENTRY} FROM search_entries AS e WHERE e.space = ? AND e.id = ?"

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
