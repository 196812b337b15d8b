"""The contract of `Journal`: fenced commits, events, steps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import get_args

import pytest

from ekiden.core.errors import EkidenError, LeaseLost, QueueFull, StaleDocument, StepConflict
from ekiden.core.events import Event, EventType
from ekiden.storage.base import Commit, DocumentWrite, QueuePut, SessionPatch, Store
from ekiden.testing.contracts.base import (
    AWKWARD_TEXTS,
    LEASE_S,
    StoreContractBase,
    claimed,
    event,
    fields_of,
    new_session,
    snapshot,
    step,
)


def whole_step(seq: int = 2) -> Commit:
    """A commit that changes everything that a commit can change."""
    return Commit(
        patch=SessionPatch(
            agent="billing",
            status="ready",
            outcome="done",
            conclusion="with_errors",
            cursor={"at": 9},
            variables={"v": 9},
        ),
        events=(event(seq),),
        steps={"new": 9},
        documents=(DocumentWrite(collection="c", key="new", body=9),),
        messages=(QueuePut(queue="q", body=9),),
    )


class CommitContract(StoreContractBase):
    """The effects of a commit."""

    async def test_a_commit_stores_all_of_its_parts(self, store: Store, other: Store) -> None:
        claim = await claimed(store)
        created = await store.get("s")
        await store.commit(claim, whole_step(seq=1))
        row = await other.get("s")
        assert (row.agent, row.status, row.outcome) == ("billing", "ready", "done")
        assert row.conclusion == "with_errors"
        assert (row.cursor, row.variables, row.seq) == ({"at": 9}, {"v": 9}, 1)
        assert (row.owner, row.epoch) == ("w1", claim.epoch)
        assert row.created_at_us == created.created_at_us
        assert row.updated_at_us >= created.updated_at_us
        assert [each.seq for each in await other.events("s")] == [1]
        assert dict(await other.steps("s")) == {"new": 9}
        document = await other.get_document("c", "new")
        assert document is not None
        assert (document.body, document.version) == (9, 1)
        taken = await other.take_messages("q", owner="t", lease_s=LEASE_S)
        assert [message.body for message in taken] == [9]

    async def test_fields_missing_in_the_patch_stay_unchanged(self, store: Store) -> None:
        claim = await claimed(store)
        await store.commit(claim, whole_step(seq=1))
        await store.commit(claim, step())
        row = await store.get("s")
        assert (row.agent, row.status, row.outcome) == ("billing", "ready", "done")
        assert row.conclusion == "with_errors"
        assert (row.cursor, row.variables, row.seq) == ({"at": 9}, {"v": 9}, 1)

    async def test_fields_named_in_the_patch_are_replaced(self, store: Store) -> None:
        claim = await claimed(store)
        await store.commit(claim, whole_step(seq=1))
        patch = SessionPatch(agent="a", status="idle", outcome="", cursor={}, variables={"w": [1]})
        await store.commit(claim, step(patch=patch))
        row = await store.get("s")
        assert (row.agent, row.status, row.outcome, row.conclusion) == ("a", "idle", None, None)
        assert (row.cursor, row.variables) == ({}, {"w": [1]})

    async def test_any_text_survives_in_cursor_variables_and_steps(self, store: Store) -> None:
        claim = await claimed(store)
        texts = {f"k{number}": text for number, text in enumerate(AWKWARD_TEXTS)}
        await store.commit(
            claim, step(patch=SessionPatch(cursor=texts, variables=texts), steps=texts)
        )
        row = await store.get("s")
        assert (row.cursor, row.variables) == (texts, texts)
        assert dict(await store.steps("s")) == texts

    async def test_a_commit_renews_the_lease(self, store: Store) -> None:
        claim = await claimed(store)
        for seq in (1, 2, 3):
            await self.advance_clock(store, LEASE_S - 5)
            await store.commit(claim, step(event(seq)))

    async def test_a_commit_can_release_the_claim(self, store: Store, other: Store) -> None:
        claim = await claimed(store)
        await store.commit(claim, step(event(1), release=True))
        assert (await other.get("s")).owner is None
        with pytest.raises(LeaseLost):
            await store.commit(claim, step(event(2)))
        _, row = await other.claim("s", owner="w2", lease_s=LEASE_S)
        assert row.seq == 1

    async def test_sessions_commit_concurrently(self, store: Store, other: Store) -> None:
        async def relay(handle: Store, name: str) -> None:
            claim = await claimed(handle, name)
            for seq in range(1, 6):
                await handle.commit(claim, step(event(seq, name), steps={f"k{seq}": name}))

        names = [f"s{number}" for number in range(12)]
        await asyncio.gather(*(relay((store, other)[n % 2], name) for n, name in enumerate(names)))
        for name in names:
            assert [each.seq for each in await store.events(name)] == [1, 2, 3, 4, 5]
            assert set((await store.steps(name)).values()) == {name}

    async def test_a_refused_commit_does_not_affect_concurrent_commits(self, store: Store) -> None:
        names = [f"s{number}" for number in range(8)]
        claims = [await claimed(store, name) for name in names]
        await store.release(claims[3])
        results = await asyncio.gather(
            *(store.commit(claim, step(event(1, claim.session_id))) for claim in claims),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [
            LeaseLost if number == 3 else type(None) for number in range(8)
        ]
        counts = [len(await store.events(name)) for name in names]
        assert counts == [1, 1, 1, 0, 1, 1, 1, 1]


class FencingContract(StoreContractBase):
    """Refused writes, which change nothing."""

    async def test_a_claim_that_was_taken_over_writes_nothing(
        self, store: Store, other: Store
    ) -> None:
        lost = await claimed(store)
        await store.commit(lost, step(event(1)))
        await self.expire_leases(store)
        await other.claim("s", owner="w2", lease_s=LEASE_S)
        before = await snapshot(store)
        with pytest.raises(LeaseLost):
            await store.commit(lost, whole_step())
        assert await snapshot(store) == before

    async def test_the_same_owner_with_an_older_epoch_writes_nothing(self, store: Store) -> None:
        lost = await claimed(store)
        await store.commit(lost, step(event(1)))
        await store.release(lost)
        current, _ = await store.claim("s", owner=lost.owner, lease_s=LEASE_S)
        before = await snapshot(store)
        with pytest.raises(LeaseLost):
            await store.commit(lost, whole_step())
        assert await snapshot(store) == before
        await store.commit(current, whole_step())

    async def test_another_owner_with_the_same_epoch_writes_nothing(self, store: Store) -> None:
        claim = await claimed(store)
        before = await snapshot(store)
        with pytest.raises(LeaseLost):
            await store.commit(replace(claim, owner="impostor"), whole_step(seq=1))
        assert await snapshot(store) == before
        await store.commit(claim, whole_step(seq=1))

    async def test_an_expired_claim_writes_nothing(self, store: Store) -> None:
        claim = await claimed(store)
        await store.commit(claim, step(event(1)))
        await self.expire_leases(store)
        before = await snapshot(store)
        with pytest.raises(LeaseLost):
            await store.commit(claim, whole_step())
        assert await snapshot(store) == before

    async def test_a_lost_lease_is_reported_before_other_conflicts(self, store: Store) -> None:
        claim = await claimed(store)
        await store.commit(claim, step(event(1), steps={"k": 1}))
        await store.release(claim)
        with pytest.raises(LeaseLost):
            await store.commit(claim, step(event(1), steps={"k": 1}))

    async def test_an_event_number_is_stored_once(self, store: Store) -> None:
        await self._refused(store, StepConflict, whole_step(seq=1))

    async def test_an_event_number_may_not_leave_a_gap(self, store: Store) -> None:
        await self._refused(store, StepConflict, whole_step(seq=3))
        await self._again(store, StepConflict, step(event(2), event(4)))

    async def test_a_step_key_is_stored_once(self, store: Store) -> None:
        commit = whole_step()
        both = {"other": 1, "old": 2}
        await self._refused(store, StepConflict, step(event(2), steps=both))
        await self._again(
            store,
            StepConflict,
            step(
                *commit.events,
                patch=commit.patch,
                steps=both,
                documents=commit.documents,
                messages=commit.messages,
            ),
        )

    async def test_a_stale_document_refuses_the_whole_commit(self, store: Store) -> None:
        writes = (
            DocumentWrite(collection="c", key="new", body=1),
            DocumentWrite(collection="c", key="old", body=2, expected_version=7),
        )
        await self._refused(
            store,
            StaleDocument,
            step(
                event(2),
                patch=whole_step().patch,
                steps={"new": 1},
                documents=writes,
                messages=(QueuePut(queue="q", body=1),),
            ),
        )

    async def test_a_full_queue_refuses_the_whole_commit(self, store: Store) -> None:
        await self._refused(
            store,
            QueueFull,
            step(
                event(2),
                patch=whole_step().patch,
                steps={"new": 1},
                documents=(DocumentWrite(collection="c", key="new", body=1),),
                messages=(QueuePut(queue="q", body=1), QueuePut(queue="q", body=2, bound=2)),
            ),
        )

    async def _refused(self, store: Store, error: type[EkidenError], commit: Commit) -> None:
        """The commit is refused after a first one that stored event 1, step, document, message."""
        claim = await claimed(store)
        await store.commit(
            claim,
            step(
                event(1),
                steps={"old": 1},
                documents=(DocumentWrite(collection="c", key="old", body=1),),
                messages=(QueuePut(queue="q", body=1),),
            ),
        )
        await store.release(claim)
        await self._again(store, error, commit)

    async def _again(self, store: Store, error: type[EkidenError], commit: Commit) -> None:
        claim, _ = await store.claim("s", owner="w1", lease_s=LEASE_S)
        before = await snapshot(store)
        with pytest.raises(error):
            await store.commit(claim, commit)
        assert await snapshot(store) == before
        await store.commit(claim, step(release=True))


class EventContract(StoreContractBase):
    """Reading events back."""

    async def test_events_are_returned_in_order_with_all_fields(
        self, store: Store, other: Store
    ) -> None:
        events = [
            Event(
                session_id="s",
                seq=seq,
                type=type,
                at_us=1_700_000_000_000_000 + seq,
                agent=f"agent{seq}",
                step=f"t1/m{seq}",
                duration_us=seq * 1_000_000_007,
                details={"n": seq, "deep": [{"a": [None, True, 1.5, {"b": {}}]}]},
                items=({"role": "user", "content": f"{seq}"}, {"type": "x", "list": [1, [2]]}),
                error=f"broken {seq}",
            )
            for seq, type in enumerate(get_args(EventType), start=1)
        ]
        claim = await claimed(store)
        await store.commit(claim, step(*events[:1]))
        await store.commit(claim, step(*events[1:]))
        assert fields_of(await other.events("s")) == fields_of(events)

    async def test_empty_event_fields_stay_empty(self, store: Store) -> None:
        claim = await claimed(store)
        bare = event(1)
        await store.commit(claim, step(bare))
        assert fields_of(await store.events("s")) == fields_of([bare])

    async def test_any_text_survives_in_an_event(self, store: Store, other: Store) -> None:
        claim = await claimed(store)
        events = [
            event(
                seq,
                details={"text": text, f"key {text}": [text]},
                items=({"role": "user", "content": text},),
                error=text,
            )
            for seq, text in enumerate(AWKWARD_TEXTS, start=1)
        ]
        await store.commit(claim, step(*events))
        assert fields_of(await other.events("s")) == fields_of(events)

    async def test_names_of_any_language_survive_in_an_event(self, store: Store) -> None:
        claim = await claimed(store)
        named = event(1, agent="Übersetzer 訳 🏃", step="schritt/ß/%_'")
        await store.commit(claim, step(named))
        assert fields_of(await store.events("s")) == fields_of([named])

    async def test_a_megabyte_of_text_survives(self, store: Store, other: Store) -> None:
        claim = await claimed(store)
        long = event(1, items=({"role": "user", "content": "ü" * 1_000_000},))
        await store.commit(claim, step(long, event(2)))
        assert fields_of(await other.events("s")) == fields_of([long, event(2)])

    async def test_large_and_negative_numbers_survive(self, store: Store) -> None:
        claim = await claimed(store)
        numbers = event(1, details={"n": [2**63, -(2**70), 1e300, -0.5]}, duration_us=2**40)
        await store.commit(claim, step(numbers))
        assert fields_of(await store.events("s")) == fields_of([numbers])

    async def test_events_are_read_in_pages(self, store: Store) -> None:
        claim = await claimed(store)
        await store.commit(claim, step(*(event(seq) for seq in range(1, 8))))

        async def seqs(after: int, limit: int | None) -> list[int]:
            return [each.seq for each in await store.events("s", after=after, limit=limit)]

        assert await seqs(0, 3) == [1, 2, 3]
        assert await seqs(3, 3) == [4, 5, 6]
        assert await seqs(6, 3) == [7]
        assert await seqs(4, None) == [5, 6, 7]
        assert await seqs(7, None) == []

    async def test_events_that_carry_items_can_be_read_alone(self, store: Store) -> None:
        claim = await claimed(store)
        said = ({"role": "user", "content": "hi"},)
        events = [event(seq, items=said if seq % 2 else ()) for seq in range(1, 6)]
        await store.commit(claim, step(*events))
        read = await store.events("s", with_items=True)
        assert [each.seq for each in read] == [1, 3, 5]
        read = await store.events("s", after=1, limit=1, with_items=True)
        assert [each.seq for each in read] == [3]

    async def test_events_that_remove_items_are_read_with_events_that_carry_items(
        self, store: Store
    ) -> None:
        claim = await claimed(store)
        undoing = event(3, details={"undoes": [1, 2]})
        await store.commit(claim, step(event(1), event(2), undoing))
        [read] = await store.events("s", with_items=True)
        assert (read.seq, read.items) == (3, ())

    async def test_a_session_sees_only_its_own_events(self, store: Store) -> None:
        for name in ("a", "b"):
            claim = await claimed(store, name)
            await store.commit(claim, step(event(1, name, agent=name), event(2, name)))
        assert [each.session_id for each in await store.events("a")] == ["a", "a"]

    async def test_an_unknown_session_has_no_events_and_no_steps(self, store: Store) -> None:
        assert list(await store.events("nobody")) == []
        assert dict(await store.steps("nobody")) == {}


class StepContract(StoreContractBase):
    """Stored step results."""

    async def test_step_results_are_returned_by_key(self, store: Store, other: Store) -> None:
        claim = await claimed(store)
        results = {"a": None, "b": [1, {"c": "d"}], "ü/🏃": "text", "": 0}
        await store.commit(claim, step(steps={"a": None, "b": [1, {"c": "d"}]}))
        await store.commit(claim, step(steps={"ü/🏃": "text", "": 0}))
        assert dict(await other.steps("s")) == results

    @pytest.mark.parametrize(
        ("prefix", "expected"),
        [
            ("", {"t1/m", "t1/x", "t10", "T1/m", "t_1", "txx", "50%", "50x", "ü", "🏃a"}),
            ("t1/", {"t1/m", "t1/x"}),
            ("t1", {"t1/m", "t1/x", "t10"}),
            ("t_", {"t_1"}),
            ("50%", {"50%"}),
            ("ü", {"ü"}),
            ("🏃", {"🏃a"}),
            ("t1/m", {"t1/m"}),
            ("t1/mm", set()),
        ],
    )
    async def test_step_keys_are_selected_by_a_literal_prefix(
        self, store: Store, prefix: str, expected: set[str]
    ) -> None:
        claim = await claimed(store)
        keys = ("t1/m", "t1/x", "t10", "T1/m", "t_1", "txx", "50%", "50x", "ü", "🏃a")
        await store.commit(claim, step(steps=dict.fromkeys(keys, 1)))
        assert set(await store.steps("s", prefix=prefix)) == expected

    async def test_step_results_of_sessions_are_separate(self, store: Store) -> None:
        for name in ("a", "b"):
            claim = await claimed(store, name)
            await store.commit(claim, step(steps={"k": name}))
        assert dict(await store.steps("a")) == {"k": "a"}

    async def test_the_journal_of_a_session_can_be_read_while_it_is_claimed(
        self, store: Store, other: Store
    ) -> None:
        await store.create(new_session("s"))
        claim = await claimed(store)
        await store.commit(claim, step(event(1), steps={"k": 1}))
        assert len(await other.events("s")) == 1
        assert dict(await other.steps("s")) == {"k": 1}
