"""A simulated day at the desk of `examples/shop`, and the faults that its checker must find."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from examples.shop.week import checker
from examples.shop.week.__main__ import main as simulated, problems, simulate
from examples.shop.week.plan import Week
from examples.shop.week.records import read

from ekiden import Ekiden

pytestmark = pytest.mark.timeout(900)
DAY = Week(days=1, tail_days=1, conversations=40, kills=2, outages=1)
"""One day of new conversations, and one in which people answer late; some questions stay open."""


@pytest.fixture(scope="module")
def finished_day(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of a day on SQLite, and its report."""
    if shutil.which("cc") is None:
        pytest.skip("to move the clock of a process takes a C compiler")
    folder = tmp_path_factory.mktemp("shop") / "day"
    return folder, asyncio.run(simulate(DAY, "sqlite", folder))


def test_a_day_with_kills_an_outage_and_a_deployment_leaves_nothing_wrong(
    finished_day: tuple[Path, dict[str, Any]],
) -> None:
    _, report = finished_day
    assert problems(report) == []
    assert report["figures"]["conversations"] == DAY.conversations
    assert sum(report["kills"].values()) == DAY.kills
    assert report["resumed"] > 0
    assert report["model"]["unavailable"] > 0
    choices = ("repeated", "entered", "abandoned")
    assert all(report["figures"][f"effects_{choice}"] > 0 for choice in choices)
    assert report["figures"]["payments_repeated"] > 0


@pytest.mark.slow
def test_a_day_with_workers_on_postgresql_leaves_nothing_wrong(tmp_path: Path) -> None:
    report = asyncio.run(simulate(replace(DAY, tail_days=2), "postgresql", tmp_path / "day"))
    assert problems(report) == []
    assert sum(report["kills"].values()) == DAY.kills


def test_the_same_seed_makes_the_same_plan() -> None:
    assert Week(seed=3).plan() == Week(seed=3).plan()
    assert Week(seed=3).plan() != Week(seed=4).plan()


class Day:
    """A copy of a finished day, to plant faults in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def books(self, statements: str) -> None:
        """Change the shop's books."""
        self._change("books.db", statements)

    def store(self, statements: str) -> None:
        """Change Ekiden's store behind its back."""
        self._change("ekiden.db", statements)

    def _change(self, name: str, statements: str) -> None:
        connection = apsw.Connection(str(self.folder / name))
        connection.execute(statements)
        assert connection.changes() > 0, statements
        connection.close()

    def problems(self) -> dict[str, list[str]]:
        """What the checker says, by check."""
        found = checker.checked(asyncio.run(read(self.folder)))
        return {name: problems for name, problems in found.items() if problems}


@pytest.fixture
def day(finished_day: tuple[Path, dict[str, Any]], tmp_path: Path) -> Day:
    """A copy of the finished day."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for file in finished_day[0].iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    (folder / "store.txt").write_text(str(folder / "ekiden.db"))
    return Day(folder)


_OPEN = """insert into messages (queue, priority, due_ms, body, key, session_id)
select queue, priority, due_ms, body, 'msg_again', session_id from messages
where queue = 'agent:warehouse' limit 1"""
_SWAP = """create temp table two as select min(key) as a, max(key) as b from payments;
update payments set key = '-' where key = (select a from two);
update payments set key = (select a from two) where key = (select b from two);
update payments set key = (select b from two) where key = '-'"""
_STOLEN = """select 'stolen', id, cents, 0 from orders where cents > 10000
and id not in (select order_id from payments) limit 1"""
_ONE_ORDER = "where order_id = (select min(order_id) from payments)"

BOOKS = {
    "a payment is doubled": (
        "insert into payments select 'again', order_id, cents, at from payments limit 1",
        "payments",
    ),
    "an order is paid without approval": (f"insert into payments {_STOLEN}", "payments"),
    "another amount than approved is paid": (
        "update payments set cents = cents + 1 where cents > 10000",
        "payments",
    ),
    "the ledger and its attempts have another amount": (
        "update payments set cents = 7; update attempts set cents = 7 where kind = 'payment'",
        "payments",
    ),
    "a payment is lost": (f"delete from payments {_ONE_ORDER}", "payments"),
    "a payment is lost with its attempts": (
        f"delete from attempts {_ONE_ORDER}; delete from payments {_ONE_ORDER}",
        "payments",
    ),
    "the keys of two payments are swapped": (_SWAP, "payments"),
    "the keys are swapped, also those of attempts": (
        _SWAP + ";" + _SWAP.partition(";")[2].replace("update payments", "update attempts"),
        "payments",
    ),
    "an attempt has no payment": (
        "insert into attempts select 1 + max(number), 'payment', 'stolen', '10000', 5, 'paid', 0 "
        "from attempts",
        "payments",
    ),
    "an attempt has another amount": (
        "update attempts set cents = cents + 1 where outcome = 'paid'",
        "payments",
    ),
    "a key is used for another amount": (
        "update attempts set outcome = 'violation' where outcome = 'paid'",
        "payments",
    ),
    "a call that was given up is paid, too": (
        "insert into payments select replace(key, 'c1r1', 'c1'), order_id, cents, at "
        "from payments where key like '%.c1r1'",
        "unknown_effects",
    ),
    "a call that replaces another one is paid with another key": (
        "update payments set key = replace(key, 'c1r1', 'c2')",
        "unknown_effects",
    ),
    "a compensation is forgotten": (
        "update pickups set state = 'reserved' where state = 'released'",
        "pickups",
    ),
    "a pick-up is confirmed after its release": (
        "update pickups set state = 'confirmed' where state = 'released'",
        "pickups",
    ),
    "a pick-up is doubled": (
        "insert into pickups select 'again', order_id, state, at from pickups limit 1",
        "pickups",
    ),
    "a pick-up is for another order": ("update pickups set order_id = '10000'", "pickups"),
    "a reservation was for another order": (
        "update attempts set order_id = '10000' where outcome = 'reserved'",
        "pickups",
    ),
    "a pick-up is lost": ("delete from pickups where state = 'confirmed'", "pickups"),
    "an order has another price": ("update orders set cents = cents + 1", "orders"),
    "a customer is lost": ("delete from customers where id = 'customer-0'", "orders"),
}
"""Faults in the shop's books, each with the check that must find it."""
STORE = {
    "a session belongs to another customer": (
        "update sessions set user_id = 'customer-0' where id = 'c00001'",
        "sessions",
    ),
    "an agent's session belongs to another customer": (
        "update sessions set user_id = 'customer-0' where id like 'ask_%'",
        "sessions",
    ),
    "an agent's session has failed": (
        "update sessions set outcome = 'failed' where id like 'ask_%' and status = 'idle'",
        "sessions",
    ),
    "an agent's session waits": (
        "update sessions set status = 'waiting' where id like 'ask_%' and status = 'idle'",
        "sessions",
    ),
    "a waiting session is idle": (
        "update sessions set status = 'idle', outcome = 'done' where status = 'waiting'",
        "sessions",
    ),
    "a session is with another agent": (
        "update sessions set agent = 'orders' where agent = 'shipping'",
        "sessions",
    ),
    "a session counts other model calls": (
        """update sessions set cursor = replace(cursor, '"requests":4', '"requests":5')""",
        "sessions",
    ),
    "a refused session has succeeded": (
        "update sessions set conclusion = 'succeeded' where conclusion = 'refused'",
        "sessions",
    ),
    "a session has other variables": (
        "update sessions set variables = replace(variables, 'low', 'high')",
        "variables",
    ),
    "a session waits for nothing": (
        "update sessions set cursor = json_remove(cursor, '$.as') where status = 'waiting'",
        "waits",
    ),
    "timers are lost": ("delete from documents where collection = 'timers'", "waits"),
    "a timer is later": (
        "update documents set key = '1' || substr(key, 2) where collection = 'timers'",
        "waits",
    ),
    "a closed question is lost": ("delete from documents where collection = 'inbox.done'", "inbox"),
    "the order of questions is lost": (
        "delete from documents where collection = 'inbox.order'",
        "inbox",
    ),
    "a question has another answer": (
        'update documents set body = replace(body, \'"reject","by\', \'"approve","by\') '
        "where collection like 'inbox.%'",
        "inbox",
    ),
    "a person repeated a call whose result is entered": (
        "update documents set body = replace(body, "
        '\'"choice":"enter a result"\', \'"choice":"repeat"\') where collection like \'inbox.%\'',
        "unknown_effects",
    ),
    "a call that cannot be repeated could be": (
        "update documents set body = replace(body, '[\"enter', '[\"repeat\",\"enter') "
        "where collection like 'inbox.%'",
        "inbox",
    ),
    "a question shows another amount": (
        "update documents set body = replace(body, 'cents\\\":', 'cents\\\":1') "
        "where collection like 'inbox.%'",
        "approvals",
    ),
    "the warehouse has an open message": (_OPEN, "queues"),
    "a message is lost": ("delete from messages", "queues"),
    "the warehouse answered something else": (
        "update messages set answer = replace(answer, 'true', 'false')",
        "queues",
    ),
    "a question is for another agent": (
        "update messages set queue = 'agent:refunds' where queue = 'agent:fraud'",
        "queues",
    ),
    "steps are lost": ("delete from steps where key like '%.q2'", "steps"),
    "a step has another answer": (
        "update steps set result = replace(result, 'true', 'false') where key like '%.q2'",
        "steps",
    ),
    "a step has another decision": (
        "update steps set result = replace(result, '\"approved\":true', '\"approved\":false')",
        "steps",
    ),
    "a step has another name": ("update steps set key = key || '.x' where id = 1", "steps"),
    "a plan has another task": (
        "update steps set result = replace(result, '\"refunds\"', '\"orders\"') "
        "where key like '%.plan'",
        "steps",
    ),
    "a memory says something else": (
        "update search_entries set text = replace(replace(text, '.', '!'), '。', '!')",
        "memory",
    ),
    "a memory is another customer's": (
        "update search_spaces set name = name || '0' where num = 1",
        "memory",
    ),
    "an API key may do more": (
        "update documents set body = replace(body, '\"answer\"', '\"admin\"') "
        "where collection = 'api_keys'",
        "documents",
    ),
    "a document has no reason": (
        "insert into documents (collection, key, version, updated_us, body) "
        "values ('other', 'k', 1, 0, '{}')",
        "documents",
    ),
    "an audit record is altered": (
        "update events set details = replace(details, '\"approved\":true', '\"approved\":false')",
        "store",
    ),
    "an audit record is lost": (
        "delete from events where details like '%\"approved\":true%'",
        "store",
    ),
    "the last event of a session is lost": (
        "delete from events where id = (select max(id) from events where session = 1)",
        "store",
    ),
}
"""Faults in Ekiden's store, each with the check that must find it."""


def test_the_checker_finds_nothing_in_a_copy(day: Day) -> None:
    assert day.problems() == {}


@pytest.mark.parametrize("fault", BOOKS)
def test_the_checker_finds_a_fault_in_the_books(day: Day, fault: str) -> None:
    statements, check = BOOKS[fault]
    day.books(statements)
    assert check in day.problems()


@pytest.mark.parametrize("fault", STORE)
def test_the_checker_finds_a_fault_in_the_store(day: Day, fault: str) -> None:
    statements, check = STORE[fault]
    day.store(statements)
    assert check in day.problems()


def lose_a_session(ekiden: Ekiden) -> Any:
    return ekiden.sessions.delete("c00000")


def forget_an_answer(ekiden: Ekiden) -> Any:
    return ekiden.sessions.rewind("c00001", 1)


@pytest.mark.parametrize(
    ("change", "check"), [(lose_a_session, "answers"), (forget_an_answer, "sessions")]
)
def test_the_checker_finds_a_session_that_was_changed_with_the_api(
    day: Day, change: Callable[[Ekiden], Any], check: str
) -> None:
    async def run() -> None:
        async with Ekiden.open(day.folder / "ekiden.db") as ekiden:
            await change(ekiden)

    asyncio.run(run())
    assert check in day.problems()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--days", "0"], "at least one day"),
        (["--kills", "-1"], "below 0"),
        (["--days", "1", "--outages", "4"], "no room"),
        (["--keep", "."], "name a new folder"),
    ],
)
def test_a_week_that_cannot_be_simulated_is_refused(
    options: list[str],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["week", *options])
    with pytest.raises(SystemExit):
        simulated()
    assert problem in capsys.readouterr().err


def test_a_folder_without_a_week_is_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["checker", str(tmp_path)])
    with pytest.raises(SystemExit):
        checker.main()
    assert "has no finished week" in capsys.readouterr().err
