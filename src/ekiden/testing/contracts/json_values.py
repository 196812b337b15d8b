"""The contract of what is stored as JSON: anything else is refused, and nothing is stored."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.storage.base import Commit, DocumentWrite, QueuePut, SessionPatch, Store
from ekiden.testing.contracts.base import (
    LEASE_S,
    StoreContractBase,
    claimed,
    event,
    new_session,
    snapshot,
    step,
)


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
    """Commits with `value` in one place each, by what a message about it must name."""
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
    """Commits with `value` in an event, by what a message about it must name."""
    deep = {"fine": 1, "deep": [0, value]}
    return {
        "`details` of <Event s/3": step(event(2), event(3, details=deep)),
        "`items` of <Event s/3": step(event(2), event(3, items=({"role": "user"}, deep))),
    }


_each_kind = pytest.mark.parametrize("kind", NOT_JSON)


class JsonContract(StoreContractBase):
    """Values that JSON does not have, or has in another form."""

    @_each_kind
    async def test_a_commit_with_what_is_not_json_names_it_and_stores_nothing(
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
    async def test_a_session_with_what_is_not_json_is_not_created(
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

    async def test_what_python_has_more_kinds_of_comes_back_as_json(self, store: Store) -> None:
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
