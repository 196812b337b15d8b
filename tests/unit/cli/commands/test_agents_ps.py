"""`ekiden agents ps` and `ekiden agents deadlocks`, in this process."""

from __future__ import annotations

import asyncio
import json

from ekiden.bus.deadlocks import break_deadlock
from ekiden.project import open_store
from ekiden.storage.base import NewSession
from tests.unit.bus.asked import ask
from tests.unit.cli.commands.conftest import Desk


def store_waits(desk: Desk, *edges: str, look: bool = True) -> None:
    """Let agents wait, and let the last one look for deadlocks."""

    async def work() -> None:
        async with open_store(str(desk.folder / ".ekiden" / "ekiden.db")) as store:
            await ask(store, *edges)
            if look:
                await break_deadlock(store, edges[-1].partition(">")[0])

    asyncio.run(work())


def store_work(desk: Desk, session: str) -> None:
    """Let another process run a session."""

    async def work() -> None:
        async with open_store(str(desk.folder / ".ekiden" / "ekiden.db")) as store:
            await store.create(NewSession(id=session, agent="billing", status="ready"))
            await store.claim(session, owner="worker-1", lease_s=60)

    asyncio.run(work())


def test_working_and_waiting_sessions_are_shown_below_the_counts(desk: Desk) -> None:
    assert desk("agents", "ps").out.count("\n\n") == 0
    store_waits(desk, "billing>orders|technical", "会计>billing")
    store_work(desk, "s1")
    counts, _, who = desk("agents", "ps").out.partition("\n\n")
    assert "会计 (not in the team)" in counts
    assert [line.split()[:4] for line in who.splitlines()[1:]] == [
        ["billing", "none", "at", "work"],
        ["billing", "internal", "orders,", "technical"],
        ["会计", "internal", "billing", *who.splitlines()[3].split()[3:4]],
    ]


def test_waits_as_json(desk: Desk) -> None:
    store_waits(desk, "billing>orders")
    [billing, *others] = desk("agents", "ps", "--json").json
    assert billing["status"] == "internal"
    assert [wait["waiting_for"] for wait in billing["waits"]] == [["orders"]]
    assert {(each["status"], len(each["waits"])) for each in others} == {("none", 0)}


def test_deadlocks_are_shown_in_a_table_or_as_json(desk: Desk) -> None:
    assert desk("agents", "deadlocks").code == 7
    store_waits(desk, "a>b", "b>a")
    store_waits(desk, "c>c", look=False)
    shown = desk("agents", "deadlocks").out.splitlines()[1:]
    assert ("c → c" in shown[0], "present" in shown[0]) == (True, True)
    assert shown[1].split()[2:] == ["a", "→", "b", "→", "a", "resolved", "a", "longest", "a>b"]
    present, past = desk("agents", "deadlocks", "--json").json
    assert (present["resolved"], past["resolved"]) == (False, True)
    assert desk("agents", "deadlocks", "--limit", "1").err == ""


def test_the_next_page_of_deadlocks_has_a_cursor(desk: Desk) -> None:
    store_waits(desk, "a>a")
    store_waits(desk, "b>b")
    first = desk("agents", "deadlocks", "--limit", "1", "--json")
    cursor = json.loads(first.err)["next_cursor"]
    [second] = desk("agents", "deadlocks", "--cursor", cursor, "--json").json
    assert (first.json[0]["victim"], second["victim"]) == ("b", "a")
    assert desk("agents", "deadlocks", "--limit", "1").err == f"more: --cursor {cursor}\n"


def test_a_store_without_deadlocks_says_so(desk: Desk) -> None:
    store_waits(desk, "a>b")
    assert desk("agents", "deadlocks").out == "no deadlocks\n"
    assert desk("agents", "deadlocks", "--json").json == []
