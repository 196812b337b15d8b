"""Workers over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.engine.registry import BEATS, WORKERS, list_workers
from ekiden.project.stores import tenant_store
from ekiden.storage.base import DocumentWrite, NewSession
from tests.unit.server.desks import As, problem, serving

ENTRY = {
    "owner": "far-1-a",
    "host": "far",
    "pid": 1,
    "version": "0.1.0",
    "engine": "worker",
    "tenant": "default",
    "agents": ["triage"],
    "needs": {"painter": ["gpu"]},
    "labels": [],
    "concurrency": 8,
}


async def test_workers_equal_the_output_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch) as desk:
        store_url = str(tmp_path / ".ekiden" / "ekiden.db")
        async with tenant_store(store_url, "default") as store:
            while not await list_workers(store):
                await store.wait_for_change(0.1)
            now_us = await store.now_us()
            entry = {**ENTRY, "started_us": now_us}
            beat = {"seen_us": now_us, "running": 2, "finished": 3, "state": "draining"}
            await store.write_documents(
                [
                    DocumentWrite(collection=WORKERS, key="w", body=entry),
                    DocumentWrite(collection=BEATS, key="w", body=beat),
                ]
            )
            await store.create(NewSession(id="p", agent="painter", status="ready"))
        shown = await desk.get("/workers")
        here, far = shown["workers"]
        assert (here["engine"], here["state"], here["tenant"]) == ("server", "working", "default")
        assert (far["state"], far["running"], far["finished"]) == ("draining", 2, 3)
        assert shown["unserved"] == [{"agent": "painter", "sessions": 1, "needs": ["gpu"]}]
        told = await desk.command("worker", "list")
        assert [each["id"] for each in told["workers"]] == [here["id"], far["id"]]
        assert told["unserved"] == shown["unserved"]


async def test_a_tenant_sees_only_its_own_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch, gate=As("read", tenant="acme")) as desk:
        store = (await desk.tenant_service("acme")).store
        now_us = await store.now_us()
        beat = {"seen_us": now_us, "running": 0, "finished": 0, "state": "working"}
        for tenant in ("default", "acme", "beta"):
            entry = {**ENTRY, "tenant": tenant, "started_us": now_us}
            writes = [(WORKERS, entry), (BEATS, beat)]
            await store.write_documents(
                [
                    DocumentWrite(collection=where, key=f"of-{tenant}", body=body)
                    for where, body in writes
                ]
            )
        shown = await desk.get("/workers")
        assert {each["tenant"] for each in shown["workers"]} == {"acme"}
        assert "of-acme" in {each["id"] for each in shown["workers"]}


async def test_listing_workers_needs_the_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch, gate=As("answer")) as desk:
        problem(await desk("GET", "/workers"), 403, "auth.scope")
