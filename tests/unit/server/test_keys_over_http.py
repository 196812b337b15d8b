"""`/keys` over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.server.counters import done
from tests.unit.server.desks import As, Served, problem, serving


async def made(desk: Served, **fields: Any) -> Any:
    """A new key."""
    body = {"name": "控制台", "scopes": ["read"], **fields}
    answer = await desk("POST", "/keys", body)
    found = done(answer, 201)
    assert answer.headers["cache-control"] == "no-store"
    return found


async def test_after_creating_the_first_key_every_caller_needs_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch, gate=As("admin")) as desk:
        key = await made(desk, scopes=["admin"])
    async with serving(tmp_path, monkeypatch) as desk:
        problem(await desk("GET", "/keys"), 401)
        headers = {"Authorization": f"Bearer {key['key']}"}
        [listed] = (await desk.get("/keys", headers=headers))["items"]
        assert (listed["id"], listed["name"], listed["status"]) == (key["id"], "控制台", "active")
        assert "key" not in listed


async def test_keys_are_listed_and_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path, monkeypatch, gate=As("admin")) as desk:
        ids = [(await made(desk, name=f"k{number}"))["id"] for number in range(3)]
        other = await made(desk, tenant="acme", expires_s=3600)
        assert other["expires_at"] is not None
        paged = await desk.pages("/keys", limit=1)
        assert [each["id"] for each in paged] == [*ids, other["id"]]
        [only] = (await desk.get("/keys?tenant=acme"))["items"]
        assert only["id"] == other["id"]
        for _ in range(2):
            gone = done(await desk("DELETE", f"/keys/{ids[1]}"))
            assert gone["status"] == "revoked"
        by_id = {each["id"]: each for each in (await desk.get("/keys"))["items"]}
        assert by_id[ids[1]]["status"] == "revoked"


async def test_an_invalid_key_request_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch, gate=As("admin")) as desk:
        good = {"name": "x", "scopes": ["read"]}
        wrong: list[dict[str, Any]] = [
            {"name": ""},
            {"name": "a\nb"},
            {"scopes": []},
            {"scopes": ["root"]},
            {"tenant": "../etc"},
            {"expires_s": 0},
            {"unknown": 1},
        ]
        for fields in wrong:
            problem(await desk("POST", "/keys", {**good, **fields}), 422)
        once = await desk("POST", "/keys", good, headers={"Idempotency-Key": "k"})
        assert "never stored" in problem(once, 409)["detail"]
        problem(await desk("DELETE", "/keys/zzzzzzzz"), 404)
        problem(await desk("DELETE", "/keys/x"), 422)
        problem(await desk("GET", "/keys?cursor=x"), 422)
        problem(await desk("GET", "/keys?cursor=zzzzzzzz"), 404)
        assert (await desk.get("/keys"))["items"] == []


async def test_managing_keys_needs_an_administrator_of_the_main_tenant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for gate in (As("read", "run", "answer"), As("admin", tenant="acme")):
        async with serving(tmp_path, monkeypatch, gate=gate) as desk:
            problem(await desk("GET", "/keys"), 403, "auth.scope")
            problem(await desk("POST", "/keys", {"name": "x", "scopes": ["read"]}), 403)
            problem(await desk("DELETE", "/keys/zzzzzzzz"), 403)
