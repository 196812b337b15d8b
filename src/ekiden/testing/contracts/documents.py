"""The contract of `DocumentStore`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.errors import StaleDocument
from ekiden.storage.base import DocumentWrite, Store
from ekiden.testing.contracts.base import AWKWARD_TEXTS, StoreContractBase


def put(key: str, body: Any, expected: int | None = None, collection: str = "c") -> DocumentWrite:
    """A write to collection `c`."""
    return DocumentWrite(collection=collection, key=key, body=body, expected_version=expected)


def drop(key: str, expected: int | None = None) -> DocumentWrite:
    """A deletion from collection `c`."""
    return put(key, None, expected)


class DocumentContract(StoreContractBase):
    """Versioned documents."""

    async def test_a_missing_document_is_none(self, store: Store) -> None:
        assert await store.get_document("c", "k") is None

    async def test_a_document_comes_back_with_its_version(self, store: Store, other: Store) -> None:
        body = {"a": [1, 2.5, None, {"b": True}], "texts": list(AWKWARD_TEXTS)}
        await store.write_documents([put("k", body)])
        document = await other.get_document("c", "k")
        assert document is not None
        assert (document.collection, document.key, document.body) == ("c", "k", body)
        assert document.version == 1
        assert document.updated_at_us > 0

    @pytest.mark.parametrize("body", [0, False, "", [], {}, "text", 1.5])
    async def test_a_body_may_be_any_json_but_null(self, store: Store, body: Any) -> None:
        await store.write_documents([put("k", body)])
        document = await store.get_document("c", "k")
        assert document is not None
        assert document.body == body
        assert type(document.body) is type(body)

    async def test_each_write_counts_one_version(self, store: Store, other: Store) -> None:
        for number in range(3):
            await (store, other)[number % 2].write_documents([put("k", number)])
        assert await self._version(store, "k") == 3

    async def test_the_expected_version_must_be_there(self, store: Store, other: Store) -> None:
        await store.write_documents([put("k", "a", 0)])
        await store.write_documents([put("k", "b", 1)])
        with pytest.raises(StaleDocument) as caught:
            await other.write_documents([put("k", "c", 1)])
        assert (caught.value.expected, caught.value.found) == (1, 2)
        document = await store.get_document("c", "k")
        assert document is not None
        assert (document.body, document.version) == ("b", 2)

    async def test_expecting_nothing_refuses_what_exists(self, store: Store) -> None:
        await store.write_documents([put("k", 1)])
        with pytest.raises(StaleDocument):
            await store.write_documents([put("k", 2, 0)])

    async def test_expecting_something_refuses_what_does_not_exist(self, store: Store) -> None:
        with pytest.raises(StaleDocument) as caught:
            await store.write_documents([put("k", 2, 1)])
        assert caught.value.found == 0
        with pytest.raises(StaleDocument):
            await store.write_documents([drop("k", 1)])

    async def test_a_deleted_document_is_gone_and_begins_anew(self, store: Store) -> None:
        await store.write_documents([put("k", 1), put("k", 2)])
        await store.write_documents([drop("k", 2)])
        assert await store.get_document("c", "k") is None
        await store.write_documents([put("k", 3, 0)])
        assert await self._version(store, "k") == 1

    async def test_deleting_whatever_is_there_is_fine_when_nothing_is(self, store: Store) -> None:
        await store.write_documents([drop("k")])

    async def test_a_deletion_checks_the_version(self, store: Store) -> None:
        await store.write_documents([put("k", 1)])
        with pytest.raises(StaleDocument):
            await store.write_documents([drop("k", 2)])
        assert await self._version(store, "k") == 1

    async def test_all_writes_happen_or_none(self, store: Store) -> None:
        await store.write_documents([put("a", 1)])
        with pytest.raises(StaleDocument):
            await store.write_documents([put("b", 1), drop("a"), put("c", 1, 5)])
        assert [each.key for each in await store.list_documents("c")] == ["a"]

    async def test_of_many_who_expect_one_version_one_wins(
        self, store: Store, other: Store
    ) -> None:
        results = await asyncio.gather(
            *((store, other)[n % 2].write_documents([put("k", n, 0)]) for n in range(8)),
            return_exceptions=True,
        )
        assert sum(result is None for result in results) == 1
        assert sum(isinstance(result, StaleDocument) for result in results) == 7

    async def test_collections_are_apart(self, store: Store) -> None:
        await store.write_documents([put("k", 1), put("k", 2, 0, collection="d")])
        assert [each.body for each in await store.list_documents("c")] == [1]
        assert [each.body for each in await store.list_documents("d")] == [2]

    async def test_documents_are_listed_by_key_in_code_point_order(self, store: Store) -> None:
        keys = ["b", "B", "a", "é", "e", "🏃", "_", "%", "a/1", "a/2", "\uffff"]
        await store.write_documents([put(key, key) for key in keys])
        listed = await store.list_documents("c")
        assert [each.key for each in listed] == sorted(keys)
        assert [each.body for each in listed] == sorted(keys)

    async def test_listing_takes_prefix_after_and_limit(self, store: Store) -> None:
        await store.write_documents([put(key, 1) for key in ("a", "p%1", "p%2", "p%3", "pp1", "q")])

        async def keys(**options: Any) -> list[str]:
            return [each.key for each in await store.list_documents("c", **options)]

        assert await keys(prefix="p%") == ["p%1", "p%2", "p%3"]
        assert await keys(prefix="p%", after="p%1") == ["p%2", "p%3"]
        assert await keys(prefix="p%", after="p%1", limit=1) == ["p%2"]
        assert await keys(after="p%3") == ["pp1", "q"]
        assert await keys(limit=2) == ["a", "p%1"]
        assert await keys(prefix="z") == []
        assert await keys(prefix="p", after="z") == []

    async def _version(self, store: Store, key: str) -> int:
        document = await store.get_document("c", key)
        assert document is not None
        return document.version
