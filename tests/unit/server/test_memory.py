"""Memory over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.server.desks import As, Served, problem, serving

KEYS = ["a", "a/b", "颜色", "?&#%", "..", "日本 語", "📦"]


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server with the demo team."""
    async with serving(tmp_path, monkeypatch) as found:
        yield found


async def put(desk: Served, key: str, content: str, **whose: str) -> None:
    """Remember something."""
    params = {"key": key, **(whose or {"user": "u1"})}
    stored = await desk("PUT", "/memory/entry", {"content": content}, params=params)
    assert stored.status_code == 200, stored.text
    assert stored.json() == {"key": key, "stored": True}


async def test_every_key_can_be_stored_read_and_deleted(desk: Served) -> None:
    for key in KEYS:
        await put(desk, key, f"about {key}")
    for key in KEYS:
        where = {"user": "u1", "key": key}
        found = await desk.get("/memory/entry", params=where)
        assert found["content"] == f"about {key}"
        assert found == await desk.command("memory", "show", "--user", "u1", "--", key)
        gone = await desk("DELETE", "/memory/entry", params=where)
        assert gone.status_code == 204
        problem(await desk("GET", "/memory/entry", params=where), 404, "memory.not_found")
        problem(await desk("DELETE", "/memory/entry", params=where), 404, "memory.not_found")


async def test_a_memory_list_equals_the_output_of_the_command(desk: Served) -> None:
    for key in KEYS:
        await put(desk, key, f"about {key}")
    listed = await desk.get("/memory?user=u1")
    assert listed["items"] == await desk.command("memory", "list", "--user", "u1")
    assert await desk.pages("/memory?user=u1", limit=2) == listed["items"]
    assert (await desk.get("/memory?user=u1&limit=7"))["next_cursor"] is None


async def test_a_memory_key_is_derived_from_the_content(desk: Served) -> None:
    body = {"content": "她喜欢蓝色。", "metadata": {"tags": ["colour"]}}
    stored = await desk("POST", "/memory?user=u1", body)
    assert stored.status_code == 201
    [found] = (await desk.get("/memory?user=u1"))["items"]
    assert (found["key"], found["metadata"]) == (stored.json()["key"], {"tags": ["colour"]})
    named = await desk("POST", "/memory?user=u1", {"content": "blue", "key": " colour "})
    assert named.json()["key"] == "colour"


@pytest.mark.parametrize("whose", [{"user": "u&1 日本"}, {"shared": "true"}])
async def test_the_location_header_names_a_new_memory(desk: Served, whose: dict[str, str]) -> None:
    for key in KEYS:
        body = {"key": key, "content": f"about {key}"}
        stored = await desk("POST", "/memory", body, params=whose)
        found = await desk.client.get(stored.headers["Location"])
        assert found.json()["content"] == f"about {key}"


async def test_a_memory_request_must_name_the_user_or_be_shared(desk: Served) -> None:
    await put(desk, "k", "mine", user="u1")
    await put(desk, "k", "everybody's", shared="true")
    assert (await desk.get("/memory/entry?user=u1&key=k"))["content"] == "mine"
    assert (await desk.get("/memory/entry?shared=true&key=k"))["content"] == "everybody's"
    assert (await desk.get("/memory?user=U1"))["items"] == []
    for whose in ("", "user=u1&shared=true", "user=", "shared=maybe", "user=%00"):
        for method, path, body in (
            ("GET", "/memory?", None),
            ("POST", "/memory?", {"content": "a"}),
            ("DELETE", "/memory?", None),
            ("GET", "/memory/entry?key=k&", None),
            ("PUT", "/memory/entry?key=k&", {"content": "a"}),
            ("DELETE", "/memory/entry?key=k&", None),
            ("GET", "/memory/search?q=a&", None),
            ("GET", "/memory/export?", None),
        ):
            problem(await desk(method, path + whose, body), 422)


async def test_a_memory_search_equals_the_output_of_the_command(desk: Served) -> None:
    await put(desk, "颜色", "她喜欢蓝色")
    await put(desk, "food", "She is allergic to peanuts")
    for query in ("蓝色", "peanuts", "nothing of the kind"):
        found = await desk.get("/memory/search", params={"user": "u1", "q": query})
        printed = await desk.command("memory", "search", "--user", "u1", query)
        assert found["items"] == printed
    meant = await desk.get("/memory/search?user=u1&q=allergies&meaning=true&limit=1&threshold=0.1")
    options = ("--meaning", "--limit", "1", "--threshold", "0.1")
    assert meant["items"] == await desk.command(
        "memory", "search", "--user", "u1", *options, "allergies"
    )
    assert meant["items"][0]["key"] == "food"
    assert (await desk.get("/memory/search?user=u1&q="))["items"] == []


async def test_an_invalid_search_is_refused(desk: Served) -> None:
    for query in ("", "q=a&limit=0", "q=a&limit=101", "q=a&threshold=2", "q=a&threshold=nan"):
        problem(await desk("GET", f"/memory/search?user=u1&{query}"), 422)


async def test_an_invalid_memory_is_refused(desk: Served) -> None:
    bodies: tuple[Any, ...] = (
        {},
        {"content": ""},
        {"content": "  "},
        {"content": 1},
        {"content": "a", "metadata": []},
        {"content": "a", "metadata": {"x": "y" * 20_000}},
        {"content": "a", "key": " "},
        {"content": "a", "key": "b\x07"},
        {"content": "a", "key": "x" * 513},
        {"content": "字" * 60_000},
        {"content": "a", "more": 1},
    )
    for body in bodies:
        problem(await desk("POST", "/memory?user=u1", body), 422)
    raw = b'{"content": "a", "key": "\\ud800"}'
    sent = {"Content-Type": "application/json"}
    problem(await desk("POST", "/memory?user=u1", content=raw, headers=sent), 422)
    for key in ("", "%20", "%07", "x" * 513):
        problem(await desk("GET", f"/memory/entry?user=u1&key={key}"), 422)
    assert (await desk.get("/memory?user=u1"))["items"] == []


async def test_an_export_contains_all_memories_as_lines(desk: Served) -> None:
    empty = await desk("GET", "/memory/export?user=u1")
    assert (empty.status_code, empty.content) == (200, b"")
    for key in KEYS:
        await put(desk, key, f"about {key} \u2028\x85 " + "长" * 10_000)
    exported = await desk("GET", "/memory/export?user=u1")
    assert exported.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in exported.content.decode().splitlines()]
    assert lines == (await desk.get("/memory?user=u1"))["items"]


async def test_all_memories_of_one_user_can_be_deleted(desk: Served) -> None:
    for key in KEYS:
        await put(desk, key, "x")
    await put(desk, "k", "x", user="u2")
    cleared = await desk("DELETE", "/memory?user=u1")
    assert cleared.json() == {"forgotten": len(KEYS)}
    assert (await desk.get("/memory?user=u1"))["items"] == []
    assert len((await desk.get("/memory?user=u2"))["items"]) == 1


async def test_sync_equals_the_output_of_the_command(desk: Served) -> None:
    told = await desk("POST", "/memory/sync")
    assert told.json() == {"items": await desk.command("memory", "sync"), "next_cursor": None}


async def test_memories_of_tenants_are_separate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = As("admin", tenant="other")
    async with serving(tmp_path, monkeypatch, gate=gate) as desk:
        await put(desk, "k", "theirs", shared="true")
        gate.who = As("admin").who
        assert (await desk.get("/memory?shared=true"))["items"] == []


async def test_memory_routes_need_their_scopes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = As("read", "answer")
    async with serving(tmp_path, monkeypatch, gate=gate) as desk:
        for method, path in (
            ("POST", "/memory?user=u"),
            ("PUT", "/memory/entry?user=u&key=k"),
            ("DELETE", "/memory/entry?user=u&key=k"),
            ("POST", "/memory/sync"),
        ):
            body = {"content": "a"} if method != "DELETE" else None
            problem(await desk(method, path, body), 403, "auth.scope")
        gate.who = As("read", "answer", "run").who
        problem(await desk("DELETE", "/memory?user=u"), 403, "auth.scope")
        gate.who = As("run", "answer").who
        for path in ("/memory?user=u", "/memory/search?user=u&q=a", "/memory/export?user=u"):
            problem(await desk("GET", path), 403, "auth.scope")
