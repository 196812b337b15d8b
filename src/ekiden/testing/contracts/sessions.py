"""The contract of `SessionStore`, and of opening and closing a store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ekiden.core.errors import (
    LeaseLost,
    SessionBusy,
    SessionExists,
    SessionNotFound,
    StoreUnavailable,
    UserError,
)
from ekiden.storage.base import (
    Batch,
    Claim,
    DocumentWrite,
    MessageSettle,
    QueueMessage,
    QueuePut,
    SessionFilter,
    SessionPatch,
    Store,
)
from ekiden.testing.contracts.base import (
    AWKWARD_TEXTS,
    LEASE_S,
    StoreContractBase,
    claimed,
    event,
    new_session,
    step,
)

_CLAIM = Claim(session_id="s", owner="w1", epoch=1, lease_s=LEASE_S)
_MESSAGE = QueueMessage(id=1, queue="q", body=1, priority=0, attempts=1, owner="t")

EVERY_CALL: tuple[Callable[[Store], Awaitable[Any]], ...] = (
    lambda store: store.info(),
    lambda store: store.check_writable(),
    lambda store: store.create(new_session("new")),
    lambda store: store.get("s"),
    lambda store: store.list(),
    lambda store: store.delete("s"),
    lambda store: store.claim("s", owner="w2", lease_s=LEASE_S),
    lambda store: store.claim_next(owner="w2", lease_s=LEASE_S),
    lambda store: store.renew([_CLAIM]),
    lambda store: store.release(_CLAIM),
    lambda store: store.wait_for_change(0),
    lambda store: store.commit(_CLAIM, step(event(1))),
    lambda store: store.events("s"),
    lambda store: store.steps("s"),
    lambda store: store.get_document("c", "k"),
    lambda store: store.write_documents([DocumentWrite(collection="c", key="k", body=1)]),
    lambda store: store.list_documents("c"),
    lambda store: store.put_messages([QueuePut(queue="q", body=1)]),
    lambda store: store.take_messages("q", owner="t", lease_s=LEASE_S),
    lambda store: store.ack_message(_MESSAGE),
    lambda store: store.release_message(_MESSAGE),
    lambda store: store.queue_depth("q"),
    lambda store: store.settle_messages([MessageSettle(key="k", state="answered")]),
    lambda store: store.find_messages(),
    lambda store: store.requeue_messages(["k"]),
    lambda store: store.prune_messages(before_us=1),
    lambda store: store.write(Batch(wakes=["s"])),
    lambda store: store.now_us(),
    lambda store: store.find_events(),
    lambda store: store.feed(),
    lambda store: store.feed_end(),
)
"""All calls of a store, except opening and closing."""


class LifeContract(StoreContractBase):
    """Opening, closing and describing a store."""

    async def test_opening_twice_does_nothing(self, store: Store) -> None:
        await store.create(new_session("s"))
        await store.open()
        assert (await store.get("s")).id == "s"

    async def test_closing_twice_does_nothing(self, other: Store, store: Store) -> None:
        await other.close()
        await other.close()

    async def test_a_closed_store_refuses_every_call(self, other: Store, store: Store) -> None:
        await other.close()
        for call in EVERY_CALL:
            with pytest.raises(StoreUnavailable, match="is closed: open it again"):
                await call(other)

    async def test_a_closed_store_can_be_opened_again(self, other: Store, store: Store) -> None:
        await other.create(new_session("s"))
        await other.close()
        await other.open()
        assert (await other.get("s")).id == "s"
        await other.close()
        async with other:
            assert (await other.get("s")).id == "s"

    async def test_calls_pending_at_the_close_are_stored_or_refused(
        self, other: Store, store: Store
    ) -> None:
        names = [f"s{number}" for number in range(20)]
        creations = [asyncio.ensure_future(other.create(new_session(name))) for name in names]
        await asyncio.sleep(0)
        async with asyncio.timeout(LEASE_S):
            await other.close()
            fates = await asyncio.gather(*creations, return_exceptions=True)
        assert all(fate is None or isinstance(fate, StoreUnavailable) for fate in fates), fates
        await store.open()
        stored = {row.id for row in (await store.list()).sessions}
        assert stored >= {name for name, fate in zip(names, fates, strict=True) if fate is None}

    async def test_closing_ends_waiting_calls(self, other: Store, store: Store) -> None:
        await other.wait_for_change(0)
        waiter = asyncio.ensure_future(other.wait_for_change(2 * LEASE_S))
        await asyncio.sleep(0)
        async with asyncio.timeout(LEASE_S):
            await other.close()
            await waiter

    async def test_async_with_returns_the_store(self, store: Store) -> None:
        async with store as entered:
            assert entered is store
            await store.create(new_session("s"))

    async def test_a_store_has_a_url(self, store: Store) -> None:
        assert store.url

    async def test_info_returns_engine_version_format_and_counts(self, store: Store) -> None:
        claim = await claimed(store)
        await store.commit(claim, step(event(1), event(2)))
        info = await store.info()
        assert info["engine"]
        assert info["version"]
        assert isinstance(info["format"], int)
        assert (info["sessions"], info["events"]) == (1, 2)
        assert list(info["estimated"]) == []

    async def test_check_writable_changes_nothing(self, store: Store, other: Store) -> None:
        await store.create(new_session("s"))
        before = await other.info()
        await store.check_writable()
        await store.check_writable()
        assert await other.info() == before


class SessionContract(StoreContractBase):
    """Sessions as rows."""

    async def test_a_new_session_is_stored_as_given(self, store: Store, other: Store) -> None:
        meta = {"title": "Übergabe 🏃", "labels": ["a", {"b": None}]}
        await store.create(new_session("s", status="ready", user_id="ada", meta=meta))
        row = await other.get("s")
        assert (row.id, row.agent, row.status, row.user_id) == ("s", "triage", "ready", "ada")
        assert row.meta == meta
        assert (row.cursor, row.variables, row.seq, row.epoch) == ({}, {}, 0, 0)
        assert (row.outcome, row.owner) == (None, None)
        assert row.created_at_us == row.updated_at_us > 0

    async def test_omitted_session_fields_have_defaults(self, store: Store) -> None:
        await store.create(new_session("s"))
        row = await store.get("s")
        assert (row.status, row.user_id, row.meta) == ("idle", None, {})

    async def test_any_text_survives_in_meta(self, store: Store) -> None:
        meta = {f"k{number}{text}": text for number, text in enumerate(AWKWARD_TEXTS)}
        await store.create(new_session("s", meta=meta))
        assert (await store.get("s")).meta == meta

    async def test_an_id_is_taken_once(self, store: Store, other: Store) -> None:
        await store.create(new_session("s", user_id="first"))
        with pytest.raises(SessionExists):
            await other.create(new_session("s", user_id="second"))
        assert (await store.get("s")).user_id == "first"

    async def test_of_concurrent_creations_of_one_id_one_succeeds(
        self, store: Store, other: Store
    ) -> None:
        results = await asyncio.gather(
            *((store, other)[n % 2].create(new_session("s")) for n in range(8)),
            return_exceptions=True,
        )
        assert sum(result is None for result in results) == 1
        assert sum(isinstance(result, SessionExists) for result in results) == 7

    async def test_an_unknown_session_is_not_found(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            await store.get("nobody")

    async def test_ids_differ_by_case(self, store: Store) -> None:
        await store.create(new_session("Abc"))
        await store.create(new_session("abc"))
        assert (await store.get("Abc")).id == "Abc"


class ListContract(StoreContractBase):
    """Pages of sessions."""

    async def test_sessions_are_listed_newest_first(self, store: Store) -> None:
        for number in range(3):
            await store.create(new_session(f"s{number}"))
        claim = await claimed(store, "s0")
        await store.commit(claim, step(event(1, "s0"), release=True))
        page = await store.list()
        assert [row.id for row in page.sessions] == ["s2", "s1", "s0"]
        assert page.next_cursor is None

    async def test_an_empty_store_lists_nothing(self, store: Store) -> None:
        page = await store.list()
        assert (list(page.sessions), page.next_cursor) == ([], None)

    async def test_a_listed_row_equals_the_row_of_get(self, store: Store) -> None:
        await claimed(store)
        page = await store.list()
        assert list(page.sessions) == [await store.get("s")]

    async def test_pages_join_without_gap_or_overlap(self, store: Store, other: Store) -> None:
        for number in range(6):
            await store.create(new_session(f"s{number}"))
        seen: list[str] = []
        cursor: str | None = None
        sizes = []
        while True:
            page = await other.list(limit=2, cursor=cursor)
            seen += [row.id for row in page.sessions]
            sizes.append(len(page.sessions))
            if page.next_cursor is None:
                break
            cursor = page.next_cursor
            await store.create(new_session(f"late{len(sizes)}"))
        assert seen == ["s5", "s4", "s3", "s2", "s1", "s0"]
        assert sizes == [2, 2, 2]

    async def test_a_page_can_start_at_a_deleted_session(self, store: Store) -> None:
        for number in range(4):
            await store.create(new_session(f"s{number}"))
        page = await store.list(limit=2)
        await store.delete("s2")
        await store.delete("s1")
        rest = await store.list(limit=2, cursor=page.next_cursor)
        assert [row.id for row in rest.sessions] == ["s0"]

    async def test_filters_restrict_and_combine(self, store: Store) -> None:
        await store.create(new_session("a", status="ready", user_id="ada"))
        await store.create(new_session("b", agent="billing", user_id="ada"))
        await store.create(new_session("c", agent="billing"))
        claim = await claimed(store, "c")
        patch = SessionPatch(outcome="done", conclusion="with_errors", status="waiting")
        await store.commit(claim, step(patch=patch))
        usual = await claimed(store, "b")
        patch = SessionPatch(outcome="done", conclusion="succeeded")
        await store.commit(usual, step(patch=patch))

        async def ids(where: SessionFilter) -> list[str]:
            return [row.id for row in (await store.list(where)).sessions]

        assert await ids(SessionFilter()) == ["c", "b", "a"]
        assert await ids(SessionFilter(status="ready")) == ["a"]
        assert await ids(SessionFilter(status="waiting")) == ["c"]
        assert await ids(SessionFilter(agent="billing")) == ["c", "b"]
        assert await ids(SessionFilter(user_id="ada")) == ["b", "a"]
        assert await ids(SessionFilter(outcome="done")) == ["c", "b"]
        assert await ids(SessionFilter(conclusion="with_errors")) == ["c"]
        assert await ids(SessionFilter(conclusion="with_errors", agent="a")) == []
        assert await ids(SessionFilter(conclusion="succeeded")) == ["b"]
        assert await ids(SessionFilter(conclusion="succeeded", agent="billing")) == ["b"]
        assert await ids(SessionFilter(conclusion="succeeded", user_id="bob")) == []
        assert await ids(SessionFilter(agent="billing", user_id="ada")) == ["b"]
        assert await ids(SessionFilter(user_id="bob")) == []

    async def test_filters_hold_across_pages(self, store: Store) -> None:
        for number in range(6):
            await store.create(new_session(f"s{number}", user_id="ada" if number % 2 else "bob"))
        ada = SessionFilter(user_id="ada")
        first = await store.list(ada, limit=2)
        assert [row.id for row in first.sessions] == ["s5", "s3"]
        last = await store.list(ada, limit=2, cursor=first.next_cursor)
        assert [row.id for row in last.sessions] == ["s1"]
        assert last.next_cursor is None

    @pytest.mark.parametrize("cursor", ["nonsense", "", "1;2", "9" * 40, "-1", "½", "\x00"])
    async def test_a_malformed_cursor_of_sessions_is_the_callers_error(
        self, store: Store, cursor: str
    ) -> None:
        await store.create(new_session("s"))
        with pytest.raises(UserError):
            await store.list(cursor=cursor)


class DeleteContract(StoreContractBase):
    """Removing sessions."""

    async def test_a_deleted_session_is_removed_with_its_events_and_steps(
        self, store: Store, other: Store
    ) -> None:
        claim = await claimed(store)
        await store.commit(claim, step(event(1), steps={"k": 1}, release=True))
        await other.delete("s")
        with pytest.raises(SessionNotFound):
            await store.get("s")
        assert list(await store.events("s")) == []
        assert dict(await store.steps("s")) == {}

    async def test_a_session_can_be_recreated_after_deletion(self, store: Store) -> None:
        claim = await claimed(store)
        await store.commit(claim, step(event(1), steps={"k": 1}, release=True))
        await store.delete("s")
        again = await claimed(store)
        await store.commit(again, step(event(1, agent="new"), steps={"k": 2}))
        assert [each.agent for each in await store.events("s")] == ["new"]
        assert dict(await store.steps("s")) == {"k": 2}

    async def test_only_the_named_session_is_deleted(self, store: Store) -> None:
        for name in ("a", "b", "c"):
            claim = await claimed(store, name)
            await store.commit(claim, step(event(1, name), steps={"k": name}, release=True))
        await store.delete("b")
        for name in ("a", "c"):
            assert len(await store.events(name)) == 1
            assert dict(await store.steps(name)) == {"k": name}

    async def test_an_unknown_session_cannot_be_deleted(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            await store.delete("nobody")

    async def test_a_claimed_session_is_not_deleted(self, store: Store, other: Store) -> None:
        claim = await claimed(store)
        with pytest.raises(SessionBusy) as caught:
            await other.delete("s")
        assert caught.value.owner == "w1"
        await store.commit(claim, step(event(1)))

    async def test_a_session_with_an_expired_lease_can_be_deleted(self, store: Store) -> None:
        claim = await claimed(store)
        await self.expire_leases(store)
        await store.delete("s")
        with pytest.raises(LeaseLost):
            await store.commit(claim, step(event(1)))

    async def test_a_claim_of_a_deleted_session_does_not_hold_for_its_successor(
        self, store: Store
    ) -> None:
        stale = await claimed(store)
        await self.expire_leases(store)
        await store.delete("s")
        await claimed(store)
        with pytest.raises(LeaseLost):
            await store.commit(stale, step(event(1)))
        assert list(await store.renew([stale])) == [stale]
        await store.release(stale)
        with pytest.raises(SessionBusy):
            await store.claim("s", owner="w2", lease_s=LEASE_S)
