"""`ekiden worker --engine temporal`, as a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest
from temporalio.client import Client

from ekiden.engine import submit
from ekiden.integrations.temporal import TemporalWorker, WorkerVersion
from ekiden.sessions import Session
from ekiden.storage.postgres import PostgresStore
from ekiden.testing.contracts.engine import words
from tests.faults.processes import ROOT, environment
from tests.integration.temporal.desk import echo_team, handle_of
from tests.support.relay_team import relay_team
from tests.support.temporal import DevServer
from tests.support.temporal_engine import TemporalEngine

COMMAND = [sys.executable, "-m", "ekiden.cli", "worker", "--engine", "temporal"]
TEAM = ["--team", "tests.support.relay_team:team"]


async def run_command(*options: str) -> tuple[int, str, str]:
    """The exit code of a worker, and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *TEAM,
        *options,
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_the_worker_command_runs_the_sessions_of_a_store(
    postgres_url: str, postgres_store: PostgresStore, temporal_server: DevServer
) -> None:
    await submit(relay_team(), "hello", session=Session("s", store=postgres_store))
    code, out, err = await run_command(
        "--address", temporal_server.address, "--store", postgres_url, "--until-idle", "--json"
    )
    assert code == 0, err
    ready, ended = map(json.loads, out.splitlines())
    assert {"desk", "triage"} <= set(ready["agents"])
    assert ended == {"finished": 1}
    engine = TemporalEngine(postgres_store, temporal_server.address)
    assert (await words(engine))[-1] == "you said: hello"


@pytest.mark.slow
async def test_invalid_options_of_the_worker_command_are_reported(postgres_url: str) -> None:
    store = ("--store", postgres_url)
    code, _, err = await run_command("--address", "127.0.0.1:9", *store)
    assert (code, "temporal server start-dev" in err) == (7, True)
    code, _, err = await run_command("--agents", "desk", *store)
    assert (code, "--label" in err) == (2, True)


async def test_the_first_version_of_a_deployment_gets_its_tasks(
    postgres_store: PostgresStore, temporal_server: DevServer, temporal_client: Client
) -> None:
    team = echo_team()
    await submit(team, "hello", session=Session("s", store=postgres_store))
    worker = TemporalWorker(
        postgres_store,
        team,
        address=temporal_server.address,
        version=WorkerVersion(build_id="one"),
    )
    async with asyncio.timeout(60):
        await worker.run(until_idle=True)
    assert worker.finished == 1
    handle = await handle_of(temporal_client, postgres_store, "s")
    found = await handle.describe()
    versioning = found.raw_description.workflow_execution_info.versioning_info
    assert versioning.deployment_version.build_id == "one"
