"""A simulated day at the desk of `examples/shop`, and the faults that its checker must find."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from examples.shop.week.__main__ import problems, simulate
from examples.shop.week.checker import checked, read
from examples.shop.week.plan import Week

from ekiden import Ekiden

pytestmark = pytest.mark.timeout(900)
DAY = Week(days=1, tail_days=2, conversations=40, kills=2, outages=1)
"""One day of new conversations, and two in which people answer late."""


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


@pytest.mark.slow
def test_a_day_with_workers_on_postgresql_leaves_nothing_wrong(tmp_path: Path) -> None:
    report = asyncio.run(simulate(DAY, "postgresql", tmp_path / "day"))
    assert problems(report) == []
    assert sum(report["kills"].values()) == DAY.kills


def test_the_same_seed_makes_the_same_plan() -> None:
    assert Week(seed=3).plan() == Week(seed=3).plan()
    assert Week(seed=3).plan() != Week(seed=4).plan()


class Day:
    """A copy of a finished day, to plant faults in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def books(self, statement: str) -> None:
        """Change the shop's books."""
        self._change("books.db", statement)

    def store(self, statement: str) -> None:
        """Change Ekiden's store behind its back."""
        self._change("ekiden.db", statement)

    def _change(self, name: str, statement: str) -> None:
        connection = apsw.Connection(str(self.folder / name))
        connection.execute(statement)
        assert connection.changes() > 0, statement
        connection.close()

    def problems(self) -> dict[str, list[str]]:
        """What the checker says, by check."""
        found = checked(asyncio.run(read(self.folder)))
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


def double_a_payment(day: Day) -> None:
    day.books("insert into payments select 'again', order_id, cents, at from payments limit 1")


def pay_without_approval(day: Day) -> None:
    day.books(
        "insert into payments select 'stolen', id, cents, 0 from orders where cents > 10000 "
        "and id not in (select order_id from payments) limit 1"
    )


def pay_another_amount_than_approved(day: Day) -> None:
    day.books("update payments set cents = cents + 1 where cents > 10000")


def lose_a_payment(day: Day) -> None:
    day.books("delete from payments where key in (select key from payments limit 1)")


def forget_a_compensation(day: Day) -> None:
    day.books("update pickups set state = 'reserved' where state = 'released'")


def use_a_key_for_another_amount(day: Day) -> None:
    day.books("update attempts set outcome = 'violation' where outcome = 'paid'")


def lose_a_session(day: Day) -> None:
    _in_the_store(day, lambda ekiden: ekiden.sessions.delete("c00000"))


def leave_a_customer_without_an_answer(day: Day) -> None:
    _in_the_store(day, lambda ekiden: ekiden.sessions.rewind("c00001", 1))


def alter_an_audit_record(day: Day) -> None:
    day.store(
        "update events set details = replace(details, '\"approved\":true', '\"approved\":false') "
        "where details like '%\"approved\":true%'"
    )


def remove_an_audit_record(day: Day) -> None:
    day.store("delete from events where details like '%\"approved\":true%'")


def _in_the_store(day: Day, change: Callable[[Ekiden], Any]) -> None:
    async def run() -> None:
        async with Ekiden.open(day.folder / "ekiden.db") as ekiden:
            await change(ekiden)

    asyncio.run(run())


PLANTED: dict[Callable[[Day], None], str] = {
    double_a_payment: "payments",
    pay_without_approval: "approvals",
    pay_another_amount_than_approved: "approvals",
    lose_a_payment: "payments",
    forget_a_compensation: "pickups",
    use_a_key_for_another_amount: "payments",
    lose_a_session: "sessions",
    leave_a_customer_without_an_answer: "last_words",
    alter_an_audit_record: "audit",
    remove_an_audit_record: "audit",
}
"""Each planted fault with the check that must find it."""


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_checker_finds_a_planted_fault(day: Day, plant: Callable[[Day], None]) -> None:
    assert day.problems() == {}
    plant(day)
    assert PLANTED[plant] in day.problems()
