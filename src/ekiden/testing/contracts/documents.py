"""The contract of `DocumentStore`, and the refusal of values that are not JSON."""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import Any

import pytest

from ekiden.core.errors import StaleDocument, UserError
from ekiden.storage.base import Commit, DocumentWrite, QueuePut, SessionPatch, Store
from ekiden.testing.contracts.base import (
    AWKWARD_TEXTS,
    LEASE_S,
    StoreContractBase,
    claimed,
    event,
    new_session,
    snapshot,
    step,
)


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
    async def test_a_document_body_may_be_any_json_but_null(self, store: Store, body: Any) -> None:
        await store.write_documents([put("k", body)])
        document = await store.get_document("c", "k")
        assert document is not None
        assert document.body == body
        assert type(document.body) is type(body)

    async def test_each_write_increments_the_version(self, store: Store, other: Store) -> None:
        for number in range(3):
            await (store, other)[number % 2].write_documents([put("k", number)])
        assert await self._version(store, "k") == 3

    async def test_a_write_with_a_stale_expected_version_is_refused(
        self, store: Store, other: Store
    ) -> None:
        await store.write_documents([put("k", "a", 0)])
        await store.write_documents([put("k", "b", 1)])
        with pytest.raises(StaleDocument) as caught:
            await other.write_documents([put("k", "c", 1)])
        assert (caught.value.expected, caught.value.found) == (1, 2)
        document = await store.get_document("c", "k")
        assert document is not None
        assert (document.body, document.version) == ("b", 2)

    async def test_a_write_expecting_no_document_is_refused_if_one_exists(
        self, store: Store
    ) -> None:
        await store.write_documents([put("k", 1)])
        with pytest.raises(StaleDocument):
            await store.write_documents([put("k", 2, 0)])

    async def test_a_write_expecting_a_version_is_refused_without_a_document(
        self, store: Store
    ) -> None:
        with pytest.raises(StaleDocument) as caught:
            await store.write_documents([put("k", 2, 1)])
        assert caught.value.found == 0
        with pytest.raises(StaleDocument):
            await store.write_documents([drop("k", 1)])

    async def test_a_deleted_document_restarts_at_version_one(self, store: Store) -> None:
        await store.write_documents([put("k", 1), put("k", 2)])
        await store.write_documents([drop("k", 2)])
        assert await store.get_document("c", "k") is None
        await store.write_documents([put("k", 3, 0)])
        assert await self._version(store, "k") == 1

    async def test_deleting_a_missing_document_succeeds(self, store: Store) -> None:
        await store.write_documents([drop("k")])

    async def test_a_deletion_checks_the_expected_version(self, store: Store) -> None:
        await store.write_documents([put("k", 1)])
        with pytest.raises(StaleDocument):
            await store.write_documents([drop("k", 2)])
        assert await self._version(store, "k") == 1

    async def test_document_writes_are_atomic(self, store: Store) -> None:
        await store.write_documents([put("a", 1)])
        with pytest.raises(StaleDocument):
            await store.write_documents([put("b", 1), drop("a"), put("c", 1, 5)])
        assert [each.key for each in await store.list_documents("c")] == ["a"]

    async def test_of_concurrent_writes_expecting_one_version_one_succeeds(
        self, store: Store, other: Store
    ) -> None:
        results = await asyncio.gather(
            *((store, other)[n % 2].write_documents([put("k", n, 0)]) for n in range(8)),
            return_exceptions=True,
        )
        assert sum(result is None for result in results) == 1
        assert sum(isinstance(result, StaleDocument) for result in results) == 7

    async def test_collections_are_separate(self, store: Store) -> None:
        await store.write_documents([put("k", 1), put("k", 2, 0, collection="d")])
        assert [each.body for each in await store.list_documents("c")] == [1]
        assert [each.body for each in await store.list_documents("d")] == [2]

    async def test_documents_are_listed_by_key_in_code_point_order(self, store: Store) -> None:
        keys = ["b", "B", "a", "é", "e", "🏃", "_", "%", "a/1", "a/2", "\uffff"]
        await store.write_documents([put(key, key) for key in keys])
        listed = await store.list_documents("c")
        assert [each.key for each in listed] == sorted(keys)
        assert [each.body for each in listed] == sorted(keys)

    async def test_listing_honours_prefix_after_and_limit(self, store: Store) -> None:
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


def _circle() -> dict[str, Any]:
    circle: dict[str, Any] = {}
    circle["round"] = [circle]
    return circle


NOT_JSON = {
    "not a number": float("nan"),
    "infinite": float("-inf"),
    "object": object(),
    "bytes": b"text",
    "set": {1, 2},
    "key": {(1, 2): 3},
    "circle": _circle(),
}


def bad_commits(value: Any) -> dict[str, Commit]:
    """Commits with `value` in one place each, by the name of the place in the error message."""
    deep = {"fine": 1, "deep": [0, value]}
    return {
        "the cursor of session 's'": step(event(2), patch=SessionPatch(cursor=deep)),
        "`variables` of session 's'": step(event(2), patch=SessionPatch(variables=deep)),
        "step 'k2' of session 's'": step(event(2), steps={"k1": 1, "k2": deep}),
        "document c/k2": step(
            event(2),
            steps={"k1": 1},
            documents=(
                DocumentWrite(collection="c", key="k1", body=1),
                DocumentWrite(collection="c", key="k2", body=deep),
            ),
        ),
        "queue 'q'": step(
            event(2),
            documents=(DocumentWrite(collection="c", key="k1", body=1),),
            messages=(QueuePut(queue="q", body=1), QueuePut(queue="q", body=deep, bound=9)),
        ),
    }


def bad_events(value: Any) -> dict[str, Commit]:
    """Commits with `value` in an event, by the name of the place in the error message."""
    deep = {"fine": 1, "deep": [0, value]}
    return {
        "`details` of <Event s/3": step(event(2), event(3, details=deep)),
        "`items` of <Event s/3": step(event(2), event(3, items=({"role": "user"}, deep))),
    }


_each_kind = pytest.mark.parametrize("kind", NOT_JSON)


class JsonContract(StoreContractBase):
    """Values that are not JSON, or that JSON represents differently."""

    @_each_kind
    async def test_a_commit_with_values_that_are_not_json_names_them_and_stores_nothing(
        self, store: Store, kind: str
    ) -> None:
        claim = await claimed(store)
        await store.commit(claim, step(event(1)))
        before = await snapshot(store)
        commits = bad_commits(NOT_JSON[kind])
        if self.looks_into_events:
            commits |= bad_events(NOT_JSON[kind])
        for named, commit in commits.items():
            with pytest.raises(UserError) as caught:
                await store.commit(claim, commit)
            assert named in str(caught.value)
            assert "['deep'][1]" in str(caught.value)
            assert caught.value.code == "user.error"
        assert await snapshot(store) == before
        await store.commit(claim, step(event(2)))

    @_each_kind
    async def test_a_session_whose_meta_is_not_json_is_not_created(
        self, store: Store, kind: str
    ) -> None:
        new = new_session("s", meta={"bad": NOT_JSON[kind]})
        with pytest.raises(UserError, match="`meta` of session 's'"):
            await store.create(new)
        with pytest.raises(UserError, match="`meta` of session 's'"):
            await store.claim("s", owner="w1", lease_s=LEASE_S, create=new)
        assert list((await store.list()).sessions) == []

    @_each_kind
    async def test_documents_and_messages_that_are_not_json_are_not_stored(
        self, store: Store, kind: str
    ) -> None:
        bodies = ({"fine": 1}, NOT_JSON[kind])
        with pytest.raises(UserError, match="document c/k1"):
            await store.write_documents(
                [DocumentWrite(collection="c", key=f"k{n}", body=b) for n, b in enumerate(bodies)]
            )
        with pytest.raises(UserError, match="queue 'q'"):
            await store.put_messages([QueuePut(queue="q", body=body) for body in bodies])
        assert list(await store.list_documents("c")) == []
        assert await store.queue_depth("q") == 0

    async def test_tuples_and_mappings_are_returned_as_plain_json(self, store: Store) -> None:
        claim = await claimed(store)
        given = {"pair": (1, (2.5, None)), "by number": {1: "a", None: "b"}}
        frozen = MappingProxyType(given)
        await store.commit(
            claim, step(patch=SessionPatch(cursor=frozen, variables=frozen), steps={"k": given})
        )
        stored = {"pair": [1, [2.5, None]], "by number": {"1": "a", "null": "b"}}
        row = await store.get("s")
        assert (row.cursor, row.variables) == (stored, stored)
        assert dict(await store.steps("s")) == {"k": stored}
