"""Texts in an SQLite file: what computes the distances, and that the words follow the entries."""

import asyncio
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from ekiden.core.errors import UserError
from ekiden.storage.base import SearchEntry, SearchHit
from ekiden.storage.sqlite import SqliteStore
from ekiden.storage.sqlite.search import vector_engine
from tests.support.sqlite import execute

ENGINES = ("sqlite-vec", "numpy", "python")


def without(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """Take away what is quicker than this engine."""
    for module in {"sqlite-vec": (), "numpy": ("sqlite_vec",)}.get(engine, ("sqlite_vec", "numpy")):
        monkeypatch.setitem(sys.modules, module, None)


def entries(count: int = 40, dims: int = 24) -> list[SearchEntry]:
    chance = random.Random(1)
    return [
        SearchEntry(
            space="s",
            key=f"{number:03}",
            text=f"tea {number}",
            body=number,
            vector=[chance.gauss(0, 1) for _ in range(dims)],
            model="m",
        )
        for number in range(count)
    ]


async def nearest(store: SqliteStore) -> list[tuple[str, float]]:
    hits: list[SearchHit] = []
    for number in range(5):
        asked = [random.Random(number).gauss(0, 1) for _ in range(24)]
        hits += await store.search_vectors("s", asked, model="m", limit=7)
    hits += await store.search_vectors("s", [0.0] * 24, model="m", limit=7)
    return [(hit.entry.key, round(hit.score, 5)) for hit in hits]


@pytest.mark.parametrize("engine", ENGINES[1:])
async def test_every_vector_engine_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    pytest.importorskip("sqlite_vec")
    path = tmp_path / "ekiden.db"
    zeros = SearchEntry(space="s", key="zero", text="", vector=[0.0] * 24, model="m")
    async with SqliteStore(path) as store:
        await store.put_entries([*entries(), zeros])
        assert (await store.info())["vectors"].startswith("sqlite-vec v")
        expected = await nearest(store)
    without(monkeypatch, engine)
    async with SqliteStore(path) as store:
        assert (await store.info())["vectors"].startswith(engine)
        assert await nearest(store) == expected


@pytest.mark.parametrize("engine", ENGINES)
async def test_each_vector_engine_separates_spaces_models_and_lengths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    without(monkeypatch, engine)
    async with SqliteStore(tmp_path / "ekiden.db") as store:
        places: list[tuple[str, str, list[float]]] = [
            ("s", "m", [1.0, 0.0]),
            ("s", "n", [1.0, 0.0, 0.0]),
            ("t", "m", [1.0]),
        ]
        for space, model, vector in places:
            new = SearchEntry(space=space, key=model, text="", vector=vector, model=model)
            await store.put_entries([new])
        for space, model, vector in places:
            (hit,) = await store.search_vectors(space, vector, model=model)
            assert (hit.entry.space, hit.entry.key, hit.score) == (space, model, 1.0)
        assert list(await store.search_vectors("s", [1.0], model="m")) == []
        assert list(await store.search_vectors("u", [1.0], model="m")) == []


def test_no_further_extension_can_be_loaded(tmp_path: Path) -> None:
    sqlite_vec = pytest.importorskip("sqlite_vec")
    db = apsw.Connection(str(tmp_path / "x.db"))
    assert vector_engine(db).startswith("sqlite-vec")
    assert vector_engine(db) == vector_engine(db)
    with pytest.raises(apsw.Error):
        db.load_extension(sqlite_vec.loadable_path())
    with pytest.raises(apsw.Error):
        db.execute("SELECT load_extension(?)", (sqlite_vec.loadable_path(),)).fetchall()
    db.close()


async def test_a_vector_extension_that_fails_to_load_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = SimpleNamespace(loadable_path=lambda: str(tmp_path / "no such file"))
    monkeypatch.setitem(sys.modules, "sqlite_vec", broken)
    async with SqliteStore(tmp_path / "ekiden.db") as store:
        await store.put_entries(entries())
        assert "sqlite-vec" not in (await store.info())["vectors"]
        assert len(await store.search_vectors("s", [1.0] * 24, model="m")) == 10


def check_index(path: Path) -> None:
    """The words are those of the entries that there are, and nothing is damaged."""
    ids = execute(path, "SELECT id FROM search_entries ORDER BY 1")
    assert execute(path, "SELECT rowid FROM search_words ORDER BY 1") == ids
    spaces = "SELECT num FROM search_spaces ORDER BY 1"
    assert execute(path, spaces) == execute(path, "SELECT DISTINCT space FROM search_entries")
    assert execute(path, "PRAGMA integrity_check") == [("ok",)]
    execute(path, "INSERT INTO search_words (search_words) VALUES ('integrity-check')")


async def test_the_word_index_follows_every_change(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    async with SqliteStore(path) as store:
        await store.put_entries(entries())
        await store.put_entries(entries(20))
        await store.delete_entries("s", keys=[f"{number:03}" for number in range(0, 40, 3)])
        await store.put_entries([SearchEntry(space="t", key="k", text="tea")])
        check_index(path)
        assert (await store.info())["search_entries"] == 27
        await store.delete_entries("s")
        check_index(path)
        await store.delete_entries("t", keys=["k"])
        check_index(path)
        assert execute(path, "SELECT count(*) FROM search_spaces") == [(0,)]


async def test_an_invalid_put_does_not_affect_others_in_its_group(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    async with SqliteStore(path) as store:
        await store.put_entries(entries(1))
        short = SearchEntry(space="s", key="bad", text="bad", vector=[1.0], model="m")
        puts = [
            store.put_entries([SearchEntry(space="s", key=f"k{number}", text="cup")])
            for number in range(10)
        ]
        results: list[Any] = await asyncio.gather(
            *puts[:5], store.put_entries([short]), *puts[5:], return_exceptions=True
        )
        assert [type(result) for result in results if result is not None] == [UserError]
        assert len(await store.search_text("s", "cup", limit=50)) == 10
        assert list(await store.search_text("s", "bad")) == []
        check_index(path)


async def test_the_text_of_a_removed_space_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    async with SqliteStore(path) as store:
        await store.put_entries([SearchEntry(space="user-4711", key="k", text="tea")])
        await store.delete_entries("user-4711")
    assert execute(path, "SELECT * FROM search_spaces") == []
