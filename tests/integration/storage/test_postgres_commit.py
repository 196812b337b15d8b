"""A commit is stored once, whatever happens to its connection."""

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys

import pytest

from ekiden.core.errors import LeaseLost, StoreUnavailable
from ekiden.core.events import Event
from ekiden.storage.base import (
    Claim,
    Commit,
    DocumentWrite,
    MessageSettle,
    NewSession,
    QueuePut,
    SessionOpening,
    SessionPatch,
)
from ekiden.storage.postgres import PostgresStore, database
from tests.support.proxy import Fault, Proxy
from tests.support.sql import connect, execute, terminate, until_blocked

LEASE_S = 30.0


def step(seq: int, *, at_us: int = 1, messages: tuple[QueuePut, ...] = ()) -> Commit:
    """A commit of one event and one step."""
    return Commit(
        patch=SessionPatch(cursor={"at": seq}),
        events=(Event(session_id="s", seq=seq, type="message", at_us=at_us),),
        steps={f"k{seq}": seq},
        messages=messages,
    )


async def claimed(store: PostgresStore, owner: str = "w1") -> Claim:
    new = NewSession(id="s", agent="a")
    claim, _ = await store.claim("s", owner=owner, lease_s=LEASE_S, create=new)
    return claim


async def seqs(store: PostgresStore) -> list[int]:
    return [event.seq for event in await store.events("s")]


async def expire_leases(url: str) -> None:
    await execute(url, "update sessions set lease_until = clock_timestamp() - interval '1 second'")


async def test_a_commit_is_one_round_trip(far: PostgresStore, proxy: Proxy) -> None:
    claim = await claimed(far)
    await far.commit(claim, step(1))
    before = proxy.requests
    await far.commit(claim, step(2))
    assert proxy.requests - before == 1


async def test_a_commit_is_repeated_after_its_connection_was_terminated(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    claim = await claimed(postgres_store)
    rival = await connect(postgres_url)
    async with rival.transaction():
        await rival.execute("select from sessions for update")
        committing = asyncio.create_task(postgres_store.commit(claim, step(1)))
        pid = await until_blocked(postgres_url)
        assert await rival.fetchval("select pg_terminate_backend($1, 10000)", pid)
        assert await until_blocked(postgres_url) != pid
    await committing
    await rival.close()
    await postgres_store.commit(claim, step(2))
    assert await seqs(postgres_store) == [1, 2]


async def test_a_commit_whose_answer_was_lost_is_stored_once(
    far: PostgresStore, near: PostgresStore, proxy: Proxy
) -> None:
    claim = await claimed(far)
    await far.commit(claim, step(1))
    proxy.strike("lose_answer")
    await far.commit(claim, step(2))
    assert proxy.struck.is_set()
    await far.commit(claim, step(3))
    assert await seqs(near) == [1, 2, 3]
    assert dict(await near.steps("s")) == {"k1": 1, "k2": 2, "k3": 3}


async def test_a_patch_whose_answer_was_lost_is_stored_once(
    far: PostgresStore, near: PostgresStore, proxy: Proxy
) -> None:
    claim = await claimed(far)
    await far.commit(claim, Commit(patch=SessionPatch(variables={"n": 1})))
    proxy.strike("lose_answer")
    await far.commit(claim, Commit(patch=SessionPatch(variables={"n": 2}), release=True))
    row = await near.get("s")
    assert (row.variables, row.owner) == ({"n": 2}, None)


async def test_a_message_of_a_commit_whose_answer_was_lost_is_put_once(
    far: PostgresStore, near: PostgresStore, proxy: Proxy
) -> None:
    claim = await claimed(far)
    await far.commit(claim, step(1, messages=(QueuePut(queue="q", body=1),)))
    for seq, passing in enumerate(range(4), start=2):
        # BEGIN, the commit, the message, COMMIT: each may be the one whose answer is lost.
        proxy.strike("lose_answer", after=passing)
        await far.commit(claim, step(seq, messages=(QueuePut(queue="q", body=seq),)))
        assert proxy.struck.is_set()
    assert await seqs(near) == [1, 2, 3, 4, 5]
    assert await near.queue_depth("q") == 5


async def test_all_parts_of_a_commit_are_stored_once_although_any_answer_is_lost(
    far: PostgresStore, near: PostgresStore, proxy: Proxy
) -> None:
    claim = await claimed(far)
    await near.create(NewSession(id="other", agent="a", status="waiting"))

    def commit(seq: int) -> Commit:
        new = NewSession(id=f"new{seq}", agent="a")
        said = Event(session_id=new.id, seq=1, type="message", at_us=1)
        return dataclasses.replace(
            step(seq, messages=(QueuePut(queue="q", body=seq, key=f"m{seq}", session_id="s"),)),
            openings=[SessionOpening(new=new, events=[said])],
            settles=[MessageSettle(key=f"m{seq}", state="answered", answer=seq)],
            documents=[DocumentWrite(collection="c", key=str(seq), body=1, expected_version=0)],
            wakes=["other"],
        )

    await far.commit(claim, commit(1))
    before = proxy.requests
    await far.commit(claim, commit(2))
    answers = proxy.requests - before
    for passing in range(answers):
        await far.commit(claim, commit(3 + 2 * passing))
        # The connection is one on which all statements were used: each has one answer.
        proxy.strike("lose_answer", after=passing)
        await far.commit(claim, commit(4 + 2 * passing))
        assert proxy.struck.is_set()
    count = 2 + 2 * answers
    assert await seqs(near) == list(range(1, count + 1))
    assert [(await near.get(name)).wakes for name in ("s", "other")] == [count, count]
    assert len((await near.list(limit=100)).sessions) == count + 2
    assert {each.state for each in await near.find_messages()} == {"answered"}
    assert len(await near.list_documents("c")) == len(await near.find_messages()) == count


async def test_a_late_copy_of_a_commit_has_no_effect(
    far: PostgresStore, near: PostgresStore, proxy: Proxy
) -> None:
    claim = await claimed(far)
    await far.commit(claim, Commit(patch=SessionPatch(variables={"n": 1})))
    proxy.strike("hold_request")
    await far.commit(claim, Commit(patch=SessionPatch(variables={"n": 2})))
    await far.commit(claim, Commit(patch=SessionPatch(variables={"n": 3})))
    before = await near.get("s")
    await proxy.deliver()
    assert await near.get("s") == before
    assert before.variables == {"n": 3}


class TestTakenOverMeanwhile:
    """The next owner commits before the first one knows what became of its own commit."""

    async def break_and_take_over(
        self,
        fault: Fault,
        commit: Commit,
        takeover: Commit,
        *,
        far: PostgresStore,
        near: PostgresStore,
        proxy: Proxy,
        url: str,
    ) -> "asyncio.Task[None]":
        claim = await claimed(far)
        await far.commit(claim, step(1))
        proxy.strike(fault)
        proxy.gate.clear()
        committing = asyncio.create_task(far.commit(claim, commit))
        await proxy.struck.wait()
        await expire_leases(url)
        await near.commit(await claimed(near, "w2"), takeover)
        proxy.gate.set()
        return committing

    async def test_after_a_takeover_stored_events_prove_the_commit(
        self, far: PostgresStore, near: PostgresStore, proxy: Proxy, postgres_url: str
    ) -> None:
        committing = await self.break_and_take_over(
            "lose_answer", step(2), step(3), far=far, near=near, proxy=proxy, url=postgres_url
        )
        await committing
        assert await seqs(near) == [1, 2, 3]

    async def test_events_of_the_new_owner_do_not_prove_the_commit(
        self, far: PostgresStore, near: PostgresStore, proxy: Proxy, postgres_url: str
    ) -> None:
        committing = await self.break_and_take_over(
            "hold_request",
            step(2),
            step(2, at_us=2),
            far=far,
            near=near,
            proxy=proxy,
            url=postgres_url,
        )
        with pytest.raises(LeaseLost):
            await committing
        await proxy.deliver()
        assert [event.at_us for event in await near.events("s")] == [1, 2]

    async def test_without_events_the_outcome_after_a_takeover_is_unknown(
        self, far: PostgresStore, near: PostgresStore, proxy: Proxy, postgres_url: str
    ) -> None:
        committing = await self.break_and_take_over(
            "lose_answer",
            Commit(patch=SessionPatch(variables={"n": 2})),
            step(2),
            far=far,
            near=near,
            proxy=proxy,
            url=postgres_url,
        )
        with pytest.raises(StoreUnavailable, match="not known"):
            await committing


async def test_a_lease_that_expired_during_an_outage_is_reported_as_lost(
    far: PostgresStore, near: PostgresStore, proxy: Proxy, postgres_url: str
) -> None:
    claim = await claimed(far)
    await far.commit(claim, step(1))
    proxy.strike("hold_request")
    proxy.gate.clear()
    committing = asyncio.create_task(far.commit(claim, step(2)))
    await proxy.struck.wait()
    await expire_leases(postgres_url)
    proxy.gate.set()
    with pytest.raises(LeaseLost):
        await committing
    await proxy.deliver()
    assert await seqs(near) == [1]


async def test_an_unreachable_database_leaves_the_outcome_unknown(
    far: PostgresStore, near: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SETTLE_S", 0.05)
    claim = await claimed(far)
    await far.commit(claim, step(1))
    proxy.strike("lose_answer")
    await proxy.close_port()
    with pytest.raises(StoreUnavailable, match="not known: resume the session"):
        await far.commit(claim, step(2))
    assert await seqs(near) == [1, 2]


async def test_closing_the_store_before_the_answer_leaves_the_outcome_unknown(
    far: PostgresStore, near: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SETTLE_S", 3600.0)
    claim = await claimed(far)
    await far.commit(claim, step(1))
    proxy.strike("lose_answer")
    await proxy.close_port()
    committing = asyncio.create_task(far.commit(claim, step(2)))
    await proxy.struck.wait()
    async with asyncio.timeout(60):
        await far.close()
        with pytest.raises(StoreUnavailable, match="not known: resume the session"):
            await committing
    assert await seqs(near) == [1, 2]


async def test_concurrent_commits_survive_terminated_connections(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    names = [f"s{number}" for number in range(6)]
    for name in names:
        await postgres_store.create(NewSession(id=name, agent="a"))
    claims = [(await postgres_store.claim(name, owner="w", lease_s=LEASE_S))[0] for name in names]

    async def relay(claim: Claim) -> None:
        for seq in range(1, 21):
            messages = (QueuePut(queue=claim.session_id, body=seq),) if seq % 4 == 0 else ()
            await postgres_store.commit(claim, step(seq, messages=messages))

    async with asyncio.timeout(60):
        relays = asyncio.gather(*map(relay, claims))
        ended = 0
        while not relays.done():
            ended += await terminate(postgres_url)
        await relays
    assert ended > 0
    for name in names:
        assert [event.seq for event in await postgres_store.events(name)] == list(range(1, 21))
        assert len(await postgres_store.steps(name)) == 20
        assert await postgres_store.queue_depth(name) == 5


async def test_a_claim_can_be_used_through_another_connection(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    claim = await claimed(postgres_store)
    by_hand = dataclasses.replace(claim, key=None)
    async with PostgresStore(postgres_url) as other:
        await other.commit(by_hand, step(1))
        await other.commit(claim, step(2))
        await postgres_store.commit(by_hand, step(3))
        assert list(await other.renew([by_hand])) == []
        await other.release(by_hand)
        gone = dataclasses.replace(by_hand, session_id="nobody")
        assert list(await other.renew([gone])) == [gone]
        with pytest.raises(LeaseLost):
            await other.commit(gone, step(4))
    assert await seqs(postgres_store) == [1, 2, 3]


PROGRAM = """
import asyncio, sys
from tests.integration.storage.test_postgres_commit import PostgresStore, claimed, step

async def main(url):
    async with PostgresStore(url) as store:
        await store.commit(await claimed(store), step(1))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("point", "stored"),
    [("store.postgres.before_commit", []), ("store.postgres.after_commit", [1])],
)
async def test_a_process_killed_during_a_commit_stored_all_or_nothing(
    postgres_store: PostgresStore, postgres_url: str, point: str, stored: list[int]
) -> None:
    environment = os.environ | {
        "EKIDEN_TESTING": "1",
        "EKIDEN_FAULT": point,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", PROGRAM, postgres_url],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert await seqs(postgres_store) == stored
