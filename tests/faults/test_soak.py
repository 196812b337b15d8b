"""Workers are killed and stopped all the time; every session ends right, and nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.engine import Worker, submit
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from tests.faults.databases import Database
from tests.faults.ledger import Ledger
from tests.faults.soak import KINDS, Soak, run
from tests.faults.soak_checks import (
    Leftovers,
    leftovers,
    wrong_claims,
    wrong_effects,
    wrong_models,
    wrong_people,
    wrong_sessions,
)
from tests.faults.soak_owners import Change, takeovers, wrong_owners
from tests.faults.soak_team import Order, made_team
from tests.faults.world import World
from tests.support.server import private_server
from tests.support.temporal import DevServer


@pytest.mark.slow
@pytest.mark.parametrize("empty_database", ["postgres"], indirect=True)
async def test_killing_workers_loses_no_session(empty_database: Database, tmp_path: Path) -> None:
    report = await run(
        Soak(
            store=empty_database.url,
            folder=tmp_path / "soak",
            seconds=5,
            sessions=20,
            workers=2,
            lease_s=1.5,
            thinks_s=0.2,
            zombies=True,
            seed=7,
        )
    )
    assert report.problems == []
    assert report.kills


@pytest.mark.slow
async def test_killing_workers_servers_and_the_database_loses_no_session(
    tmp_path: Path,
) -> None:
    with private_server(is_killed=True) as server:
        report = await run(
            Soak(
                store=server.url,
                folder=tmp_path / "soak",
                seconds=15,
                sessions=30,
                workers=2,
                thinks_s=0.2,
                kills=KINDS,
                database=server,
                seed=11,
            )
        )
    assert report.problems == []
    assert report.kills
    assert report.server_kills
    assert report.database_kills


@pytest.mark.slow
@pytest.mark.parametrize("empty_database", ["sqlite", "postgres"], indirect=True)
async def test_a_minute_of_kills_loses_no_session(empty_database: Database, tmp_path: Path) -> None:
    report = await run(
        Soak(
            store=empty_database.url,
            folder=tmp_path / "soak",
            seconds=60,
            sessions=200,
            thinks_s=0.5,
            zombies=True,
            seed=8,
        )
    )
    assert report.problems == []
    assert report.takeovers
    assert report.repeated_models


@pytest.mark.slow
@pytest.mark.parametrize("empty_database", ["postgres"], indirect=True)
async def test_killing_workers_on_temporal_loses_no_session(
    empty_database: Database, tmp_path: Path, temporal_server: DevServer
) -> None:
    report = await run(
        Soak(
            store=empty_database.url,
            folder=tmp_path / "soak",
            seconds=20,
            sessions=40,
            lease_s=3,
            thinks_s=0.3,
            zombies=True,
            seed=9,
            temporal=temporal_server.address,
        )
    )
    assert report.problems == []
    assert report.kills


def change(**differs: object) -> Change:
    """A step of the owner, but for what differs."""
    usual: dict[str, object] = {
        "session": "s", "epoch0": 3, "epoch": 3, "owner0": "a", "owner": "a",
        "seq0": 5, "seq": 7, "until0_ms": 9_000.0, "until_ms": 10_000.0,
    }  # fmt: skip
    return Change(**{**usual, **differs})  # type: ignore[arg-type]  # Each test knows its columns.


CLAIM = {"epoch": 4, "owner": "b", "seq": 5, "until_ms": 12_000.0}
WRONG = {
    "taken while somebody had it": change(**{**CLAIM, "until_ms": 10_000.0}),
    "epochs were left out": change(**{**CLAIM, "epoch": 5}),
    "a claim that is more than a claim": change(**{**CLAIM, "seq": 6}),
    "written to while nobody had it": change(owner0=None, owner=None),
    "the owner changed with a step": change(owner="b"),
    "events were taken away": change(seq=4),
    "another owner under the same epoch": change(owner="b", seq=5),
}


@pytest.mark.parametrize("problem", WRONG)
def test_the_soak_check_detects_a_second_owner(problem: str) -> None:
    [found] = wrong_owners([WRONG[problem]], lease_s=2.0)
    assert found.startswith(problem)


def test_the_soak_check_accepts_legal_changes_of_owner() -> None:
    taken = change(**CLAIM)
    step = change(epoch0=4, epoch=4, owner0="b", owner=None, seq0=5, seq=6)
    assert list(wrong_owners([taken, step], lease_s=2.0)) == []
    assert takeovers([taken, step]) == 1
    [gap] = wrong_owners([taken, change(epoch0=4, epoch=4)], lease_s=2.0)
    assert gap.startswith("something is missing")


def test_a_soak_order_is_read_as_it_was_written() -> None:
    order = Order(name="s1", wishes=("ask", "book", "undo"))
    assert Order.read(order.text) == order
    assert order.answer.startswith("order s1 is done: s1-book is booked; ")
    assert sorted(order.effects) == [
        "s1-book", "s1-lorry", "s1-lorry-undone", "s1-shelf", "s1-truck",
    ]  # fmt: skip


def test_the_soak_check_detects_lost_duplicate_and_changed_effects(ledger: Ledger) -> None:
    order = Order(name="s1", wishes=("both",))
    ledger.take_effect("key-1", "s1-left")
    ledger.take_effect("key-2", "s1-left")
    ledger.note("attempt", key="key-2", what="s1-right")
    assert list(wrong_effects(ledger, [order])) == [
        "s1-right did not happen (1 times)",
        "s1-left happened 1 times too often",
        "the key key-2 stands for ['s1-left', 's1-right']",
    ]
    for person in ("anna", "ben"):
        ledger.note("answered", item="i1", by=person)
    assert list(wrong_people(ledger)) == ["inbox item i1 was answered 2 times"]
    calls = [{"session": "s1", "step": "1.1.m", "digest": digest} for digest in ("a", "a", "b")]
    assert len(list(wrong_models(calls))) == 1
    ledger.note("owner", session="s1", epoch=2, owner="zombie")
    [zombie] = wrong_claims(ledger, {("s1", 2): "owner"})
    assert zombie.startswith("zombie ran a tool")


async def test_the_soak_check_detects_a_session_that_did_not_end_right(tmp_path: Path) -> None:
    store, orders = MemoryStore(), {"s1": Order(name="s1", wishes=("book",))}
    assert await wrong_sessions(store, orders) == ["session s1 is lost"]
    team = made_team(World(tmp_path))
    await submit(team, orders["s1"].text, session=Session("s1", store=store))
    [unfinished, unanswered] = await wrong_sessions(store, orders)
    assert unfinished == "session s1 is None, ready, with None"
    assert "and not 'order s1 is done: s1-book is booked'" in unanswered
    await Worker(store, team).run(until_idle=True)
    assert await wrong_sessions(store, orders) == []
    assert await leftovers(store) == Leftovers(timers=0, items=0, messages=0)
