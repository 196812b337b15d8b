"""Requests that wait in the store are found by the process they are for, and by no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.handoffs import Actor
from ekiden.handoff.requests import REQUESTS, Asked, sweep_requests
from ekiden.runtime import HandoffController, RunConfig
from ekiden.storage.base import NewSession
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ManualClock
from tests.unit.runtime.offices import Office, ended, waiting

DAY_S = 86_400


async def test_many_requests_of_other_sessions_do_not_hide_a_request(tmp_path: Any) -> None:
    path = tmp_path / "one.db"
    async with SqliteStore(path) as store, SqliteStore(path) as other:
        now_us = RunConfig().clock.now_us()
        others = [waiting(f"aaa{n}", n, asked_us=now_us) for n in range(250)]
        await store.write_documents(others)
        office = Office(store)
        running = await office.at_work()
        controller = HandoffController(office.team, other)
        result = await controller.start("s", to="b", policy="immediate")
        assert ended(result) == ("completed", None)
        assert office.ended == ["cancelled"]
        await running
        assert len(await office.documents()) == 250


async def test_requests_of_deleted_sessions_are_removed() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    await store.create(NewSession(id="s", agent="a"))
    now_us = clock.now_us()
    await store.write_documents(
        [
            waiting("s", 1, asked_us=now_us - 299_000_000),
            waiting("gone", 2, asked_us=now_us - 299_000_000),
            waiting("s", 3, asked_us=now_us - 301_000_000),
            waiting("gone", 4, asked_us=now_us - 301_000_000),
            waiting("s", 5, asked_us=now_us - (DAY_S + 301) * 1_000_000, state="timed_out"),
            waiting("s", 6, asked_us=now_us - (DAY_S + 301) * 1_000_000, timeout_s=1000),
        ]
    )
    await sweep_requests(store, now_us=now_us)
    left = [each.body["id"] for each in await store.list_documents(REQUESTS)]
    assert sorted(left) == ["hrq0001", "hrq0002", "hrq0003", "hrq0005", "hrq0006"]


async def test_cancelling_a_request_that_no_process_executes_records_and_removes_it() -> None:
    office = Office(MemoryStore())
    office.let_go.set()
    await (await office.at_work())
    await office.store.write_documents([waiting("s", 1, asked_us=office.config.clock.now_us())])
    result = await office.controller.cancel("hrq0001")
    assert (result.request_id, *ended(result)) == ("s.h1", "failed", "CANCELLED")
    assert not await office.documents()
    row = await office.session.row()
    assert (row.agent, row.outcome, row.owner) == ("a", "done", None)


async def test_a_controller_of_another_team_can_cancel_a_request() -> None:
    office = Office(MemoryStore())
    office.let_go.set()
    await (await office.at_work())
    await office.store.write_documents([waiting("s", 1, asked_us=office.config.clock.now_us())])
    stranger = HandoffController(Agent("x"), office.store)
    for _ in range(2):
        result = await stranger.cancel("hrq0001")
        assert (result.request_id, *ended(result)) == ("hrq0001", "failed", "CANCELLED")
    [left] = await office.documents()
    assert left.body["state"] == "cancelled"
    assert (await office.session.row()).owner is None


async def test_requests_of_a_session_with_the_same_prefix_are_left_alone() -> None:
    office = Office(MemoryStore())
    running = await office.at_work()
    now_us = office.config.clock.now_us()
    await office.store.write_documents([waiting("s/t", 1, asked_us=now_us, policy="immediate")])
    result = await office.start(policy="immediate")
    assert ended(result) == ("completed", None)
    await running
    assert [each.key for each in await office.documents()] == ["s/t/hrq0001"]


async def test_more_cancelled_requests_than_a_page_are_all_recorded() -> None:
    office = Office(MemoryStore())
    running = await office.at_work()
    now_us = office.config.clock.now_us()
    many = [waiting("s", n, asked_us=now_us, state="cancelled") for n in range(130)]
    await office.store.write_documents(many)
    assert ended(await office.start(policy="immediate")) == ("completed", None)
    await running
    assert not await office.documents()
    assert (await office.told())[:-1] == [("failed", "CANCELLED")] * 130


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"to": "nobody"}, "AGENT_NOT_FOUND"),
        ({"to": "c"}, "PERMISSION_DENIED"),
        ({"capabilities": ("sql",)}, "CAPABILITY_MISSING"),
        ({"to": "a"}, "PERMISSION_DENIED"),
    ],
)
async def test_a_request_that_would_be_refused_does_not_interrupt_the_run(
    options: Any, code: str
) -> None:
    office = Office(MemoryStore())
    running = await office.at_work()
    starting = office.start(policy="immediate", **options)
    await office.asked()
    office.let_go.set()
    assert (await running).final_output == "a here"
    assert office.ended == ["finished"]
    assert ended(await starting) == ("failed", code)


@pytest.mark.parametrize("b", [{"available": False}])
async def test_a_request_of_another_process_that_would_be_refused_does_not_interrupt(
    tmp_path: Any, b: Any
) -> None:
    path = tmp_path / "one.db"
    async with SqliteStore(path) as store, SqliteStore(path) as other:
        office = Office(store, b=b)
        looked = asyncio.Event()

        running = await office.at_work()
        controller = HandoffController(office.team, other)
        starting = asyncio.create_task(controller.start("s", to="b", policy="immediate"))
        await office.asked()
        listed = store.list_documents

        async def list_documents(*args: Any, **options: Any) -> Any:
            found = await listed(*args, **options)
            if looked.is_set():
                office.let_go.set()
            looked.set()
            return found

        store.list_documents = list_documents  # type: ignore[method-assign]
        assert (await running).final_output == "a here"
        assert office.ended == ["finished"]
        assert ended(await starting) == ("failed", "AGENT_UNAVAILABLE")


def test_a_stored_request_of_another_version_is_read() -> None:
    stored = {**Asked(id="hrq1", to="b", by=Actor(kind="person")).to_json(), "colour": "red"}
    del stored["source"], stored["withdrawn"]
    assert Asked.from_json(stored) == Asked(id="hrq1", to="b", by=Actor(kind="person"))
