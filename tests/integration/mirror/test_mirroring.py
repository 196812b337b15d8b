"""Feeding a mirror: nothing is lost or sent twice, and writers do not wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.conversation.model import function_call, function_output
from ekiden.core.errors import StoreUnavailable
from ekiden.core.errors.stored_data import ReplicaRefused, ReplicaUnavailable
from ekiden.core.events import Event
from ekiden.integrations.vertex import VertexReplica
from ekiden.sessions.replica import (
    ReplicaPolicy,
    ReplicaReport,
    ReplicatedEvent,
    ReplicatedSession,
)
from ekiden.sessions.replica_feed import replicate_sessions
from ekiden.sessions.replica_progress import ReplicaProgress, replica_status
from ekiden.storage.base import Batch, DocumentWrite, NewSession, SessionOpening, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import call, say
from tests.integration.mirror.conftest import vertex
from tests.integration.mirror.talking import talk
from tests.support.vendor import DROP, HANG, LOST, Trouble, status
from tests.support.vertex_server import POISON, VertexServer

QUICK = ReplicaPolicy(first_pause_s=0.01, longest_pause_s=0.05)


class Shelf:
    """A mirror in memory that fails on request."""

    name = "shelf"

    def __init__(self) -> None:
        self.got: dict[str, list[str]] = {}
        self.again: list[tuple[str, bool]] = []
        self.fails: Callable[[ReplicatedEvent], Exception | None] = lambda event: None
        self.came = asyncio.Event()

    async def send(self, session: ReplicatedSession, event: ReplicatedEvent, *, again: bool) -> Any:
        self.again.append((event.id, again))
        problem = self.fails(event)
        self.came.set()
        if problem is not None:
            raise problem
        kept = session.kept or []
        assert kept == self.got.get(session.id, [])
        self.got[session.id] = [*kept, event.id]
        return self.got[session.id]

    async def close(self) -> None:
        """Nothing to do."""


@asynccontextmanager
async def fed(store: Store, mirror: Any, policy: ReplicaPolicy = QUICK) -> AsyncIterator[None]:
    """The mirror is fed for the length of the block."""
    stop = asyncio.Event()
    task = asyncio.create_task(replicate_sessions(store, mirror, stop=stop, policy=policy))
    try:
        yield
    finally:
        stop.set()
        await task


async def until(store: Store, mirror: Any, **wanted: Any) -> None:
    """Return once the mirror stands so."""
    while True:
        found = await replica_status(store, mirror.name)
        if all(getattr(found, name) == value for name, value in wanted.items()):
            return
        await store.wait_for_change(0.05)


async def once(store: Store, mirror: Any, **policy: Any) -> ReplicaReport:
    return await replicate_sessions(store, mirror, once=True, policy=ReplicaPolicy(**policy))


async def test_messages_arrive_in_order_as_they_are_stored(
    store: MemoryStore, server: VertexServer, mirror: VertexReplica
) -> None:
    async with fed(store, mirror):
        await talk(store, "s1", "one")
        await until(store, mirror, sent=2, up_to_date=True)
        await talk(store, "s1", "two")
        await talk(store, "s2", "three")
        await until(store, mirror, sent=6, up_to_date=True)
    assert server.said() == ["one", "re: one", "two", "re: two", "three", "re: three"]


@pytest.mark.parametrize(
    "trouble",
    [status(429, retry_after="0.01"), status(500), status(401), DROP, HANG],
    ids=["429", "500", "401", "drop", "hang"],
)
async def test_runs_do_not_notice_an_unavailable_vendor(
    store: MemoryStore, trouble: Trouble
) -> None:
    async with VertexServer() as server:
        mirror = vertex(server, timeout_s=0.1)
        server.away = trouble
        async with fed(store, mirror):
            await talk(store, "s1", *map(str, range(20)))
            await talk(store, "s2", "other")
            await server.until_asked(2)
            assert server.said() == []
            server.away = None
            await until(store, mirror, up_to_date=True)
        await mirror.close()
        # Which session comes first is left open: on a busy machine a request may time out.
        words = [*map(str, range(20)), "other"]
        wanted = [said for word in words for said in (word, f"re: {word}")]
        assert sorted(server.said(), key=lambda said: "other" in said) == wanted


async def test_a_vendor_unavailable_from_the_start_receives_everything_later(
    tmp_path: Path, server: VertexServer, mirror: VertexReplica
) -> None:
    async with SqliteStore(tmp_path / "desk.db") as store:
        server.away = status(503)
        await talk(store, "s1", "one", answers=[[call("lookup", order=1), say("first")]])
        report = await once(store, mirror)
        assert (report.sent, report.waiting) == (0, 1)
        assert report.problem is not None
        assert "503" in report.problem
    async with SqliteStore(tmp_path / "desk.db") as store:
        await talk(store, "s1", "two")
        server.away = None
        report = await once(store, mirror)
        assert (report.sent, report.waiting, report.problem) == (6, 0, None)
        assert await once(store, mirror) == ReplicaReport()
    assert server.said() == ["one", "first", "two", "re: two"]


@pytest.mark.parametrize("lost_at", range(1, 5))
async def test_a_lost_answer_of_the_vendor_sends_nothing_twice(
    store: MemoryStore, lost_at: int
) -> None:
    async with VertexServer() as server:
        mirror = vertex(server)
        await talk(store, "s1", "one", "two")
        server.troubles.extend([None] * (lost_at - 1))
        server.troubles.append(LOST)
        reports = [await once(store, mirror), await once(store, mirror)]
        await mirror.close()
        assert server.said() == ["one", "re: one", "two", "re: two"]
        assert [report.waiting for report in reports] == [1, 0]


class Killed(BaseException):
    """As `kill -9`, as far as the mirror can see."""


@pytest.mark.parametrize("number", range(1, 5))
async def test_a_kill_between_sending_and_recording_sends_nothing_twice(
    store: MemoryStore, server: VertexServer, mirror: VertexReplica, number: int
) -> None:
    class Dying:
        name = mirror.name
        left = number

        async def send(self, *given: Any, **named: Any) -> Any:
            kept = await mirror.send(*given, **named)
            self.left -= 1
            if not self.left:
                raise Killed
            return kept

        async def close(self) -> None:
            """Nothing to do."""

    await talk(store, "s1", "one", "two")
    with pytest.raises(Killed):
        await once(store, Dying(), parallel=1)
    assert (await once(store, mirror)).waiting == 0
    assert server.said() == ["one", "re: one", "two", "re: two"]


async def test_only_possibly_sent_events_are_looked_up(store: MemoryStore) -> None:
    shelf = Shelf()
    await talk(store, "s1", "one", "two")
    await once(store, shelf)
    assert [again for _, again in shelf.again] == [True, False, False, False]


async def test_events_of_a_session_stay_in_order_while_sessions_run_in_parallel(
    store: MemoryStore,
) -> None:
    shelf = Shelf()
    names = [f"s{number:03}" for number in range(120)]
    for name in names:
        await talk(store, name, "one")
    report = await once(store, shelf)
    assert report.sent == 240
    assert shelf.got == {name: [f"{name}/1", f"{name}/3"] for name in names}


async def test_a_rejected_event_is_set_aside_and_blocks_no_session(
    store: MemoryStore,
    server: VertexServer,
    mirror: VertexReplica,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await talk(store, "s1", "good", POISON, "after")
    await talk(store, "s2", "other")
    with caplog.at_level(logging.WARNING, "ekiden.mirror"):
        report = await once(store, mirror)
    assert (report.waiting, report.set_aside) == (0, 2)
    assert server.said() == ["good", "re: good", "after", "re: after", "other", "re: other"]
    assert "event s1/5 was rejected for good" in caplog.text
    found = await replica_status(store, mirror.name)
    assert [each.event_id for each in found.aside] == ["s1/5", "s1/7"]
    assert "400" in found.aside[0].problem
    assert found.set_aside == 2


async def test_a_replica_that_rejects_everything_sets_nothing_aside(
    store: MemoryStore,
) -> None:
    shelf = Shelf()
    shelf.fails = lambda event: ReplicaRefused("shelf", "bad request")
    await talk(store, "s1", "one")
    report = await once(store, shelf)
    assert (report.set_aside, report.waiting, report.problem) == (0, 1, "bad request")
    shelf.fails = lambda event: None
    assert (await once(store, shelf)).sent == 2


async def test_a_session_that_always_fails_is_finally_set_aside(
    store: MemoryStore,
) -> None:
    shelf = Shelf()
    shelf.fails = lambda event: ReplicaUnavailable("shelf", "500") if event.id == "bad/1" else None
    await talk(store, "bad", "one")
    async with fed(store, shelf):
        number = 0
        while (await replica_status(store, "shelf")).set_aside == 0:
            number += 1
            await talk(store, f"good{number}", "one")
            while len(shelf.got.get(f"good{number}", ())) < 2:
                await store.wait_for_change(0.05)
        await until(store, shelf, up_to_date=True)
    assert shelf.got["bad"] == ["bad/3"]
    assert sum(event == "bad/1" for event, _ in shelf.again) >= 10


async def test_when_all_sessions_fail_none_is_set_aside(store: MemoryStore) -> None:
    shelf = Shelf()
    shelf.fails = lambda event: ReplicaUnavailable("shelf", "away")
    for number in range(5):
        await talk(store, f"s{number}", "one")
    reports = [await once(store, shelf) for _ in range(15)]
    assert {(report.set_aside, report.waiting) for report in reports} == {(0, 5)}
    assert len(shelf.again) < 15 * 5 * 2
    shelf.fails = lambda event: None
    assert (await once(store, shelf)).sent == 10


async def test_an_unknown_exception_of_a_replica_is_reported(store: MemoryStore) -> None:
    shelf = Shelf()
    shelf.fails = lambda event: RuntimeError("oh")
    await talk(store, "s1", "one")
    assert (await once(store, shelf)).problem == "RuntimeError: oh"


async def test_a_replica_that_never_returns_times_out(store: MemoryStore) -> None:
    class Silent(Shelf):
        async def send(self, *given: Any, **named: Any) -> Any:
            await asyncio.Event().wait()

    await talk(store, "s1", "one")
    report = await once(store, Silent(), send_timeout_s=0.01)
    assert report.problem == "no answer within 0.01 seconds"
    assert report.waiting == 1


async def test_of_several_processes_one_feeds_the_replica(store: MemoryStore) -> None:
    shelf = Shelf()
    await talk(store, "s1", "one")
    async with fed(store, shelf):
        await until(store, shelf, up_to_date=True, fed=True)
        assert await once(store, shelf) == ReplicaReport(busy=True)
        async with fed(store, shelf, ReplicaPolicy(lease_s=0.05)):
            await talk(store, "s1", "two")
            await until(store, shelf, sent=4)
    assert shelf.got["s1"] == ["s1/1", "s1/3", "s1/5", "s1/7"]
    assert not (await replica_status(store, "shelf")).fed


async def test_a_process_that_lost_its_lease_stops_feeding_the_replica(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = Shelf()
    await talk(store, "s1", "one")
    stop = asyncio.Event()

    class Slow(Shelf):
        async def send(self, *given: Any, **named: Any) -> Any:
            other = ReplicaProgress(store, "shelf", owner="other", lease_s=60)
            while not await other.claim():  # The lease of the slow one is over soon.
                await store.wait_for_change(0.01)
            report = await replicate_sessions(store, shelf, once=True)
            assert report.busy
            await other.release()
            await replicate_sessions(store, shelf, once=True)
            stop.set()
            return None

    with caplog.at_level(logging.WARNING, "ekiden.mirror"):
        report = await replicate_sessions(
            store, Slow(), stop=stop, policy=ReplicaPolicy(lease_s=0.02)
        )
    assert report.busy
    assert shelf.got == {"s1": ["s1/1", "s1/3"]}
    assert "another process sends events to it" in caplog.text


async def test_deleted_sessions_are_not_sent(store: MemoryStore) -> None:
    shelf = Shelf()
    await talk(store, "s1", "one")
    await talk(store, "s2", "two")
    await store.delete("s1")
    assert (await once(store, shelf)).sent == 2
    assert set(shelf.got) == {"s2"}
    shelf.fails = lambda event: ReplicaUnavailable("shelf", "away")
    await talk(store, "s3", "three")
    await once(store, shelf)
    await store.delete("s3")
    assert (await once(store, shelf)).waiting == 0


async def test_a_session_recreated_under_the_same_id_is_sent_as_a_new_one(
    store: MemoryStore, server: VertexServer, mirror: VertexReplica
) -> None:
    await talk(store, "s1", "hers")
    await once(store, mirror)
    await store.delete("s1")
    await talk(store, "s1", "his", user="bob")
    await once(store, mirror)
    by_user = {each["userId"]: server.events[name] for name, each in server.sessions.items()}
    assert [each["content"]["parts"][0]["text"] for each in by_user["ada"]] == ["hers", "re: hers"]
    assert [each["content"]["parts"][0]["text"] for each in by_user["bob"]] == ["his", "re: his"]


async def test_sensitive_data_can_be_masked(
    store: MemoryStore, server: VertexServer, mirror: VertexReplica
) -> None:
    card = "4111 1111 1111 1111"
    answer = [call("lookup", order=4111111111111111), say(f"Card {card}")]
    await talk(store, "s1", f"I pay with {card}", answers=[answer])
    await once(store, mirror, include_sensitive_data=False)
    sent = b"".join(request.body for request in server.requests)
    assert b"4111 1111" not in sent
    assert b"41111111" not in sent
    assert server.said() == ["I pay with [card]", "Card [card]"]


async def test_errors_of_agents_are_not_sent(
    store: MemoryStore, server: VertexServer, mirror: VertexReplica
) -> None:
    from ekiden.testing import fail

    with pytest.raises(Exception, match="secret"):
        await talk(store, "s1", "hi", answers=[fail(ValueError("the secret"))])
    await once(store, mirror)
    assert server.said() == ["hi"]
    assert not any(b"secret" in request.body for request in server.requests)


async def test_replication_waits_for_an_unavailable_store_unless_run_once() -> None:
    class Shaky(MemoryStore):
        broken = 2

        async def feed(self, *, after: str | None = None, limit: int = 100) -> Any:
            if self.broken:
                self.broken -= 1
                raise StoreUnavailable("no disk")
            return await super().feed(after=after, limit=limit)

    async with Shaky() as store:
        await talk(store, "s1", "one")
        shelf = Shelf()
        with pytest.raises(StoreUnavailable):
            await once(store, shelf)
        async with fed(store, shelf):
            await shelf.came.wait()
            await until(store, shelf, sent=2)


async def test_a_position_that_could_not_be_stored_skips_no_session() -> None:
    class Shaky(MemoryStore):
        is_broken = True

        async def write_documents(
            self, writes: Sequence[DocumentWrite], *, silently: bool = False
        ) -> None:
            if self.is_broken and len(writes) > 1:  # The position and the sessions.
                self.is_broken = False
                raise StoreUnavailable("no disk")
            await super().write_documents(writes, silently=silently)

    async with Shaky() as store:
        await talk(store, "s1", "one")
        shelf = Shelf()
        with pytest.raises(StoreUnavailable):
            await once(store, shelf)
        assert (await once(store, shelf)).sent == 2


async def test_the_replica_status_is_stored(store: MemoryStore) -> None:
    shelf = Shelf()
    fresh = await replica_status(store, "shelf")
    assert (fresh.sent, fresh.up_to_date, fresh.fed, fresh.problem) == (0, True, False, None)
    await talk(store, "s1", "one")
    assert not (await replica_status(store, "shelf")).up_to_date
    shelf.fails = lambda event: ReplicaUnavailable("shelf", "away")
    await once(store, shelf)
    away = await replica_status(store, "shelf")
    assert (away.waiting, away.up_to_date, away.problem) == (1, False, "away")
    shelf.fails = lambda event: None
    await once(store, shelf)
    well = await replica_status(store, "shelf")
    assert (well.waiting, well.up_to_date, well.problem, well.sent) == (0, True, None, 2)


async def test_stopping_during_replication_loses_nothing(store: MemoryStore) -> None:
    shelf = Shelf()
    await talk(store, "s1", *map(str, range(5)))
    stop = asyncio.Event()

    def stopping(event: ReplicatedEvent) -> None:
        if event.seq > 4:
            stop.set()

    shelf.fails = stopping
    report = await replicate_sessions(store, shelf, stop=stop, policy=QUICK)
    assert 0 < report.sent < 10
    assert report.waiting == 1
    assert (await once(store, shelf)).sent == 10 - report.sent
    assert len(shelf.got["s1"]) == 10


async def test_a_retry_after_of_the_replica_is_honoured(store: MemoryStore) -> None:
    shelf = Shelf()
    shelf.fails = lambda event: ReplicaUnavailable("shelf", "busy", retry_after_s=1000.0)
    await talk(store, "s1", "one")
    async with fed(store, shelf, ReplicaPolicy(first_pause_s=0.001)):
        await until(store, shelf, problem="busy")
        shelf.fails = lambda event: None
        for number in range(5):
            await talk(store, f"other{number}", "one")
            await until(store, shelf, waiting=number + 2)
    assert len(shelf.again) == 1


async def test_tool_results_are_sent_with_the_name_of_their_call(store: MemoryStore) -> None:
    named: dict[str, str] = {}

    class Naming(Shelf):
        async def send(self, session: Any, event: Any, *, again: bool) -> Any:
            named.update(event.tools)
            return await super().send(session, event, again=again)

    shelf = Naming()
    shelf.fails = lambda event: ReplicaUnavailable("shelf", "away") if event.seq > 3 else None
    both = [call("lookup", order=1), call("lookup", order=2)]
    await talk(store, "s1", "hi", answers=[[[*both], say("done")]])
    await once(store, shelf)
    shelf.fails = lambda event: None
    await once(store, shelf)
    assert set(named.values()) == {"lookup"}
    assert len(named) == 2
    opening = SessionOpening(
        new=NewSession(id="s2", agent="desk"),
        events=[
            Event(session_id="s2", seq=1, type="llm_call", at_us=1, items=(CALLS[0], CALLS[1])),
            Event(session_id="s2", seq=2, type="message", at_us=1, items=(ANSWERS[0],)),
            Event(session_id="s2", seq=3, type="message", at_us=1, items=tuple(ANSWERS)),
        ],
    )
    await store.write(Batch(openings=[opening]))
    shelf.fails = lambda event: ReplicaUnavailable("shelf", "away") if event.seq > 1 else None
    await once(store, shelf)
    shelf.fails = lambda event: None
    await once(store, shelf)
    assert (named["a"], named["b"]) == ("f", "g")
    assert "c" not in named


CALLS = [function_call("a", "f", "{}"), function_call("b", "g", "{}")]
ANSWERS = [function_output(each, "done") for each in ("a", "b", "c")]


async def test_timestamps_increase_within_a_session_with_a_frozen_clock(
    server: VertexServer, mirror: VertexReplica, store: MemoryStore
) -> None:
    events = [
        Event(session_id="s1", seq=seq, type="message", at_us=5, items=({**HELLO}, {**HELLO}))
        for seq in range(1, 5)
    ]
    new = NewSession(id="s1", agent="desk")
    await store.write(Batch(openings=[SessionOpening(new=new, events=events)]))
    await once(store, mirror)
    [sent] = server.events.values()
    times = [each["timestamp"] for each in sent]
    assert len(times) == 4
    assert times == sorted(set(times))


HELLO = {"role": "user", "content": "hello"}


async def test_of_two_simultaneous_starts_one_feeds_the_replica(store: MemoryStore) -> None:
    class Together(MemoryStore):
        """Both read before one of them writes."""

        async def get_document(self, collection: str, key: str) -> Any:
            found = await super().get_document(collection, key)
            await asyncio.sleep(0)
            return found

    async with Together() as shared:
        books = [ReplicaProgress(shared, "shelf", owner=owner, lease_s=60) for owner in "ab"]
        claimed = await asyncio.gather(*(book.claim() for book in books))
        assert sorted(claimed) == [False, True]
        await books[claimed.index(False)].release()
        assert (await replica_status(shared, "shelf")).fed


async def test_replicated_state_is_masked_and_includes_its_base(
    server: VertexServer, mirror: VertexReplica, store: MemoryStore
) -> None:
    told = {
        "base": {"old": "ada@example.org"},
        "set": {"cards": ["4111 1111 1111 1111"], "paid": True, "none": None, "run:x": 1},
        "deleted": ["draft"],
        "user": ["language"],
    }
    event = Event(session_id="s1", seq=1, type="message", at_us=5, details={"state": told})
    new = NewSession(id="s1", agent="desk")
    await store.write(Batch(openings=[SessionOpening(new=new, events=[event])]))
    await once(store, mirror, include_sensitive_data=False)
    [[sent]] = server.events.values()
    assert sent["actions"]["stateDelta"] == {
        "old": "[email]",
        "cards": ["[card]"],
        "paid": True,
        "none": None,
        "draft": None,
    }
    assert sent["author"] == "agent"


async def test_a_session_deleted_and_recreated_in_the_replica_is_sent_again(
    tmp_path: Path,
) -> None:
    shelf = Shelf()
    async with SqliteStore(tmp_path / "desk.db") as store:
        for _ in range(2):
            shelf.got.clear()
            await talk(store, "s1", "one")
            assert (await once(store, shelf)).sent == 2
            await talk(store, "s1", "two")
            await store.delete("s1")
            assert (await once(store, shelf)).waiting == 0
