"""What the in-memory store promises beyond the contract."""

from typing import Any

import pytest

from ekiden.core.errors import SessionBusy
from ekiden.core.events import Event
from ekiden.storage.base import (
    Commit,
    DocumentWrite,
    MessageSettle,
    NewSession,
    OwnJson,
    QueuePut,
    SessionPatch,
)
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock


async def test_stored_values_cannot_be_changed_from_outside() -> None:
    store = MemoryStore()
    meta: dict[str, Any] = {"labels": ["a"]}
    claim, _ = await store.claim(
        "s", owner="w", lease_s=30, create=NewSession(id="s", agent="a", meta=meta)
    )
    shared: dict[str, Any] = {"list": [1, {"deep": [2]}]}
    await store.commit(
        claim,
        Commit(
            patch=SessionPatch(cursor=shared, variables=shared),
            steps={"k": shared},
            documents=(DocumentWrite(collection="c", key="k", body=shared),),
            messages=(QueuePut(queue="q", body=shared),),
        ),
    )

    async def everything() -> list[Any]:
        row = await store.get("s")
        document = await store.get_document("c", "k")
        assert document is not None
        (listed,) = await store.list_documents("c")
        store.advance(60)
        (taken,) = await store.take_messages("q", owner="t", lease_s=30)
        step = (await store.steps("s"))["k"]
        return [row.cursor, row.variables, step, document.body, listed.body, taken.body, row.meta]

    meta["labels"].append("b")
    shared["list"][1]["deep"].append(3)
    for given in await everything():
        next(iter(given.values())).append("harm")
    *rest, stored_meta = await everything()
    assert rest == [{"list": [1, {"deep": [2]}]}] * 6
    assert stored_meta == {"labels": ["a"]}


async def test_an_event_is_stored_as_the_same_object() -> None:
    store = MemoryStore()
    claim, _ = await store.claim("s", owner="w", lease_s=30, create=NewSession(id="s", agent="a"))
    event = Event(session_id="s", seq=1, type="message", at_us=1)
    await store.commit(claim, Commit(patch=SessionPatch(), events=(event,)))
    assert (await store.events("s"))[0] is event


async def test_a_session_lease_does_not_expire_but_a_message_lease_does() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    await store.claim("s", owner="w", lease_s=30, create=NewSession(id="s", agent="a"))
    await store.put_messages([QueuePut(queue="q", body=1)])
    await store.take_messages("q", owner="t", lease_s=30)
    clock.advance(3600)
    with pytest.raises(SessionBusy):
        await store.claim("s", owner="v", lease_s=30)
    (again,) = await store.take_messages("q", owner="t", lease_s=30)
    assert again.attempts == 2


async def test_acknowledged_messages_free_their_memory() -> None:
    store = MemoryStore()
    for number in range(1000):
        await store.put_messages([QueuePut(queue="q", body=number)])
        (taken,) = await store.take_messages("q", owner="t", lease_s=3600)
        assert taken.body == number
        assert await store.ack_message(taken)
    await store.put_messages([QueuePut(queue="q", body="last", delay_s=5)])
    assert len(store._messages._queues["q"]._later) <= 100
    store.advance(6)
    (last,) = await store.take_messages("q", owner="t", lease_s=30)
    assert last.body == "last"


async def test_a_memory_store_is_not_shared() -> None:
    assert MemoryStore().shared is False


async def test_the_clock_of_a_memory_store_does_not_jump() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    first = await store.now_us()
    assert first == clock.now_us()
    clock.jump(3600)
    assert await store.now_us() == first
    clock.advance(1.5)
    store.advance(2)
    assert await store.now_us() == first + 3_500_000


async def test_json_marked_as_owned_is_stored_without_a_copy() -> None:
    store = MemoryStore()
    body, answer = OwnJson(n=[1]), OwnJson(n=[2])
    await store.put_messages([QueuePut(queue="q", body=body, key="k")])
    await store.settle_messages([MessageSettle(key="k", state="answered", answer=answer)])
    body["n"].append("seen")
    answer["n"].append("seen")
    (row,) = await store.find_messages()
    assert (row.body, row.answer) == ({"n": [1, "seen"]}, {"n": [2, "seen"]})
    row.body["n"].clear()
    assert (await store.find_messages())[0].body == body


async def test_settled_messages_free_their_memory() -> None:
    store = MemoryStore()
    for number in range(1000):
        put = QueuePut(queue="q", body=1, key=f"k{number}", waiter="w", taken_by="t")
        await store.put_messages([put, QueuePut(queue="q", body=2, key=f"l{number}")])
        for name in ("k", "l"):
            await store.settle_messages([MessageSettle(key=f"{name}{number}", state="answered")])
    queue = store._messages._queues["q"]
    assert (len(queue._later), len(queue._line)) <= (100, 100)
    assert store._messages._waiting == {}
    assert await store.prune_messages(before_us=await store.now_us() + 10**6, limit=9999) == 2000
    assert (len(store._messages._by_id), len(store._messages._by_key)) == (0, 0)


async def test_the_events_of_deleted_sessions_free_their_memory() -> None:
    store = MemoryStore()
    for number in range(100):
        name = f"s{number}"
        claim, _ = await store.claim(
            name, owner="w", lease_s=30, create=NewSession(id=name, agent="a")
        )
        events = [Event(session_id=name, seq=seq, type="task", at_us=1) for seq in range(1, 11)]
        commit = Commit(patch=SessionPatch(), events=events, release=True)
        await store.commit(claim, commit)
        await store.delete(name)
    assert store._feed is not None
    assert len(store._feed._log) < 200
    assert await store.feed_end() == "1000"


async def test_a_store_with_one_session_keeps_no_second_event_list() -> None:
    store = MemoryStore()
    claim, _ = await store.claim("s", owner="w", lease_s=30, create=NewSession(id="s", agent="a"))
    events = [Event(session_id="s", seq=1, type="task", at_us=1)]
    await store.commit(claim, Commit(patch=SessionPatch(), events=events))
    assert store._feed is None
    assert (await store.feed()).events == events
