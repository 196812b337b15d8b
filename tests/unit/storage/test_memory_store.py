"""What the in-memory store promises beyond the contract."""

from typing import Any

import pytest

from ekiden.core.errors import SessionBusy
from ekiden.core.events import Event
from ekiden.storage.base import Commit, DocumentWrite, NewSession, QueuePut, SessionPatch
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock


async def test_nobody_can_change_what_is_stored_from_outside() -> None:
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


async def test_an_event_is_kept_as_the_object_it_is() -> None:
    store = MemoryStore()
    claim, _ = await store.claim("s", owner="w", lease_s=30, create=NewSession(id="s", agent="a"))
    event = Event(session_id="s", seq=1, type="message", at_us=1)
    await store.commit(claim, Commit(patch=SessionPatch(), events=(event,)))
    assert (await store.events("s"))[0] is event


async def test_a_lease_does_not_end_by_itself_but_a_message_comes_back() -> None:
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


async def test_acknowledged_messages_leave_nothing_behind() -> None:
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


async def test_it_is_not_shared() -> None:
    assert MemoryStore().shared is False
