"""Keys, workers and costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.client.ekiden import Ekiden
from ekiden.core.errors import SessionNotFound
from ekiden.core.errors.server import KeyNotFound, RequestInvalid
from ekiden.engine.registry import BEATS, WORKERS
from ekiden.project import open_store
from ekiden.storage.base import DocumentWrite, NewSession


async def test_keys_are_made_listed_and_revoked(ekiden: Ekiden) -> None:
    made = [await ekiden.keys.create(name, scopes=["read", "run"]) for name in ("控制台", "b", "c")]
    other = await ekiden.keys.create("d", scopes=["admin"], tenant="acme", expires_s=60)
    assert other.expires_at is not None
    assert other.key.startswith(f"ek_{other.id}_")
    page = await ekiden.keys.list().page(limit=3)
    rest = await ekiden.keys.list().page(limit=3, cursor=page.next_cursor)
    assert (len(page.items), len(rest.items), rest.next_cursor) == (3, 1, None)
    listed = {each.id: each.name for each in [*page.items, *rest.items]}
    assert listed == {each.id: each.name for each in [*made, other]}
    [only] = [each async for each in ekiden.keys.list(tenant="acme")]
    assert (only.id, tuple(only.scopes), only.status) == (other.id, ("admin",), "active")
    revoked = await ekiden.keys.revoke(made[1].id)
    assert (revoked.id, revoked.status) == (made[1].id, "revoked")
    assert await ekiden.keys.revoke(made[1].id) == revoked
    with pytest.raises(KeyNotFound):
        await ekiden.keys.revoke("zzzzzzzz")
    with pytest.raises(KeyNotFound):
        await ekiden.keys.list().page(cursor="zzzzzzzz")
    with pytest.raises(RequestInvalid):
        await ekiden.keys.create("", scopes=["read"])
    with pytest.raises(RequestInvalid):
        await ekiden.keys.create("x", scopes=[])


async def test_workers_are_listed_with_the_agents_no_worker_serves(
    ekiden: Ekiden, tmp_path: Path
) -> None:
    async with open_store(str(tmp_path / "s.db")) as store:
        entry = {
            "owner": "far-1-a", "host": "far", "pid": 1, "version": "0.1.0", "engine": "worker",
            "tenant": "default", "agents": ["triage"], "needs": {"painter": ["gpu"]}, "labels": [],
            "concurrency": 8, "started_us": 0,
        }  # fmt: skip
        seen = {"seen_us": await store.now_us(), "running": 2, "finished": 3, "state": "working"}
        documents = [
            DocumentWrite(collection=WORKERS, key="w", body=entry),
            DocumentWrite(collection=BEATS, key="w", body=seen),
        ]
        await store.write_documents(documents)
        await store.create(NewSession(id="p", agent="painter", status="ready"))
    found = await ekiden.workers.list()
    [far] = [each for each in found.workers if each.host == "far"]
    assert (far.engine, far.running, far.finished, tuple(far.agents)) == (
        "worker", 2, 3, ("triage",),
    )  # fmt: skip
    [left] = found.unserved
    assert (left.agent, left.sessions, tuple(left.needs)) == ("painter", 1, ("gpu",))


async def test_costs_without_calls_are_zero(ekiden: Ekiden) -> None:
    found = await ekiden.costs.get(by=["day"], since="7d")
    assert (tuple(found.by), tuple(found.lines), found.total.requests) == (("day",), (), 0)
    assert tuple((await ekiden.costs.get()).by) == ("agent", "model")
    with pytest.raises(SessionNotFound):
        await ekiden.costs.get(session="nobody")
    with pytest.raises(RequestInvalid):
        await ekiden.costs.get(by=["day", "day"])
    with pytest.raises(RequestInvalid):
        await ekiden.costs.get(since="never")
