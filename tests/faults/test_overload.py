"""More than can be served: those who are too many are told when to come again, and memory has a
bound."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.faults.processes import environment
from tests.faults.waiting import DEADLINE_S
from tests.support.forked import ForkedPopen

ROOM = 8
"""Requests that the server takes at the same time."""
FLOOD = 200
_BODY = 500_000
"""Characters of each message."""
_MOST_GROWTH = 80_000_000
"""Bytes by which the server may grow: less than what is thrown at it at once."""


@contextmanager
def small_server(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """`ekiden serve` with little room, as a process; its address."""
    settings = {"server": {"max_requests": ROOM}}
    (folder / ".ekiden").mkdir()
    (folder / ".ekiden" / "settings.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "ekiden.cli", "serve", "--port", "0", "--log", "none"]
    process = ForkedPopen(
        [*command, "--store", "desk.db", "--json"],
        cwd=folder,
        env={**environment(), "HOME": str(folder), "EKIDEN_TESTING": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"], psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait(DEADLINE_S)
        process.stdout.close()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[httpx2.AsyncClient, psutil.Process]]:
    """A client without a limit of its own, and the server's process."""
    limits = httpx2.Limits(max_connections=FLOOD)
    with small_server(tmp_path) as (url, process):
        async with httpx2.AsyncClient(base_url=url, timeout=DEADLINE_S, limits=limits) as client:
            yield client, process


async def say(client: httpx2.AsyncClient, number: int) -> httpx2.Response:
    """A message in a session of its own."""
    body = {"input": f"Where is my order {number}? {'x' * _BODY}", "session_id": f"s{number}"}
    return await client.post("/api/v1/runs", json=body)


def check_refusals(answers: list[httpx2.Response], status: int) -> None:
    """Every caller refused with `status` was told when to retry, and why."""
    refused = [answer for answer in answers if answer.status_code == status]
    assert refused
    for answer in refused:
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]


async def test_a_flood_of_requests_gets_retry_after_within_bounded_memory(
    served: tuple[httpx2.AsyncClient, psutil.Process],
) -> None:
    client, process = served
    assert (await say(client, 0)).status_code == 200
    before = process.memory_info().rss
    answers = await asyncio.gather(*(say(client, number) for number in range(1, FLOOD + 1)))
    growth = process.memory_info().rss - before
    counts = Counter(answer.status_code for answer in answers)
    assert set(counts) == {200, 503}
    check_refusals(answers, 503)
    assert {answer.json()["code"] for answer in answers if answer.status_code == 503} == {
        "server.busy"
    }
    assert growth < _MOST_GROWTH
    assert (await client.get("/healthz")).status_code == 200
    taken = {f"s{number}" for number, each in enumerate(answers, 1) if each.status_code == 200}
    for answer in answers:
        if answer.status_code == 200:
            assert answer.json()["status"] == "done"
    page = (await client.get("/api/v1/sessions?limit=1000")).json()["items"]
    assert {each["session_id"] for each in page} == {*taken, "s0"}
    refused = next(number for number, each in enumerate(answers, 1) if each.status_code == 503)
    assert (await say(client, refused)).status_code == 200
