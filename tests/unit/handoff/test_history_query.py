"""Finding handoffs of all sessions, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ekiden.core.errors import HandoffNotFound, SessionNotFound, UserError
from ekiden.core.events import Event
from ekiden.handoff import query as history_query
from ekiden.handoff.query import EVERYTHING, HandoffQuery, find_handoffs
from ekiden.handoff.records import HandoffRecord, read_handoff
from ekiden.runtime import Runner
from ekiden.runtime.history.fork import fork_session
from ekiden.sessions import Session
from ekiden.storage.base import NewSession, SessionPatch, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing.contracts.base import claimed, step
from tests.support.examples import examples
from tests.unit.audit.written import BEGINNING, START_US, event, handoff, write
from tests.unit.handoff.relays import relay


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "h.db")
    async with made as opened:
        yield opened


async def pages(
    store: Store, query: HandoffQuery = EVERYTHING, *, limit: int = 1000
) -> list[list[HandoffRecord]]:
    """Every page."""
    found: list[list[HandoffRecord]] = []
    cursor: str | None = None
    while not found or cursor is not None:
        page = await find_handoffs(store, query, limit=limit, cursor=cursor)
        found.append(list(page.records))
        cursor = page.next_cursor
    return found


async def ids(store: Store, *, limit: int = 1000, **query: Any) -> list[str]:
    """The ids of all that are found."""
    found = await pages(store, HandoffQuery(**query), limit=limit)
    return [record.id for page in found for record in page]


def made(session_id: str, number: int, seq: int, **details: Any) -> list[Event]:
    """A handoff that is begun and completed, with something between."""
    name = f"{session_id}.h{number}"
    return [
        handoff(session_id, seq, *BEGINNING, id=name, **details),
        event(session_id, seq + 1, "llm_call"),
        handoff(session_id, seq + 2, "completed", id=name, **details),
    ]


async def test_a_handoff_is_listed_once_with_its_final_status(store: Store) -> None:
    await write(store, made("s", 1, 1, reason="包裹 📦"))
    [record] = (await find_handoffs(store)).records
    assert (record.id, record.status, record.reason) == ("s.h1", "completed", "包裹 📦")
    assert [move.status for move in record.moves] == [*BEGINNING, "completed"]


async def test_handoffs_are_listed_by_their_start_newest_first(store: Store) -> None:
    late = handoff("s", 9, "completed", id="s.h1", at_us=START_US + 99_000_000)
    await write(
        store,
        [
            handoff("s", 1, *BEGINNING, id="s.h1"),
            *(event("s", seq, "llm_call") for seq in range(2, 9)),
            late,
        ],
    )
    await write(store, [event("t", 1), event("t", 2), *made("t", 1, 3)])
    assert await ids(store) == ["t.h1", "s.h1"]


@pytest.mark.parametrize("between", [0, 7, 8, 9, 450])
async def test_a_settlement_many_events_later_is_found_from_any_page(
    store: Store, between: int
) -> None:
    await write(
        store,
        [
            handoff("s", 1, *BEGINNING, id="s.h1"),
            *(event("s", 2 + place, "llm_call") for place in range(between)),
            handoff("s", 2 + between, "rolled_back", id="s.h1", code="CANCELLED", error="no"),
        ],
    )
    until = datetime.fromtimestamp(START_US / 1e6 + 1.5, UTC)
    for query in (EVERYTHING, HandoffQuery(until=until)):
        [record] = (await find_handoffs(store, query)).records
        assert (record.status, record.code) == ("rolled_back", "CANCELLED")


async def test_an_open_handoff_is_listed_with_its_current_status(store: Store) -> None:
    await write(store, [handoff("s", 1, *BEGINNING), *(event("s", n) for n in range(2, 12))])
    assert await ids(store, status="transferring") == ["s.h1"]
    assert await ids(store, status="completed") == []


async def test_compensations_are_listed_with_their_handoff_on_any_page(store: Store) -> None:
    undoing = handoff("s", 3, "transferring", id="s.h1", moves=[], compensation="refund")
    await write(
        store,
        [
            handoff("s", 1, *BEGINNING, id="s.h1"),
            event("s", 2, "llm_call"),
            undoing,
            handoff("s", 4, "rolled_back", id="s.h1", not_compensated=["mail"]),
            *made("s", 2, 5),
        ],
    )
    for limit in (1, 2):
        record = (await pages(store, limit=limit))[-1][-1]
        assert (record.id, record.status) == ("s.h1", "rolled_back")
        assert (record.compensated, record.not_compensated) == (("refund",), ("mail",))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"agent": "triage"}, ["s.h1"]),
        ({"agent": "翻译"}, ["t.h2", "t.h1"]),
        ({"source": "翻译"}, ["t.h2"]),
        ({"target": "翻译"}, ["t.h1"]),
        ({"status": "failed"}, ["t.h2"]),
        ({"status": "completed"}, ["t.h1", "s.h1"]),
        ({"session_id": "t"}, ["t.h2", "t.h1"]),
        ({"session_id": "nobody"}, []),
        ({"policy": "immediate"}, ["t.h1"]),
        ({"policy": "graceful"}, ["t.h2", "s.h1"]),
        ({"by": "person"}, ["t.h2"]),
        ({"by": "anna"}, ["t.h2"]),
        ({"by": "model"}, ["t.h1", "s.h1"]),
        ({"agent": "翻译", "status": "completed"}, ["t.h1"]),
    ],
)
async def test_handoffs_are_filtered_by_each_field(
    store: Store, query: dict[str, Any], expected: list[str]
) -> None:
    await write(store, made("s", 1, 1))
    refused = handoff(
        "t", 7, "initiated", "validating", "failed",
        id="t.h2", by={"kind": "person", "name": "anna"}, **{"from": "翻译", "to": "sales"},
    )  # fmt: skip
    translator = made("t", 1, 4, policy="immediate", **{"from": "sales", "to": "翻译"})
    await write(store, [*(event("t", n) for n in range(1, 4)), *translator, refused])
    for limit in (1, 50):
        assert await ids(store, limit=limit, **query) == expected


async def test_handoffs_are_filtered_by_their_start_time(store: Store) -> None:
    await write(store, [*made("s", 1, 1), *made("s", 2, 4), *made("s", 3, 7)])
    began = datetime.fromtimestamp(START_US / 1e6, UTC) + timedelta(seconds=4)
    second = timedelta(seconds=1)
    assert await ids(store, since=began, until=began + second) == ["s.h2"]
    assert await ids(store, since=began) == ["s.h3", "s.h2"]
    assert await ids(store, until=began) == ["s.h1"]


async def test_task_and_correlation_are_those_of_the_session(store: Store) -> None:
    meta = {"task_id": "ticket-7", "correlation_id": "case-9"}
    await store.create(NewSession(id="named", agent="triage", meta=meta))
    await write(store, made("named", 1, 1))
    await write(store, made("plain", 1, 1))
    assert await ids(store, task="ticket-7") == ["named.h1"]
    assert await ids(store, task="plain") == ["plain.h1"]
    assert await ids(store, task="named") == []
    assert await ids(store, correlation_id="case-9") == ["named.h1"]
    assert await ids(store, correlation_id="plain") == ["plain.h1"]
    assert await ids(store, task="ticket-7", correlation_id="plain") == []


async def test_a_session_deleted_during_a_query_does_not_match_a_task(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(store, made("s", 1, 1))

    async def gone(session_id: str) -> Any:
        raise SessionNotFound(session_id)

    monkeypatch.setattr(store, "get", gone)
    assert await ids(store, task="s") == []
    assert await ids(store) == ["s.h1"]


async def test_rows_of_many_sessions_are_evicted_and_read_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_query, "_MOST_REMEMBERED", 2)
    for number in range(1, 7):
        await write(store, made(f"s{number}", 1, 1))
    assert await ids(store, task="s3") == ["s3.h1"]
    assert len(await ids(store)) == 6


async def test_handoffs_stored_by_earlier_versions_are_listed(store: Store) -> None:
    old = {"from": "triage", "to": "orders", "status": "completed", "reason": "a parcel"}
    claim = await claimed(store, "old")
    events = [event("old", 1), event("old", 2, "handoff", details=old), event("old", 3, "handoff")]
    await store.commit(claim, step(*events, patch=SessionPatch(), release=True))
    [record] = (await find_handoffs(store)).records
    assert (record.id, record.status, record.reason) == ("old/2", "completed", "a parcel")
    assert record.is_made
    assert await read_handoff(store, "old/2") == record
    for name in ("old/1", "old/3", "/2", ".h1", "old.h1", ""):
        with pytest.raises(HandoffNotFound):
            await read_handoff(store, name)


async def test_a_branch_lists_inherited_handoffs_only_when_it_is_queried_itself(
    store: Store,
) -> None:
    team = relay("triage", "orders")
    session = Session("s", store=store)
    await Runner.run(team, "hello", session=session)
    await Runner.run(team, "and now?", session=session)
    [_, second] = [each.seq for each in await session.events() if each.items and not each.step][:2]
    fork = await fork_session(store, "s", before_seq=second, new_id="fork")
    assert await ids(store) == ["s.h1"]
    assert await ids(store, session_id=fork.session_id) == ["s.h1"]


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_page_limit_below_one_is_refused(store: Store, limit: int) -> None:
    with pytest.raises(UserError, match="`limit` must be 1 or more"):
        await find_handoffs(store, limit=limit)


@pytest.mark.parametrize("cursor", ["", "x", "1.2", "9" * 200])
async def test_an_invalid_cursor_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(UserError, match="cursor"):
        await find_handoffs(store, cursor=cursor)


async def test_handoff_pages_stay_consistent_while_handoffs_are_added(store: Store) -> None:
    await write(store, made("s", 1, 1))
    claim = await claimed(store, "t")
    begun = [event("t", n) for n in range(1, 5)]
    begun.append(handoff("t", 5, *BEGINNING, id="t.h1"))
    await store.commit(claim, step(*begun, patch=SessionPatch()))
    first = await find_handoffs(store, limit=1)
    assert [(each.id, each.status) for each in first.records] == [("t.h1", "transferring")]
    later = [handoff("t", 6, "completed", id="t.h1"), *made("t", 2, 7)]
    await store.commit(claim, step(*later, patch=SessionPatch(), release=True))
    second = await find_handoffs(store, limit=1, cursor=first.next_cursor)
    assert [each.id for each in second.records] == ["s.h1"]
    assert await ids(store) == ["t.h2", "t.h1", "s.h1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """One handoff of a random history."""

    session: int
    end: str | None
    gap: int
    """Other events before its end."""
    target: str
    time_us: int


_PLANS = st.lists(
    st.builds(
        _Plan,
        session=st.integers(0, 2),
        end=st.sampled_from(["completed", "rolled_back", "failed", None]),
        gap=st.integers(0, 12),
        target=st.sampled_from(["orders", "billing"]),
        time_us=st.integers(0, 3),
    ),
    max_size=12,
)


def _histories(plans: Sequence[_Plan]) -> dict[str, list[Event]]:
    """The events of the sessions; times may be equal, and may go back."""
    sessions: dict[str, list[Event]] = {}
    numbers: dict[str, int] = {}
    for plan in plans:
        name = f"s{plan.session}"
        events = sessions.setdefault(name, [])
        numbers[name] = numbers.get(name, 0) + 1
        told = {"id": f"{name}.h{numbers[name]}", "to": plan.target}
        at_us = START_US + plan.time_us
        moves = [*BEGINNING[:2], "failed"] if plan.end == "failed" else BEGINNING
        events.append(handoff(name, len(events) + 1, *moves, at_us=at_us, **told))
        events += [event(name, len(events) + 1 + place, at_us=at_us) for place in range(plan.gap)]
        if plan.end in ("completed", "rolled_back"):
            at_us = START_US + 3 - plan.time_us
            events.append(handoff(name, len(events) + 1, plan.end, at_us=at_us, **told))
    return sessions


@given(plans=_PLANS, limit=st.integers(1, 5), target=st.sampled_from([None, "orders"]))
@settings(deadline=None, max_examples=examples(60))
async def test_all_pages_together_list_each_handoff_once_with_its_final_status(
    plans: Sequence[_Plan], limit: int, target: str | None
) -> None:
    expected: dict[str, str] = {}
    numbers: dict[int, int] = {}
    for plan in plans:
        number = numbers[plan.session] = numbers.get(plan.session, 0) + 1
        if target in (None, plan.target):
            expected[f"s{plan.session}.h{number}"] = plan.end or "transferring"
    async with MemoryStore() as store:
        for events in _histories(plans).values():
            await write(store, events)
        found = await pages(store, HandoffQuery(target=target), limit=limit)
        together = [record for page in found for record in page]
        whole = await find_handoffs(store, HandoffQuery(target=target), limit=1000)
    assert all(len(page) == limit for page in found[:-1])
    assert together == list(whole.records)
    assert len(together) == len(expected)
    assert {record.id: record.status for record in together} == expected
