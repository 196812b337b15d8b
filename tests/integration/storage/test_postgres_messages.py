"""Messages with keys are put and settled once, whatever happens to the connection."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ekiden.core.errors import StoreUnavailable
from ekiden.storage.base import (
    MessageFilter,
    MessageSettle,
    NewSession,
    QueuePut,
    Settled,
    StoredMessage,
)
from ekiden.storage.postgres import PostgresStore, database, queues
from tests.support.proxy import Proxy
from tests.support.sql import connect, execute, until_blocked

ANSWER = MessageSettle(key="k", state="answered", answer={"n": 1})
TIME_OUT = MessageSettle(key="k", state="timed_out")
FORGET = MessageSettle(key="k", state="answered", forget=True)


def message(key: str | None = "k", **fields: Any) -> QueuePut:
    return QueuePut(**{"queue": "q", "body": 1, "key": key, "session_id": "s", **fields})


async def only(store: PostgresStore) -> StoredMessage:
    (found,) = await store.find_messages()
    return found


@pytest.mark.parametrize("bound", [None, 2])
async def test_a_message_whose_answer_was_lost_is_put_once_and_reported_as_new(
    far: PostgresStore, near: PostgresStore, proxy: Proxy, bound: int | None
) -> None:
    await far.put_messages([message("warm", bound=bound)])
    before = proxy.requests
    await far.put_messages([message("warm", bound=bound)])
    proxy.strike("lose_answer", after=proxy.requests - before - 1 if bound else 0)
    twice = [message("k", bound=bound), message("k", bound=bound)]
    first, second = await far.put_messages(twice)
    assert proxy.struck.is_set()
    assert (first.is_new, second.is_new) == (True, False)
    assert first.id == second.id == (await near.find_messages(after=1))[0].id
    (again,) = await near.put_messages([message("k", bound=bound)])
    assert (again.id, again.is_new) == (first.id, False)
    assert await near.queue_depth("q") == 2


async def test_messages_with_a_missing_key_are_not_put_again(
    far: PostgresStore, near: PostgresStore, proxy: Proxy
) -> None:
    await far.put_messages([message("a")])
    proxy.strike("lose_answer")
    with pytest.raises(StoreUnavailable, match="was lost"):
        await far.put_messages([message("b"), message(None)])
    assert await near.queue_depth("q") == 3


async def test_an_unreachable_database_leaves_the_outcome_unknown(
    far: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SETTLE_S", 0.05)
    await far.put_messages([message()])
    await far.settle_messages([TIME_OUT])
    proxy.strike("lose_answer")
    await proxy.close_port()
    with pytest.raises(StoreUnavailable, match="not known: settle the messages again"):
        await far.settle_messages([ANSWER])
    with pytest.raises(StoreUnavailable, match="cannot reach"):
        await far.put_messages([message()])


async def test_puts_to_an_unreachable_database_have_an_unknown_outcome(
    far: PostgresStore, near: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SETTLE_S", 0.05)
    await far.put_messages([message("a")])
    proxy.strike("lose_answer")
    await proxy.close_port()
    with pytest.raises(StoreUnavailable, match="not known: put them again"):
        await far.put_messages([message("b")])
    assert await near.queue_depth("q") == 2


@pytest.mark.parametrize(
    ("before", "settle", "result", "wakes"),
    [
        ([], ANSWER, "settled", 1),
        ([], TIME_OUT, "settled", 1),
        ([], FORGET, "settled", 0),
        ([TIME_OUT], ANSWER, "late", 1),
        ([ANSWER], TIME_OUT, "no", 1),
        ([TIME_OUT, ANSWER], MessageSettle(key="k", state="failed", answer=2), "no", 1),
        ([ANSWER], MessageSettle(key="k", state="dead"), "no", 1),
    ],
)
async def test_a_settlement_whose_answer_was_lost_returns_its_result(
    far: PostgresStore,
    near: PostgresStore,
    proxy: Proxy,
    before: list[MessageSettle],
    settle: MessageSettle,
    result: Settled,
    wakes: int,
) -> None:
    await near.create(NewSession(id="s", agent="a", status="waiting"))
    await near.put_messages([message()])
    await near.settle_messages(before)
    for unknown in (ANSWER, FORGET):
        await far.settle_messages([MessageSettle(key="?", state="dead", forget=unknown.forget)])
    proxy.strike("lose_answer")
    assert await far.settle_messages([settle]) == [result]
    assert proxy.struck.is_set()
    assert (await near.get("s")).wakes == wakes


class TestSettledMeanwhile:
    """Another settles the message before the first one knows what became of its settlement."""

    async def test_an_answer_after_a_timeout_settlement_is_late(
        self, far: PostgresStore, near: PostgresStore, proxy: Proxy
    ) -> None:
        settling = await self.break_off(far, near, proxy, "lose_answer")
        assert await near.settle_messages([ANSWER]) == ["late"]
        proxy.gate.set()
        assert await settling == ["settled"]
        assert (await only(near)).state == "late"

    async def test_an_answer_before_a_timeout_settlement_counts(
        self, far: PostgresStore, near: PostgresStore, proxy: Proxy
    ) -> None:
        settling = await self.break_off(far, near, proxy, "hold_request")
        assert await near.settle_messages([ANSWER]) == ["settled"]
        proxy.gate.set()
        assert await settling == ["no"]
        await proxy.deliver()
        found = await only(near)
        assert (found.state, found.answer) == ("answered", {"n": 1})

    async def break_off(
        self, far: PostgresStore, near: PostgresStore, proxy: Proxy, fault: str
    ) -> "asyncio.Task[list[Settled]]":
        await near.put_messages([message()])
        await far.settle_messages([MessageSettle(key="?", state="dead")])
        assert fault in ("lose_answer", "hold_request")
        proxy.strike("lose_answer" if fault == "lose_answer" else "hold_request")
        proxy.gate.clear()

        async def settle() -> list[Settled]:
            return list(await far.settle_messages([TIME_OUT]))

        settling = asyncio.create_task(settle())
        await proxy.struck.wait()
        return settling


async def test_several_settlements_whose_answer_was_lost_return_their_results(
    far: PostgresStore, near: PostgresStore, proxy: Proxy
) -> None:
    await near.put_messages([message(), message("l"), message("m")])
    ends = [
        MessageSettle(key="m", state="dead"),
        TIME_OUT,
        ANSWER,
        MessageSettle(key="l", state="answered", forget=True),
        MessageSettle(key="nothing", state="dead"),
    ]
    nothing = [replace(end, key=f"?{end.key}") for end in ends]
    await far.settle_messages(nothing)
    before = proxy.requests
    await far.settle_messages(nothing)
    proxy.strike("lose_answer", after=proxy.requests - before - 1)
    assert await far.settle_messages(ends) == ["settled", "settled", "late", "settled", "no"]
    assert proxy.struck.is_set()


async def test_a_put_waits_for_a_concurrent_put_of_the_same_key(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    await postgres_store.open()
    rival = await connect(postgres_url)
    async with rival.transaction():
        number = await rival.fetchval(
            "insert into messages (queue, priority, due_at, body, key)"
            " values ('q', 0, now(), '1', 'k') returning id"
        )
        putting = asyncio.create_task(postgres_store.put_messages([message(), message("l")]))
        await until_blocked(postgres_url)
    first, second = await putting
    assert (first.id, first.is_new, second.is_new) == (number, False, True)
    await rival.close()


async def test_a_put_whose_rival_was_deleted_is_stored(
    postgres_store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await postgres_store.put_messages([message()])
    gone = "with gone as (delete from messages where key = $1) select 1 as id where false"
    monkeypatch.setattr(queues, "_WITH_KEY", gone)
    (receipt,) = await postgres_store.put_messages([message(body=2)])
    assert receipt.is_new
    assert (await only(postgres_store)).body == 2


async def test_concurrent_takers_expire_a_message_once(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    await postgres_store.create(NewSession(id="s", agent="a", status="waiting"))
    await postgres_store.put_messages([message(f"k{number}", ttl_s=60) for number in range(5)])
    await execute(postgres_url, "update messages set expires_at = created_at")
    taken = await asyncio.gather(
        *(postgres_store.take_messages("q", owner=f"t{n}", lease_s=30) for n in range(6))
    )
    assert taken == [[]] * 6
    row = await postgres_store.get("s")
    assert (row.wakes, row.status) == (5, "ready")


OPEN = frozenset({"open"})
PLANS: dict[str, Callable[[], tuple[str, list[object]]]] = {
    "messages_key": lambda: queues._page_sql(MessageFilter(keys=["k"]), 0, 9),
    "messages_waiter": lambda: queues._page_sql(MessageFilter(waiters=["a"], states=OPEN), 0, 9),
    "messages_session": lambda: queues._page_sql(MessageFilter(session_id="s"), 0, 9),
    "messages_oldest": lambda: queues._page_sql(MessageFilter(queue="q", states=OPEN), 0, 9),
    "messages_dead": lambda: queues._page_sql(MessageFilter(queue="q", states={"dead"}), 0, 9),
    "messages_settled": lambda: (queues._PRUNE, [1, 9]),
    "messages_next": lambda: (queues._TAKE_FIRST, ["q", "t", 30.0, 1]),
    "messages_expiry": lambda: (queues._TAKE_OLDEST, ["q", "t", 30.0, 1]),
}


@pytest.mark.parametrize("index", PLANS)
async def test_messages_are_found_with_an_index(
    postgres_store: PostgresStore, postgres_url: str, index: str
) -> None:
    """Also among very many that are settled already."""
    await postgres_store.open()
    await execute(
        postgres_url,
        "insert into messages (queue, priority, due_at, body, key, waiter, session_id, state,"
        " settled_at) select n % 50, 0, now(), '1', n, n, n, state,"
        " case state when 'open' then null else now() end"
        " from generate_series(1, 8000) as n,"
        " lateral (select case when n < 2000 then 'open' else 'answered' end) as it (state)",
    )
    await execute(postgres_url, "vacuum analyze messages")
    sql, args = PLANS[index]()
    plan = "\n".join(row[0] for row in await execute(postgres_url, f"explain {sql}", *args))
    assert index in plan
    assert "Seq Scan" not in plan


async def test_awkward_names_are_stored_and_found(postgres_store: PostgresStore) -> None:
    name = "a\x00b \ud83d \x10 訳"
    put = QueuePut(queue=name, body=name, key=name, waiter=name, session_id=name, taken_by=name)
    await postgres_store.put_messages([put])
    filters = (
        MessageFilter(keys=[name], waiters=[name], waited_for=True),
        MessageFilter(queue=name, session_id=name, states={"open", "dead"}),
    )
    for where in filters:
        (found,) = await postgres_store.find_messages(where)
        assert (found.queue, found.key, found.waiter, found.session_id) == (name,) * 4
        assert (found.owner, found.body) == (name, name)
    assert await postgres_store.settle_messages(
        [MessageSettle(key=name, state="failed", answer=name)]
    ) == ["settled"]
    assert (await only(postgres_store)).answer == name
    await postgres_store.create(NewSession(id=name, agent="a"))
    assert await postgres_store.events(name) == []
