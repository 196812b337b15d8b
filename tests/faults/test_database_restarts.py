"""PostgreSQL dies every few seconds, and everybody goes on by themselves."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ekiden.core.agent import Agent
from ekiden.core.errors import StoreUnavailable
from ekiden.engine import Worker, submit
from ekiden.integrations.temporal import TemporalWorker
from ekiden.runtime import CodeContext
from ekiden.sessions import Session
from ekiden.storage.postgres import PostgresStore
from tests.faults.crowd import check_crowd, crowd
from tests.faults.databases import PostgresDatabase
from tests.faults.ledger import Ledger
from tests.faults.processes import ROOT, environment
from tests.faults.waiting import DEADLINE_S, until
from tests.support.forked import ForkedPopen
from tests.support.relay_team import team
from tests.support.server import Server, private_server
from tests.support.temporal import DevServer

DEATHS = [2, pytest.param(25, marks=pytest.mark.slow)]
TEAM = "tests.support.relay_team:team"
WORKER = [sys.executable, "-m", "ekiden.cli", "worker", "--team", TEAM]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that may be killed, if it is started again."""
    with private_server(is_killed=True) as server:
        yield server


async def let_it_die(server: Server, times: int, *, alive_s: tuple[float, float]) -> None:
    """Kill it, or stop it at once, again and again; each time it is away for a moment."""
    chance = random.Random(times)
    for number in range(times):
        await asyncio.sleep(chance.uniform(*alive_s))
        await asyncio.to_thread(server.kill if number % 2 == 0 else server.crash)
        await asyncio.sleep(chance.uniform(0.2, 0.8))
        await asyncio.to_thread(server.start)


async def look_on(database: PostgresDatabase, told: list[str]) -> None:
    """Ask the store something again and again; what went wrong is put into `told`."""
    async with database.open() as store:
        while True:
            try:
                await store.now_us()
            except StoreUnavailable as exc:
                told.append(f"{exc.code}: {exc}")
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("deaths", DEATHS)
async def test_workers_and_submitters_survive_repeated_database_crashes(
    server: Server, ledger: Ledger, deaths: int
) -> None:
    database = PostgresDatabase(f"{server.url}&schema=died_{deaths}_times")
    told: list[str] = []
    with crowd(database.url, ledger) as people:
        async with database.open():
            people.work()
            people.work()
            people.submit(prefix="a")
            people.submit(prefix="b")
            await people.begin()
            looking = asyncio.create_task(look_on(database, told))
            await let_it_die(server, deaths, alive_s=(1.0, 2.0))
            looking.cancel()
            await people.progress(10)
            names = await people.end(database)
    await check_crowd(database, ledger, names)
    check_words([*told, *(f"{line['code']}: {line['text']}" for line in ledger.lines("refused"))])


def check_words(told: list[str]) -> None:
    """Every process that met the outage reported it."""
    assert told
    for each in told:
        code, _, text = each.partition(": ")
        assert code == "store.unavailable"
        assert any(
            words in text for words in ("cannot reach", "was lost", "failed:", "is not known")
        ), text
        assert "Traceback" not in text


@contextmanager
def http_server(folder: Path, store: str) -> Iterator[str]:
    """`ekiden serve` as a process, over a store; its address."""
    command = [sys.executable, "-m", "ekiden.cli", "serve", "--port", "0", "--log", "none"]
    process = ForkedPopen(
        [*command, "--store", store, "--json"],
        cwd=folder,
        env={**environment(), "HOME": str(folder), "EKIDEN_TESTING": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.kill()
        process.wait(DEADLINE_S)
        process.stdout.close()


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url, timeout=DEADLINE_S) as client:
        yield client


async def refused_with_retry_after(client: httpx2.AsyncClient, call: Any) -> httpx2.Response:
    """The answer, which must be refused with a time to retry."""
    answer: httpx2.Response = await call(client)
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["code"] == "store.unavailable"
    return answer


def _run(number: int) -> Any:
    body = {"input": "Where is my order 1042?", "session_id": f"r{number}"}
    return lambda client: client.post(
        "/api/v1/runs", json=body, headers={"Idempotency-Key": f"k{number}"}
    )


async def _ready(client: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_the_http_server_returns_503_with_retry_after_and_recovers(
    server: Server, tmp_path: Path
) -> None:
    with http_server(tmp_path, f"{server.url}&schema=served") as url:
        async with client_of(url) as client:
            await _ready(client)
            assert (await _run(1)(client)).status_code == 200
            server.kill()
            for call in (
                _run(2),
                lambda client: client.get("/api/v1/sessions"),
                lambda client: client.get("/readyz"),
            ):
                answer = await refused_with_retry_after(client, call)
                assert str(tmp_path) not in answer.text
                assert "postgres" not in answer.text
            assert (await client.get("/healthz")).status_code == 200
            server.start()
            await _ready(client)
            first = await _run(2)(client)
            again = await _run(2)(client)
            assert first.status_code == again.status_code == 200, first.text
            assert first.json()["run_id"] == again.json()["run_id"]
            found = await client.get("/api/v1/sessions")
            assert sorted(each["session_id"] for each in found.json()["items"]) == ["r1", "r2"]


@pytest.fixture(params=["worker", "temporal"])
def engine(request: pytest.FixtureRequest) -> list[str]:
    """The options of `ekiden worker` for an engine."""
    if request.param == "worker":
        return []
    server: DevServer = request.getfixturevalue("temporal_server")
    return ["--engine", "temporal", "--address", server.address]


async def test_a_worker_started_without_its_database_reports_it_and_waits(
    server: Server, tmp_path: Path, engine: list[str]
) -> None:
    url = f"{server.url}&schema=early_{len(engine)}"
    async with PostgresStore(url) as store:
        await submit(team, "hello", session=Session("s", store=store))
    server.kill()
    with (tmp_path / "log.txt").open("wb") as output:
        process = ForkedPopen(
            [*WORKER, "--store", url, "--until-idle", *engine],
            cwd=ROOT,
            env=environment(),
            stdout=output,
            stderr=output,
        )
    try:
        waiting = "waiting for the database"
        await until(lambda: waiting in log_of(tmp_path) or process.poll() is not None, "it waits")
        server.start()
        assert await asyncio.to_thread(process.wait, DEADLINE_S) == 0, log_of(tmp_path)
    finally:
        process.kill()
        process.wait(DEADLINE_S)
        server.start()
    assert waiting in log_of(tmp_path)
    assert "sessions finished: 1" in log_of(tmp_path)


async def test_a_server_started_without_its_database_reports_it_and_waits(
    server: Server, tmp_path: Path
) -> None:
    server.kill()
    command = [sys.executable, "-m", "ekiden.cli", "serve", "--port", "0", "--team", TEAM, "--json"]
    with (tmp_path / "log.txt").open("wb") as output:
        process = ForkedPopen(
            [*command, "--store", f"{server.url}&schema=served_early"],
            cwd=ROOT,
            env=environment(),
            stdout=output,
            stderr=output,
        )
    try:
        waiting = "waiting for the database"
        await until(lambda: waiting in log_of(tmp_path) or process.poll() is not None, "it waits")
        server.start()
        await until(lambda: '{"url"' in log_of(tmp_path) or process.poll() is not None, "it serves")
        process.terminate()
        assert await asyncio.to_thread(process.wait, DEADLINE_S) == 0, log_of(tmp_path)
    finally:
        process.kill()
        process.wait(DEADLINE_S)
        server.start()
    assert waiting in log_of(tmp_path)
    assert '{"url"' in log_of(tmp_path)


def log_of(folder: Path) -> str:
    """What a process wrote so far."""
    return (folder / "log.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", [Worker, TemporalWorker])
async def test_a_worker_in_a_program_waits_for_the_database_until_stopped(
    server: Server, caplog: pytest.LogCaptureFixture, kind: type[Worker | TemporalWorker]
) -> None:
    async def answer(ctx: CodeContext[Any]) -> str:
        return ctx.text

    store = PostgresStore(f"{server.url}&schema=in_a_program")
    worker = kind(store, Agent("desk", run=answer))
    server.kill()
    try:
        running = asyncio.create_task(worker.run())
        await until(lambda: "waiting for" in caplog.text or running.done(), "it waits")
        worker.stop()
        async with asyncio.timeout(DEADLINE_S):
            await running
    finally:
        server.start()
        await store.close()
