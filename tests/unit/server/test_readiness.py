"""`/readyz`: whether the server can work, which it cannot without a store that takes writes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ekiden.core.errors import StoreReadOnly, StoreUnavailable
from ekiden.storage.sqlite import SqliteStore
from tests.support.rights import modes_count
from tests.support.serving import application, client_of


async def test_a_server_whose_store_can_only_be_read_is_not_ready(tmp_path: Path) -> None:
    path = tmp_path / "store" / "desk.db"
    async with SqliteStore(path):
        pass
    path.chmod(0o444)
    with modes_count():
        async with application(tmp_path, store=str(path), workers=0) as app, client_of(app) as http:
            answer = await http.get("/readyz")
            assert (answer.status_code, answer.json()["code"]) == (503, StoreReadOnly.code)
            assert (await http.get("/healthz")).status_code == 200


async def test_a_server_is_ready_again_when_the_store_takes_writes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "desk.db"
    async with application(tmp_path, store=str(path), workers=0) as app, client_of(app) as http:
        assert (await http.get("/readyz")).status_code == 200
        store = (await app.state.service.tenant_service()).store
        db = await store._write(lambda db, _: db)
        db.execute("PRAGMA query_only = ON")
        assert (await http.get("/readyz")).status_code == 503
        answers = await asyncio.gather(*(http.get("/readyz") for _ in range(3)))
        assert [each.status_code for each in answers] == [200] * 3

        async def never() -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(store, "check_writable", never)
        monkeypatch.setattr("ekiden.server.routes._PATIENCE_S", 0.01)
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.json()["code"]) == (503, StoreUnavailable.code)
