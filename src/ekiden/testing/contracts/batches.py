"""The contract of batches, session openings, and the store's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ekiden.core.errors import (
    EkidenError,
    LeaseLost,
    QueueFull,
    SessionExists,
    StaleDocument,
    StepConflict,
    UserError,
)
from ekiden.core.events import Event
from ekiden.storage.base import (
    Batch,
    Commit,
    DocumentWrite,
    MessageFilter,
    MessageSettle,
    SessionOpening,
    SessionPatch,
    Store,
    Written,
)
from ekiden.testing.contracts.base import (
    LEASE_S,
    StoreContractBase,
    claimed,
    event,
    fields_of,
    new_session,
    snapshot,
    step,
)
from ekiden.testing.contracts.queues import message, stored
from ekiden.testing.contracts.wake_ups import status_of, suspended


def free_event(at_us: int = 1, **fields: Any) -> Event:
    """An event without a session and without a number."""
    return Event(**{"session_id": "", "seq": 0, "type": "inbox", "at_us": at_us, **fields})


def opening(session_id: str = "new", *events: Event, **fields: Any) -> SessionOpening:
    """The opening of a new session, which is ready."""
    return SessionOpening(
        new=new_session(session_id, status="ready"),
        events=events or (event(1, session_id), event(2, session_id)),
        **fields,
    )


def document(key: str, body: Any = 1, **fields: Any) -> DocumentWrite:
    """A document in collection `c`."""
    return DocumentWrite(collection="c", key=key, body=body, **fields)


def whole_batch(**instead: Any) -> Batch:
    """A batch with all kinds of changes. Message `k` must be open, and session
    `s` must be waiting."""
    return Batch(
        **{
            "documents": [document("new")],
            "messages": [message(9, key="new")],
            "settles": [MessageSettle(key="k", state="answered", answer=9)],
            "openings": [opening()],
            "wakes": ["s"],
            "events": [free_event()],
            **instead,
        }
    )


async def everything(store: Store) -> list[Any]:
    """Everything that `whole_batch` can change."""
    return [
        await snapshot(store),
        list(await store.find_messages()),
        list((await store.list()).sessions),
        fields_of(await store.events("")),
        fields_of(await store.events("new")),
        await store.feed_end(),
    ]


REFUSED: dict[str, tuple[type[EkidenError], dict[str, Any]]] = {
    "stale document": (
        StaleDocument,
        {"documents": [document("new"), document("there", expected_version=7)]},
    ),
    "full queue": (QueueFull, {"messages": [message(1, key="new"), message(2, bound=1)]}),
    "session that is there": (SessionExists, {"openings": [opening(), opening("s")]}),
    "session twice": (SessionExists, {"openings": [opening(), opening()]}),
    "session without an id": (UserError, {"openings": [opening(), opening("")]}),
    "wrong numbers": (StepConflict, {"openings": [opening("new", event(2, "new"))]}),
    "document that is not JSON": (UserError, {"documents": [document("new", object())]}),
    "message that is not JSON": (UserError, {"messages": [message(object())]}),
    "answer that is not JSON": (
        UserError,
        {"settles": [MessageSettle(key="k", state="answered", answer=object())]},
    ),
    "no end": (UserError, {"settles": [MessageSettle(key="k", state="open")]}),
    "cursor that is not JSON": (UserError, {"openings": [opening(cursor={"a": object()})]}),
    "variables that are not JSON": (UserError, {"openings": [opening(variables={"a": object()})]}),
}
"""Parts that make a store refuse the whole batch, by reason. Each has its error and the parts."""

_each_refusal = pytest.mark.parametrize("why", REFUSED)


class BatchContract(StoreContractBase):
    """Writes without the claim of a session."""

    async def test_a_batch_stores_all_of_its_parts(self, store: Store, other: Store) -> None:
        await suspended(store)
        await store.put_messages([message(1, key="k", session_id="s")])
        written = await store.write(whole_batch())
        found = await other.get_document("c", "new")
        assert found is not None
        assert found.body == 1
        new = await stored(other, "new")
        assert (new.body, new.state) == (9, "open")
        assert [(each.id, each.is_new) for each in written.receipts] == [(new.id, True)]
        assert list(written.settled) == ["settled"]
        assert (await stored(other)).answer == 9
        assert await status_of(other) == ("ready", 2)
        assert (await other.get("new")).seq == 2
        assert [each.event_id for each in await other.events("")] == ["/1"]

    async def test_an_empty_batch_changes_nothing(self, store: Store) -> None:
        written = await store.write(Batch())
        assert (list(written.receipts), list(written.settled)) == ([], [])
        assert (await store.info())["events"] == 0

    async def test_a_batch_returns_the_result_of_each_part(self, store: Store) -> None:
        first = await store.write(Batch(messages=[message(1, key="k"), message(1, dedup_key="d")]))
        again = await store.write(
            Batch(
                messages=[message(2, dedup_key="d"), message(2, key="k"), message(2, key="l")],
                settles=[
                    MessageSettle(key="nobody", state="failed"),
                    MessageSettle(key="k", state="cancelled"),
                    MessageSettle(key="k", state="answered"),
                ],
            )
        )
        assert [each.is_new for each in first.receipts] == [True, True]
        assert [each.is_new for each in again.receipts] == [False, False, True]
        assert [each.id for each in again.receipts[:2]] == [0, first.receipts[0].id]
        assert list(again.settled) == ["no", "settled", "late"]

    async def test_a_batch_can_settle_its_messages_and_wake_its_sessions(
        self, store: Store
    ) -> None:
        written = await store.write(
            Batch(
                messages=[message(1, key="k")],
                settles=[MessageSettle(key="k", state="answered", answer=2)],
                openings=[SessionOpening(new=new_session("new", status="waiting"))],
                wakes=["new"],
            )
        )
        assert list(written.settled) == ["settled"]
        assert (await stored(store)).answer == 2
        assert await status_of(store, "new") == ("ready", 1)

    @_each_refusal
    async def test_a_refused_batch_changes_nothing(self, store: Store, why: str) -> None:
        await suspended(store)
        await store.write(
            Batch(documents=[document("there")], messages=[message(1, key="k", session_id="s")])
        )
        before = await everything(store)
        error, parts = REFUSED[why]
        with pytest.raises(error):
            await store.write(whole_batch(**parts))
        assert await everything(store) == before
        await store.write(whole_batch())

    async def test_a_refused_batch_does_not_affect_concurrent_batches(
        self, store: Store, other: Store
    ) -> None:
        await store.write(Batch(documents=[document("there")]))
        stale = Batch(
            documents=[document("new"), document("there", expected_version=7)],
            events=[free_event()],
        )
        fine = [
            Batch(documents=[document(f"d{n}")], messages=[message(n, key=f"k{n}")])
            for n in range(5)
        ]
        results = await asyncio.gather(
            *(store.write(each) for each in (stale, *fine, stale)), return_exceptions=True
        )
        assert [type(result) for result in results] == [
            StaleDocument,
            *[Written] * 5,
            StaleDocument,
        ]
        assert len(await other.find_messages()) == 5
        assert await other.get_document("c", "new") is None
        assert list(await other.events("")) == []

    async def test_of_two_batches_expecting_the_same_version_one_is_written(
        self, store: Store, other: Store
    ) -> None:
        await store.write(Batch(documents=[document("d")]))
        results = await asyncio.gather(
            *(
                handle.write(
                    Batch(
                        documents=[document("d", n, expected_version=1)],
                        events=[free_event(n)],
                        messages=[message(n)],
                    )
                )
                for n, handle in enumerate((store, other))
            ),
            return_exceptions=True,
        )
        assert sorted(type(result).__name__ for result in results) == ["StaleDocument", "Written"]
        assert len(await store.events("")) == 1
        assert await store.queue_depth("q") == 1

    async def test_a_batch_cannot_contain_session_events(self, store: Store) -> None:
        await store.create(new_session("s"))
        with pytest.raises(UserError, match="session 's'"):
            await store.write(Batch(events=[event(1, "s")], documents=[document("d")]))
        assert list(await store.list_documents("c")) == []


class OpeningContract(StoreContractBase):
    """Sessions that are created together with other writes."""

    async def test_a_session_is_opened_with_its_events_and_state(
        self, store: Store, other: Store
    ) -> None:
        events = (
            event(1, "new", details={"n": 1}, items=({"role": "user", "content": "你好"},)),
            event(2, "new", "agent_start", agent="sales"),
        )
        made = SessionOpening(
            new=new_session("new", agent="sales", user_id="u", meta={"a": [1]}),
            events=events,
            cursor={"at": [1]},
            variables={"v": {"x": None}},
        )
        await store.write(Batch(openings=[made, SessionOpening(new=new_session("bare"))]))
        row = await other.get("new")
        assert (row.agent, row.status, row.user_id, row.meta) == ("sales", "idle", "u", {"a": [1]})
        assert (row.cursor, row.variables, row.seq) == ({"at": [1]}, {"v": {"x": None}}, 2)
        assert (row.epoch, row.owner, row.wakes, row.outcome) == (0, None, 0, None)
        assert row.created_at_us == row.updated_at_us > 0
        assert fields_of(await other.events("new")) == fields_of(events)
        bare = await other.get("bare")
        assert (bare.seq, bare.cursor, bare.variables) == (0, {}, {})
        page = await other.list()
        assert [each.id for each in page.sessions] == ["bare", "new"]

    async def test_an_opened_session_can_be_claimed_and_committed(
        self, store: Store, other: Store
    ) -> None:
        await store.write(Batch(openings=[opening()]))
        found = await other.claim_next(owner="w2", lease_s=LEASE_S)
        assert found is not None
        assert found[1].id == "new"
        await other.commit(found[0], step(event(3, "new")))
        assert [each.seq for each in await store.events("new")] == [1, 2, 3]

    async def test_a_commit_opens_and_asks_a_session_and_suspends_its_own(
        self, store: Store, other: Store
    ) -> None:
        claim = await claimed(store)
        ask = Commit(
            patch=SessionPatch(status="waiting", cursor={"at": 1}),
            events=(event(1),),
            messages=(message("?", key="k", waiter="pm", session_id="s"),),
            openings=(opening(),),
            seen_wakes=0,
            release=True,
        )
        await store.commit(claim, ask)
        assert await status_of(other) == ("waiting", 0)
        found = await other.claim_next(owner="w2", lease_s=LEASE_S)
        assert found is not None
        answer = Commit(
            patch=SessionPatch(status="idle", outcome="done"),
            events=(event(3, "new"),),
            settles=(MessageSettle(key="k", state="answered", answer="!"),),
            release=True,
        )
        await other.commit(found[0], answer)
        assert (await stored(store)).answer == "!"
        assert await status_of(store) == ("ready", 1)

    async def test_a_commit_can_wake_other_sessions(self, store: Store) -> None:
        await suspended(store, "a")
        await suspended(store, "b")
        await store.commit(await claimed(store), step(wakes=("a", "nobody", "b")))
        assert await status_of(store, "a") == ("ready", 1)
        assert await status_of(store, "b") == ("ready", 1)

    async def test_a_session_whose_commit_settles_its_own_message_does_not_wait(
        self, store: Store
    ) -> None:
        claim = await claimed(store)
        await store.put_messages([message(1, key="k", session_id="s")])
        settles = (MessageSettle(key="k", state="cancelled"),)
        suspend = step(patch=SessionPatch(status="waiting"), settles=settles, seen_wakes=0)
        await store.commit(claim, suspend)
        assert await status_of(store) == ("ready", 1)

    @_each_refusal
    async def test_a_refused_commit_changes_nothing(self, store: Store, why: str) -> None:
        await suspended(store, "a")
        claim = await claimed(store)
        await store.write(
            Batch(documents=[document("there")], messages=[message(1, key="k", session_id="a")])
        )
        before = await everything(store)
        error, parts = REFUSED[why]
        batch = whole_batch(**parts)

        def commit(**instead: Any) -> Commit:
            return step(
                event(1),
                patch=SessionPatch(status="waiting", cursor={"at": 9}),
                **{
                    "steps": {"k": 1},
                    "documents": batch.documents,
                    "messages": batch.messages,
                    "settles": batch.settles,
                    "openings": batch.openings,
                    "wakes": ["a"],
                    **instead,
                },
            )

        with pytest.raises(error):
            await store.commit(claim, commit())
        assert await everything(store) == before
        await store.commit(claim, step(event(1)))

    async def test_a_commit_after_a_lost_lease_settles_opens_and_wakes_nothing(
        self, store: Store
    ) -> None:
        await suspended(store, "a")
        lost = await claimed(store)
        await store.put_messages([message(1, key="k", session_id="a")])
        await self.expire_leases(store)
        await claimed(store, owner="w2")
        before = await everything(store)
        whole = whole_batch()
        late = step(
            event(1),
            documents=whole.documents,
            messages=whole.messages,
            settles=whole.settles,
            openings=whole.openings,
            wakes=("a",),
        )
        with pytest.raises(LeaseLost):
            await store.commit(lost, late)
        assert await everything(store) == before

    async def test_concurrent_commits_that_settle_one_message_are_atomic(
        self, store: Store, other: Store
    ) -> None:
        """One of the sessions settles the message. The commits of all sessions are stored."""
        claims = [await claimed(store, f"s{n}") for n in range(6)]
        await suspended(store, "asker")
        await store.put_messages([message(1, key="k", session_id="asker")])
        commits = [
            step(
                event(1, claim.session_id),
                settles=(MessageSettle(key="k", state="answered", answer=claim.session_id),),
            )
            for claim in claims
        ]
        await asyncio.gather(
            *(store.commit(claim, commit) for claim, commit in zip(claims, commits, strict=True))
        )
        assert await status_of(other, "asker") == ("ready", 1)
        assert [len(await other.events(f"s{n}")) for n in range(6)] == [1] * 6

    @pytest.mark.parametrize(
        "make",
        [
            lambda store: store.create(new_session("")),
            lambda store: store.claim("", owner="w", lease_s=LEASE_S, create=new_session("")),
        ],
    )
    async def test_a_session_needs_an_id(self, store: Store, make: Callable[[Store], Any]) -> None:
        with pytest.raises(UserError, match="needs an id"):
            await make(store)
        assert list((await store.list()).sessions) == []


class ClockContract(StoreContractBase):
    """The store's own time."""

    async def test_all_connections_of_a_store_read_the_same_clock(
        self, store: Store, other: Store
    ) -> None:
        times = [await handle.now_us() for handle in (store, other) * 3]
        assert times == sorted(times)
        assert times[0] > 1_500_000_000_000_000

    async def test_message_times_come_from_the_clock_of_the_store(
        self, store: Store, other: Store
    ) -> None:
        before = await store.now_us()
        await other.put_messages([message(1, key="k")])
        (row,) = await store.find_messages(MessageFilter())
        assert before <= row.created_at_us <= await store.now_us()
