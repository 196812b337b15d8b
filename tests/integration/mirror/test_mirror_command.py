"""`ekiden mirror …`: the command against a server that speaks as Vertex does."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path

import pytest

from ekiden.sessions.replica_progress import MIRRORS
from ekiden.storage.base import DocumentWrite
from ekiden.storage.sqlite import SqliteStore
from tests.acceptance.conftest import Ekiden, Ran
from tests.support.vendor import status
from tests.support.vertex_server import POISON, VertexServer, service_account

TEAM = """
from ekiden import Agent, Team
from ekiden.testing import ScriptedModel, say

team = Team(Agent("desk", model=ScriptedModel(respond=lambda request: say("here"))))
"""
NAME = "vertex:projects/desk-1/locations/us-central1/reasoningEngines/4711"


@pytest.fixture
def desk(tmp_path: Path, server: VertexServer) -> Ekiden:
    """A project with two sessions, and a mirror that is set up."""
    ekiden = Ekiden(tmp_path)
    ekiden.write("shop.py", TEAM)
    ekiden.env |= {
        "HOME": str(tmp_path),
        "EKIDEN_TEAM": "shop:team",
        "EKIDEN_VERTEX_PROJECT": "desk-1",
        "EKIDEN_VERTEX_ENGINE": "4711",
        "EKIDEN_VERTEX_URL": server.origin,
        "GOOGLE_APPLICATION_CREDENTIALS": str(service_account(tmp_path, server)),
    }
    for session in ("s1", "s2"):
        assert ekiden("run", "--session", session, "@desk hello").code == 0
    return ekiden


async def called(ekiden: Ekiden, *arguments: str) -> Ran:
    return await asyncio.to_thread(ekiden, *arguments)


async def test_stored_events_are_sent_once(desk: Ekiden, server: VertexServer) -> None:
    ran = await called(desk, "mirror", "run", "--once")
    assert (ran.code, ran.out) == (0, "sent: 4, set aside: 0, sessions waiting: 0\n")
    assert server.said() == ["hello", "here"] * 2
    again = await called(desk, "mirror", "run", "--once", "--json")
    assert again.json == {
        "mirror": NAME,
        "sent": 0,
        "set_aside": 0,
        "waiting": 0,
        "problem": None,
        "busy": False,
    }


async def test_an_unavailable_vendor_is_reported_and_nothing_is_lost(
    desk: Ekiden, server: VertexServer
) -> None:
    assert (await called(desk, "mirror", "run", "--once")).code == 0
    server.away, server.spares_tokens = status(503), True
    assert (await called(desk, "run", "--session", "s1", "@desk more")).code == 0
    ran = await called(desk, "mirror", "run", "--once")
    assert ran.code == 1
    assert "sessions waiting: 1" in ran.out
    assert ran.err.count("it answered 503") == 1
    shown = await called(desk, "mirror", "status", "--json")
    assert shown.json["waiting"] == 1
    assert "503" in shown.json["problem"]
    server.away = None
    assert (await called(desk, "mirror", "run", "--once")).code == 0
    assert server.said().count("more") == 1


async def test_the_replica_status_names_rejected_events(desk: Ekiden, server: VertexServer) -> None:
    assert (await called(desk, "run", "--session", "s1", f"@desk {POISON}")).code == 0
    fresh = await called(desk, "mirror", "status")
    assert "up to date: no" in fresh.out
    assert (await called(desk, "mirror", "run", "--once")).code == 0
    shown = await called(desk, "mirror", "status")
    assert f"mirror: {NAME}" in shown.out
    assert "up to date: yes" in shown.out
    assert "set aside: 1" in shown.out
    assert "answered 400" in shown.out


@pytest.mark.slow
async def test_replication_runs_until_stopped_and_refuses_a_second_process(
    desk: Ekiden, server: VertexServer
) -> None:
    process = desk.start("mirror", "run")
    try:
        while len(server.said()) < 4:
            await server.until_asked(len(server.requests) + 1)
        other = await called(desk, "mirror", "run", "--once")
        assert (other.code, other.out) == (6, f"another process sends to {NAME}\n")
        assert (await called(desk, "run", "--session", "s2", "@desk more")).code == 0
        while "more" not in server.said():
            await server.until_asked(len(server.requests) + 1)
        process.send_signal(signal.SIGTERM)
        out, err = await asyncio.to_thread(process.communicate, timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "set aside: 0" in out
    assert f"mirroring to {NAME}" in err
    assert (await called(desk, "mirror", "run", "--once")).code == 0
    assert sorted(server.said()) == sorted(["hello", "here"] * 2 + ["more", "here"])


async def test_a_killed_replication_is_continued_after_its_lease(
    desk: Ekiden, server: VertexServer
) -> None:
    process: subprocess.Popen[str] = desk.start("mirror", "run")
    while not server.said():
        await server.until_asked(len(server.requests) + 1)
    process.kill()
    await asyncio.to_thread(process.communicate)
    assert (await called(desk, "mirror", "run", "--once")).code == 6
    async with SqliteStore(desk.folder / ".ekiden" / "ekiden.db") as store:
        [lease] = await store.list_documents(MIRRORS)
        over = DocumentWrite(collection=MIRRORS, key=lease.key, body={**lease.body, "until_us": 0})
        await store.write_documents([over])
    assert (await called(desk, "mirror", "run", "--once")).code == 0
    assert server.said() == ["hello", "here"] * 2


async def test_without_settings_the_error_names_the_missing_setting(desk: Ekiden) -> None:
    del desk.env["EKIDEN_VERTEX_PROJECT"]
    for command in ("run", "status"):
        ran = await called(desk, "mirror", command, "--json")
        assert ran.code == 2
        assert "mirror.vertex.project" in ran.error["message"]


async def test_sensitive_data_is_masked_if_the_settings_say_so(
    desk: Ekiden, server: VertexServer
) -> None:
    (desk.folder / ".ekiden").mkdir(exist_ok=True)
    desk.write(".ekiden/settings.json", '{"mirror": {"include_sensitive_data": false}}')
    assert (await called(desk, "run", "--session", "s3", "@desk mail ada@example.org")).code == 0
    assert (await called(desk, "mirror", "run", "--once")).code == 0
    assert "mail [email]" in server.said()
