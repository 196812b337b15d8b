"""Deadlocks among stored waits are found, broken, told and recorded."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.bus.deadlocks import (
    DEADLOCKS,
    Deadlock,
    break_deadlock,
    break_deadlocks,
    deadlocks,
    find_present,
)
from ekiden.core.conversation.messages import AgentMessage, error_of
from ekiden.core.documents import from_json, to_json
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import DeadlockError
from ekiden.core.values import dumps
from ekiden.storage.base import MessageFilter, MessageSettle, NewSession, QueuePut
from ekiden.storage.memory import MemoryStore
from tests.unit.bus.asked import ask, open_waits, query, states


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def error_at(store: MemoryStore, name: str) -> DeadlockError:
    """What the asker of this message gets."""
    [row] = await store.find_messages(MessageFilter(keys=[name]))
    asked = AgentMessage(id=name, type="query", from_agent="x", to_agent="y")
    error = error_of(row.answer, asked)
    assert isinstance(error, DeadlockError)
    return error


async def test_the_longest_waiting_victim_gets_an_error_with_the_cycle(
    store: MemoryStore,
) -> None:
    await ask(store, "a>b", "b>c", "c>a")
    found = await break_deadlock(store, "c")
    assert found is not None
    assert (found.cycle, found.victim, found.policy) == (("a", "b", "c", "a"), "a", "longest")
    assert await states(store) == {"a>b": "failed", "b>c": "open", "c>a": "open"}
    error = await error_at(store, "a>b")
    assert (error.cycle, error.victim) == (["a", "b", "c", "a"], "a")
    assert (error.code, error.message_id) == ("bus.deadlock", "a>b")


async def test_without_a_cycle_no_wait_is_changed(store: MemoryStore) -> None:
    await ask(store, "a>b", "b>c|a", "x>x")
    assert await break_deadlock(store, "b") is None
    assert await break_deadlock(store, "nobody") is None
    assert len(await open_waits(store)) == 4
    assert (await store.feed()).events == []


@pytest.mark.parametrize(
    ("policy", "victim"), [("longest", "b"), ("youngest", "a"), ("lowest_priority", "c")]
)
async def test_the_policy_chooses_the_victim(store: MemoryStore, policy: Any, victim: str) -> None:
    for put in (query("b", "c"), query("c", "a", priority=1), query("a", "b", priority=3)):
        await store.put_messages([put])
    found = await break_deadlock(store, "a", policy=policy)
    assert found is not None
    assert (found.victim, found.cycle[0], found.cycle[-1]) == (victim, victim, victim)
    assert len(await open_waits(store)) == 2


async def test_an_unknown_victim_policy_is_refused_before_anything_is_read(
    store: MemoryStore,
) -> None:
    await store.close()
    with pytest.raises(UserError, match="lowest_priority"):
        await break_deadlock(store, "a", policy="random")  # type: ignore[arg-type]


async def test_a_broken_deadlock_is_recorded_with_the_settlement(store: MemoryStore) -> None:
    await ask(store, "a>b", "b>a")
    now_us = await store.now_us()
    found = await break_deadlock(store, "b", now_us=now_us)
    assert found is not None
    assert await deadlocks(store) == [found]
    assert (found.resolved, found.given_up, found.found_at) == (True, ("a>b",), now_us / 1e6)
    assert sorted(found.message_ids) == ["a>b", "b>a"]
    [event] = (await store.feed()).events
    assert (event.session_id, event.type, event.agent) == ("", "message", "a")
    assert event.details == {"deadlock": to_json(found.with_texts({}))}
    assert from_json(Deadlock, to_json(found)) == found


async def test_a_deadlock_names_the_questions_in_the_order_of_the_cycle(store: MemoryStore) -> None:
    await store.put_messages(
        [
            query("b", "丙", subject="Straße? " + "x" * 400),
            query("a", "b", subject="预算？"),
            query("丙", "a"),
            query("a", "d"),
        ]
    )
    [present] = await find_present(store)
    assert {ask.message_id for ask in present.asks} == {"a>b", "b>丙", "丙>a"}
    found = await break_deadlock(store, "a", policy="youngest")
    assert found is not None
    assert to_json(found)["asks"] == [
        {"from": "丙", "to": "a", "message_id": "丙>a", "text": None, "given_up": True},
        {"from": "a", "to": "b", "message_id": "a>b", "text": "预算？", "given_up": False},
        {
            "from": "b",
            "to": "丙",
            "message_id": "b>丙",
            "text": "Straße? " + "x" * 292,
            "given_up": False,
        },
    ]
    assert found.cycle == ("丙", "a", "b", "丙")
    assert await deadlocks(store) == [found]


async def test_questions_of_a_deadlock_are_dropped_when_their_messages_are_removed(
    store: MemoryStore,
) -> None:
    await store.put_messages([query("a", "b", subject="card 4111?"), query("b", "a")])
    found = await break_deadlock(store, "b")
    assert found is not None
    [document] = await store.list_documents(DEADLOCKS)
    assert "card 4111" not in dumps(document.body)
    [event] = (await store.feed()).events
    assert "card 4111" not in dumps(event.to_json())
    [told] = await deadlocks(store)
    assert "card 4111?" in {ask.text for ask in told.asks}
    await store.settle_messages([MessageSettle(key="b>a", state="failed", answer=None)])
    await store.settle_messages([MessageSettle(key="a>b", state="failed", answer=None)])
    await store.prune_messages(before_us=2**60)
    [told] = await deadlocks(store)
    assert {ask.text for ask in told.asks} == {None}
    assert [ask.message_id for ask in told.asks] == [ask.message_id for ask in found.asks]


async def test_a_deadlock_recorded_without_questions_is_readable(store: MemoryStore) -> None:
    await ask(store, "a>b", "b>a")
    found = await break_deadlock(store, "b")
    assert found is not None
    old = {name: value for name, value in to_json(found).items() if name != "asks"}
    assert from_json(Deadlock, old).asks == ()


async def test_a_waiter_that_is_its_own_victim_breaks_both_deadlocks(store: MemoryStore) -> None:
    await ask(store, "b>c", "c>b", "a>b", "a>a")
    found = await break_deadlock(store, "a", policy="youngest")
    assert found is not None
    assert found.victim == "a"
    assert await find_present(store) == []
    assert len(await deadlocks(store)) == 2


async def test_one_wait_can_close_several_cycles(store: MemoryStore) -> None:
    await ask(store, "b>d", "c>d", "d>b", "d>c")
    found = await break_deadlock(store, "d", policy="youngest")
    assert found is not None
    broken = await deadlocks(store)
    assert len(broken) == 2
    assert {each.victim for each in broken} == {"d"}
    assert await open_waits(store) == ["b>d", "c>d"]


async def test_a_victims_group_of_alternatives_fails_as_a_whole(store: MemoryStore) -> None:
    await ask(store, "a>b|c", "b>a", "c>a")
    found = await break_deadlock(store, "c")
    assert found is not None
    assert found.given_up == ("a>b", "a>c")
    assert await open_waits(store) == ["b>a", "c>a"]


async def test_of_waits_that_all_need_an_answer_only_the_one_in_the_cycle_fails(
    store: MemoryStore,
) -> None:
    both = [query("a", name, group=("g", "all")) for name in ("b", "z")]
    await store.put_messages(both)
    await ask(store, "b>a")
    assert await break_deadlock(store, "b") is not None
    assert await open_waits(store) == ["a>z", "b>a"]


async def test_waiting_for_a_person_is_not_a_deadlock(store: MemoryStore) -> None:
    await store.put_messages([query("a", None), query("b", "a")])
    await store.put_messages([query("a", "person:operator", key="p")])
    assert await break_deadlock(store, "b") is None
    await ask(store, "a>b")
    found = await break_deadlock(store, "a")
    assert found is not None
    assert found.given_up == ("b>a",)


async def test_tasks_of_one_agent_do_not_block_each_other(store: MemoryStore) -> None:
    await ask(store, "a#1>b#1", "b#1>a#2", "a#2>c")
    assert await break_deadlock(store, "a#2") is None
    await ask(store, "a#2>b#1")
    found = await break_deadlock(store, "a#2")
    assert found is not None
    assert found.cycle == ("b", "a", "b")


@pytest.mark.parametrize("name", ["会计部", "ロボット🤖", "c#", "a b"])
async def test_a_cycle_names_agents_even_with_odd_names(store: MemoryStore, name: str) -> None:
    puts = [query("x", name), query(name, "x")]
    for put in puts:
        put.body["from_agent"] = put.waiter
    await store.put_messages(puts)
    found = await break_deadlock(store, "x")
    assert found is not None
    assert set(found.cycle) == {"x", name}


async def test_a_wait_that_timed_out_closes_no_cycle(store: MemoryStore) -> None:
    await store.put_messages([query("a", "b", timeout_s=5)])
    await ask(store, "b>a")
    late_us = await store.now_us() + 6_000_000
    assert await break_deadlock(store, "b", now_us=late_us) is None
    assert await break_deadlock(store, "b") is not None


async def test_a_group_ends_when_one_of_its_waits_times_out(store: MemoryStore) -> None:
    short, long = (
        query("a", name, group=("g", "any"), timeout_s=timeout_s)
        for name, timeout_s in (("b", 5), ("c", 50))
    )
    await store.put_messages([short, long])
    await ask(store, "b>a", "c>a")
    late_us = await store.now_us() + 6_000_000
    assert await break_deadlock(store, "b", now_us=late_us) is None


async def test_a_sessions_wait_ends_by_its_timer_and_not_by_its_timeout(
    store: MemoryStore,
) -> None:
    await store.create(NewSession(id="s", agent="a", status="waiting"))
    await store.put_messages([query("a#s", "b#s", timeout_s=5, session_id="s")])
    await ask(store, "b#s>a#s")
    late_us = await store.now_us() + 6_000_000
    found = await break_deadlock(store, "b#s", now_us=late_us)
    assert found is not None
    assert found.victim == "a"
    row = await store.get("s")
    assert (row.status, row.wakes) == ("ready", 1)


async def test_a_group_with_one_answer_waits_no_more(store: MemoryStore) -> None:
    await ask(store, "a>b|c|d", "b>a", "c>a")
    await store.settle_messages([MessageSettle(key="a>d", state="answered", answer={})])
    assert await break_deadlock(store, "c") is None


async def test_a_group_with_one_failure_waits_for_the_others(store: MemoryStore) -> None:
    await ask(store, "a>b|c|d", "b>a", "c>a")
    await store.settle_messages([MessageSettle(key="a>d", state="failed", answer={})])
    found = await break_deadlock(store, "a")
    assert found is not None
    assert found.given_up == ("a>b", "a>c")


@pytest.mark.parametrize(
    "body",
    [
        None,
        "text",
        [],
        {},
        {"awaits": 5},
        {"awaits": ""},
        {"awaits": ["b"], "group": "any"},
    ],
)
async def test_a_message_without_a_valid_target_blocks_no_agent(
    store: MemoryStore, body: Any
) -> None:
    await ask(store, "b>a")
    await store.put_messages([QueuePut(queue="q", body=body, key="odd", waiter="a")])
    assert await break_deadlock(store, "b") is None
    assert await find_present(store) == []


async def test_a_message_with_few_fields_still_counts_as_a_wait(store: MemoryStore) -> None:
    odd = {"awaits": "a#1", "group": ["g"], "timeout_seconds": None, "from_agent": ""}
    await store.put_messages([QueuePut(queue="q", body=odd, key="odd", waiter="a#1")])
    await store.put_messages([QueuePut(queue="q", body=odd, waiter="a#1")])
    found = await break_deadlock(store, "a#1")
    assert found is not None
    assert (found.cycle, found.given_up) == (("a", "a"), ("odd",))


async def test_long_chains_are_followed_to_their_end(store: MemoryStore) -> None:
    await ask(store, *(f"n{number}>n{number + 1}" for number in range(300)))
    assert await break_deadlock(store, "n0") is None
    await ask(store, "n300>n0")
    found = await break_deadlock(store, "n300")
    assert found is not None
    assert (len(found.cycle), found.victim) == (302, "n0")


async def test_more_waits_than_a_page_are_all_read(store: MemoryStore) -> None:
    crowd = [query("hub", f"n{number}") for number in range(1500)]
    await store.put_messages(crowd)
    await store.put_messages([query(f"n{number}", "far") for number in range(1500)])
    assert await break_deadlock(store, "hub") is None
    await ask(store, "far>n1499")
    found = await break_deadlock(store, "far")
    assert found is not None
    assert set(found.cycle) == {"far", "n1499"}


async def test_current_deadlocks_are_listed_before_past_ones(store: MemoryStore) -> None:
    await ask(store, "a>b", "b>a")
    await break_deadlock(store, "b")
    await ask(store, "c>d", "d>c")
    assert [each.cycle for each in await find_present(store)] == [("c", "d", "c")]
    present, past = await deadlocks(store)
    assert (present.resolved, present.victim, present.id) == (False, None, "")
    assert (past.resolved, past.victim) == (True, "a")
    assert [each.cycle for each in await deadlocks(store, limit=1)] == [present.cycle]
    assert [each.victim for each in await break_deadlocks(store)] == ["c"]
    assert await find_present(store) == []


async def test_past_deadlocks_are_listed_newest_first_in_pages(store: MemoryStore) -> None:
    for number in range(5):
        await ask(store, f"n{number}>n{number}")
        await break_deadlock(store, f"n{number}")
    first = await deadlocks(store, limit=3)
    rest = await deadlocks(store, limit=3, after=first[-1].id)
    assert [each.victim for each in [*first, *rest]] == ["n4", "n3", "n2", "n1", "n0"]
