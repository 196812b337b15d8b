"""`/sessions` by state and by text, over HTTP."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from ekiden.storage.base import Commit, NewSession, SessionPatch, Store
from tests.unit.server.desks import problem, serving


async def finished(store: Store, name: str, outcome: str, title: str) -> None:
    """A session whose last run ended so."""
    await store.create(NewSession(id=name, agent="计费", meta={"title": title}))
    claim, _ = await store.claim(name, owner="w", lease_s=60)
    await store.commit(claim, Commit(patch=SessionPatch(outcome=outcome), release=True))


async def test_sessions_are_listed_by_state_and_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch) as desk:
        store = await desk.store()
        await desk.ask("我的订单 1042 在哪里？", session_id="talk")
        for number in range(3):
            await finished(store, f"bad-{number}", "failed", f"Größe {number}")
        await store.create(NewSession(id="ready", agent="orders"))
        assert await store.claim("ready", owner="somebody", lease_s=600) is not None
        assert [each["session_id"] for each in await desk.pages("/sessions?state=failed")] == [
            "bad-2",
            "bad-1",
            "bad-0",
        ]
        several = await desk.pages("/sessions?state=working&state=idle", limit=1)
        assert [each["session_id"] for each in several] == ["ready", "talk"]
        [one] = await desk.pages(f"/sessions?text={quote('GRÖSSE 1')}&state=failed")
        assert (one["title"], one["state"], one["run_id"]) == ("Größe 1", "failed", None)
        assert len(await desk.pages(f"/sessions?text={quote('计')}")) == 3
        shown = await desk.get("/sessions/talk")
        assert (shown["state"], shown["run_id"], shown["waiting_for"]) == ("idle", "talk:1", [])
        for query in ("state=sleeping", "text=%00", f"text={'x' * 201}", "state="):
            problem(await desk("GET", f"/sessions?{query}"), 422)
