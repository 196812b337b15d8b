"""The store as `SearchStore`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from ekiden.core.roles import Clock
from ekiden.storage.base import SearchEntry, SearchHit
from ekiden.storage.entries import check_after, is_name, names_among, own_entries, own_vector
from ekiden.storage.sqlite import search
from ekiden.storage.sqlite import search as vectors
from ekiden.storage.sqlite.readers import Read
from ekiden.storage.sqlite.writer import Work
from ekiden.storage.values import check_limit
from ekiden.storage.words import asked_words, words_of_all

T = TypeVar("T")


class Searching:
    """Texts by words or meaning, over the readers and the writer of the store."""

    _clock: Clock

    async def put_entries(self, entries: Sequence[SearchEntry]) -> None:
        owned = own_entries(entries)
        if not owned:
            return
        words = await words_of_all([own.text for own in owned])
        prepared = [search.PreparedEntry(*each) for each in zip(owned, words, strict=True)]
        now_us = self._clock.now_us()
        await self._write(lambda db, _: search.put_entries(db, prepared, now_us))

    async def put_vectors(self, entries: Sequence[SearchEntry]) -> Sequence[str]:
        owned = own_entries(entries)
        if not owned:
            return ()
        return await self._write(lambda db, _: search.put_vectors(db, owned))

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
            lambda db: search.find_entries(
                db, space, keys=named, after=begin, not_of_model=not_of_model, limit=limit
            )
        )

    async def delete_entries(self, space: str, *, keys: Collection[str] | None = None) -> int:
        named = None if keys is None else names_among(keys)
        return await self._write(lambda db, _: search.delete_entries(db, space, named))

    async def search_text(self, space: str, query: str, *, limit: int = 10) -> Sequence[SearchHit]:
        check_limit(limit, "entries")
        asked = asked_words(query)
        return await self._read(lambda db: search.search_text(db, space, asked, limit))

    async def search_vectors(
        self, space: str, vector: Sequence[float], *, model: str, limit: int = 10
    ) -> Sequence[SearchHit]:
        check_limit(limit, "entries")
        asked = own_vector(vector, "the question")
        if not is_name(model):
            return ()
        return await self._read(lambda db: vectors.search_vectors(db, space, asked, model, limit))

    async def _read(self, read: Read[T], *, quick: bool = False) -> T:
        raise NotImplementedError

    async def _write(self, work: Work[T]) -> T:
        raise NotImplementedError
