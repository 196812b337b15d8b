"""`/sessions` over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.events import Event
from ekiden.server import ServerConfig
from ekiden.storage.base import Commit, NewSession, SessionPatch
from ekiden.testing.contracts.base import claimed
from tests.unit.server.desks import As, Served, problem, serving

BINARY = {"Content-Type": "application/octet-stream"}


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server with the demo team."""
    async with serving(tmp_path, monkeypatch) as found:
        yield found


async def some(desk: Served, count: int = 5) -> list[str]:
    """Ids of new sessions, the newest first."""
    ids = [f"c-{number}" for number in range(count)]
    for number, each in enumerate(ids):
        await desk.ask("我的订单 1042 在哪里？", session_id=each, user_id=f"u{number % 2}")
    return ids[::-1]


async def test_a_session_list_equals_the_output_of_the_command(desk: Served) -> None:
    await some(desk, 3)
    listed = await desk.get("/sessions")
    assert listed["items"] == await desk.command("session", "list")
    assert listed["next_cursor"] is None


async def test_session_pages_have_no_gaps_or_repeats(desk: Served) -> None:
    ids = await some(desk)
    found = await desk.pages("/sessions")
    assert [each["session_id"] for each in found] == ids


async def test_a_list_can_be_filtered(desk: Served) -> None:
    await some(desk)
    for query, options in (
        ("user=u1", ("--user", "u1")),
        ("agent=orders", ("--agent", "orders")),
        ("agent=nobody", ("--agent", "nobody")),
        ("state=idle&outcome=done", ("--state", "idle", "--outcome", "done")),
        ("state=waiting_person", ("--state", "waiting_person")),
        ("state=failed", ("--state", "failed")),
        (
            "state=failed&state=idle&limit=2",
            ("--state", "failed", "--state", "idle", "--limit", "2"),
        ),
        ("text=U1&state=idle", ("--text", "U1", "--state", "idle")),
    ):
        found = await desk.get(f"/sessions?{query}")
        assert found["items"] == await desk.command("session", "list", *options)


async def test_an_invalid_list_query_is_refused(desk: Served) -> None:
    for query in (
        "limit=0",
        "limit=1001",
        "limit=x",
        "state=sleeping",
        "outcome=won",
        "cursor=nonsense",
        "cursor=%00",
        "cursor=",
        f"cursor={'x' * 600}",
        "user=%00",
        f"agent={'x' * 300}",
    ):
        problem(await desk("GET", f"/sessions?{query}"), 422)


async def test_a_session_equals_the_output_of_the_command(desk: Served) -> None:
    [name] = await some(desk, 1)
    shown = await desk.get(f"/sessions/{name}")
    assert shown == await desk.command("session", "show", name)
    assert "订单 1042" in json.dumps(shown["items"], ensure_ascii=False)


async def test_an_unknown_session_is_not_found(desk: Served) -> None:
    for part in ("", "/events", "/items", "/chain", "/export", "/state"):
        problem(await desk("GET", f"/sessions/nobody{part}"), 404, "session.not_found")
        problem(await desk("GET", f"/sessions/%E5%AE%A2{part}"), 422)
    other = await desk("PUT", "/sessions/nobody")
    problem(other, 405)
    assert other.headers["allow"] == "GET, DELETE"


async def test_events_are_listed_in_order_and_without_gaps(desk: Served) -> None:
    [name] = await some(desk, 1)
    stored = await (await desk.store()).events(name)
    found = await desk.pages(f"/sessions/{name}/events", limit=2)
    assert [{**each, "made_by": None} for each in found] == [
        {**event.to_json(), "made_by": None} for event in stored
    ]
    rest = await desk.get(f"/sessions/{name}/events?after=3")
    assert rest["items"] == found[3:]
    assert await desk.get(f"/sessions/{name}/events?after=1000000000") == {
        "items": [],
        "next_cursor": None,
    }


async def test_events_are_filtered_by_type(desk: Served) -> None:
    store = await desk.store()
    await store.create(NewSession(id="long", agent="triage"))
    claim = await claimed(store, "long")
    kinds: list[Any] = ["llm_call", "tool_call", "handoff"]
    events = [
        Event(session_id="long", seq=seq, type=kinds[seq % 1000 % 3 % 2], at_us=seq)
        for seq in range(1, 2501)
    ]
    events[1999] = Event(session_id="long", seq=2000, type="handoff", at_us=2000)
    await store.commit(claim, Commit(patch=SessionPatch(), events=events, release=True))
    found = await desk.get("/sessions/long/events?types=handoff&types=route")
    assert [each["seq"] for each in found["items"]] == [2000]
    calls = await desk.pages("/sessions/long/events?types=tool_call", limit=300)
    assert [each["seq"] for each in calls] == [
        event.seq for event in events if event.type == "tool_call"
    ]


async def test_an_invalid_event_query_is_refused(desk: Served) -> None:
    [name] = await some(desk, 1)
    for query in ("types=party", "after=-1", f"after={10**20}", "cursor=x", "cursor=1e3"):
        problem(await desk("GET", f"/sessions/{name}/events?{query}"), 422)


async def test_items_are_the_conversation(desk: Served) -> None:
    [name] = await some(desk, 1)
    await desk.ask("And 1043?", session_id=name)
    shown = await desk.get(f"/sessions/{name}")
    assert await desk.pages(f"/sessions/{name}/items", limit=1) == shown["items"]
    assert (await desk.get(f"/sessions/{name}/items?cursor=999"))["items"] == []
    problem(await desk("GET", f"/sessions/{name}/items?cursor=-1"), 422)


async def test_lone_surrogates_in_a_session_are_shown(desk: Served) -> None:
    store = await desk.store()
    await store.create(NewSession(id="half", agent="triage", meta={"title": "\ud83d"}))
    claim = await claimed(store, "half")
    said = ({"role": "user", "content": "\ud800 包裹"},)
    event = Event(session_id="half", seq=1, type="message", at_us=1, items=said)
    await store.commit(claim, Commit(patch=SessionPatch(), events=[event], release=True))
    assert (await desk.get("/sessions/half/items"))["items"] == list(said)
    for path in ("/sessions", "/sessions/half", "/sessions/half/events", "/sessions/half/export"):
        assert "\\ud8" in (await desk("GET", path)).text
    for path in ("/traces/half", "/traces/half?content=true", "/sessions/half/state"):
        assert (await desk("GET", path)).status_code == 200
    document = (await desk("GET", "/sessions/half/export")).content
    taken = await desk("POST", "/sessions/import?id=again", content=document, headers=BINARY)
    assert taken.status_code == 201, taken.text
    assert (await desk.get("/sessions/again/items"))["items"] == list(said)
    strict = {"Content-Type": "application/json"}
    refused = await desk("POST", "/sessions/import?id=more", content=document, headers=strict)
    problem(refused, 422)


async def test_the_chain_equals_the_output_of_the_command(desk: Served) -> None:
    [name] = await some(desk, 1)
    chain = await desk.get(f"/sessions/{name}/chain")
    assert chain == await desk.command("chain", name)
    assert chain["chain"] == ["user", "triage", "orders"]


async def test_an_export_can_be_imported_elsewhere(desk: Served) -> None:
    [name] = await some(desk, 1)
    answer = await desk("GET", f"/sessions/{name}/export")
    assert answer.json() == await desk.command("session", "export", name)
    assert f'filename="{name}.json"' in answer.headers["content-disposition"]
    problem(await desk("POST", "/sessions/import", content=answer.content), 409, "session.exists")
    taken = await desk("POST", "/sessions/import?id=copy&user=用户", content=answer.content)
    assert taken.status_code == 201
    assert taken.headers["location"] == "/api/v1/sessions/copy"
    assert taken.json()["user_id"] == "用户"
    copied = await desk.get("/sessions/copy")
    assert copied["items"] == (await desk.get(f"/sessions/{name}"))["items"]


async def test_a_long_document_can_be_imported(desk: Served) -> None:
    [name] = await some(desk, 1)
    document = (await desk("GET", f"/sessions/{name}/export")).json()
    document["session"]["meta"]["notes"] = "长" * 200_000
    taken = await desk("POST", "/sessions/import?id=big", document)
    assert taken.status_code == 201


async def test_an_invalid_import_document_is_refused_as_a_whole(desk: Served) -> None:
    for content in (
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{" * 5000,
        b'{"format":"ekiden.session"}',
        b"1e999",
    ):
        refused = await desk("POST", "/sessions/import", content=content, headers=BINARY)
        problem(refused, 422, "session.import_invalid")
        strict = {"Content-Type": "application/json"}
        problem(await desk("POST", "/sessions/import", content=content, headers=strict), 422)
    assert (await desk.get("/sessions"))["items"] == []


async def test_a_too_long_import_document_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch, config=ServerConfig(max_body=1000)) as desk:
        refused = await desk("POST", "/sessions/import", content=b"x" * 1001)
        problem(refused, 413, "request.too_large")


async def test_a_session_can_be_deleted(desk: Served) -> None:
    [name] = await some(desk, 1)
    gone = await desk("DELETE", f"/sessions/{name}")
    assert gone.status_code == 204
    assert gone.content == b""
    problem(await desk("DELETE", f"/sessions/{name}"), 404)


async def test_a_running_session_cannot_be_changed_or_deleted(desk: Served) -> None:
    [name] = await some(desk, 1)
    store = await desk.store()
    claim, _ = await store.claim(name, owner="elsewhere", lease_s=60)
    for method, path, body in (
        ("DELETE", f"/sessions/{name}", None),
        ("POST", f"/sessions/{name}/rewind", {"to": 1}),
        ("PATCH", f"/sessions/{name}/state", {"set": {"a": 1}}),
    ):
        busy = await desk(method, path, body)
        problem(busy, 409, "session.busy")
    await store.release(claim)


async def test_a_branch_continues_from_an_earlier_point(desk: Served) -> None:
    [name] = await some(desk, 1)
    await desk.ask("And 1043?", session_id=name)
    made = await desk("POST", f"/sessions/{name}/fork", {"before": 10, "session_id": "branch"})
    assert made.status_code == 201, made.text
    assert made.headers["location"] == "/api/v1/sessions/branch"
    printed = await desk.command("session", "fork", name, "--before", "10", "--id", "other")
    assert made.json() == {**printed, "session_id": "branch"}
    last = await desk("POST", f"/sessions/{name}/fork")
    assert last.json()["events"] == (await desk.get(f"/sessions/{name}"))["events"]
    problem(
        await desk("POST", f"/sessions/{name}/fork", {"session_id": "branch"}),
        409,
        "session.exists",
    )


async def test_an_invalid_fork_place_is_refused(desk: Served) -> None:
    [name] = await some(desk, 1)
    bodies: tuple[Any, ...] = (
        {"at": 1, "before": 1},
        {"before": 1},
        {"before": 2},
        {"at": 99},
        {"at": 0},
        {"at": 10**30},
        {"at": "x"},
        {"session_id": "a/b"},
        {"session_id": "客"},
        {"where": 3},
        [],
        "text",
    )
    for body in bodies:
        problem(await desk("POST", f"/sessions/{name}/fork", body), 422)


async def test_a_session_without_events_cannot_be_forked(desk: Served) -> None:
    await (await desk.store()).create(NewSession(id="new", agent="triage"))
    problem(await desk("POST", "/sessions/new/fork", {}), 422)


async def test_a_session_can_be_rewound(desk: Served) -> None:
    [name] = await some(desk, 1)
    done = await desk("POST", f"/sessions/{name}/rewind", {"to": 1})
    assert done.status_code == 200
    assert done.json() == {"session_id": name, "to_seq": 1, "undone": 8, "agent": "triage"}
    items = (await desk.get(f"/sessions/{name}/items"))["items"]
    assert len(items) == 1
    for body in ({"to": 0}, {"to": 99}, {}, {"to": 1, "also": 2}):
        problem(await desk("POST", f"/sessions/{name}/rewind", body), 422)
    problem(await desk("POST", "/sessions/nobody/rewind", {"to": 1}), 404)


async def test_sessions_are_searched_by_text(desk: Served) -> None:
    await some(desk, 2)
    await desk.ask("Where is my order 1043?", session_id="english", user_id="u1")
    found = await desk.get("/sessions/search", params={"q": "订单", "limit": "50"})
    assert found["items"] == await desk.command("session", "search", "订单", "--limit", "50")
    assert {each["session_id"] for each in found["items"]} == {"c-0", "c-1"}
    own = await desk.get("/sessions/search", params={"q": "订单", "user": "u1"})
    assert {each["session_id"] for each in own["items"]} == {"c-1"}
    assert (await desk.get("/sessions/search?q="))["items"] == []


async def test_an_invalid_search_is_refused(desk: Served) -> None:
    for query in ("", "q=a&limit=0", "q=a&user=", "q=%00", f"q={'x' * 1001}"):
        problem(await desk("GET", f"/sessions/search?{query}"), 422)


async def test_old_sessions_are_pruned_by_given_rules(desk: Served) -> None:
    await some(desk, 4)
    would = await desk("POST", "/sessions/prune", {"keep": 1, "dry_run": True})
    assert would.json() == await desk.command("session", "prune", "--keep", "1", "--dry-run")
    assert would.json()["sessions"] == 3
    assert len((await desk.get("/sessions"))["items"]) == 4
    assert (await desk("POST", "/sessions/prune", {"older_than": "1d"})).json()["sessions"] == 0
    both = {"keep": 0, "user": "u0", "status": ["ready", "waiting"], "older_than": "4w"}
    assert (await desk("POST", "/sessions/prune", both)).json()["sessions"] == 2
    assert {each["user_id"] for each in (await desk.get("/sessions"))["items"]} == {"u1"}


async def test_invalid_pruning_rules_remove_nothing(desk: Served) -> None:
    await some(desk, 1)
    bodies: tuple[Any, ...] = (
        {},
        {"keep": -1},
        {"older_than": "soon"},
        {"older_than": "2999-01-01"},
        {"older_than": "2025-02-29"},
        {"keep": 1, "status": ["running"]},
        {"keep": 1, "user": ""},
        {"keep": 1, "all": True},
    )
    for body in bodies:
        problem(await desk("POST", "/sessions/prune", body), 422)
    assert len((await desk.get("/sessions"))["items"]) == 1


async def test_pruning_without_rules_follows_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ekiden").mkdir()
    settings = {"retention": {"count": 1, "days": 30}}
    (tmp_path / ".ekiden" / "settings.json").write_text(json.dumps(settings))
    async with serving(tmp_path, monkeypatch) as desk:
        await some(desk, 3)
        assert (await desk("POST", "/sessions/prune", {})).json()["sessions"] == 2


async def test_a_store_is_pruned_by_one_request_at_a_time(
    desk: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await desk.store()
    begun, go_on = asyncio.Event(), asyncio.Event()
    listed = store.list

    async def slow(*arguments: Any, **options: Any) -> Any:
        begun.set()
        await go_on.wait()
        return await listed(*arguments, **options)

    monkeypatch.setattr(store, "list", slow)
    first = asyncio.create_task(desk("POST", "/sessions/prune", {"keep": 1}))
    await begun.wait()
    second = await desk("POST", "/sessions/prune", {"keep": 1})
    go_on.set()
    problem(second, 429, "request.too_many")
    assert (await first).status_code == 200


async def test_session_routes_need_their_scopes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = As()
    async with serving(tmp_path, monkeypatch, gate=gate) as desk:
        for method, path, needed in (
            ("GET", "/sessions", "read"),
            ("GET", "/sessions/s", "read"),
            ("GET", "/sessions/s/events", "read"),
            ("GET", "/sessions/s/items", "read"),
            ("GET", "/sessions/s/chain", "read"),
            ("GET", "/sessions/s/export", "read"),
            ("GET", "/sessions/search?q=a", "read"),
            ("POST", "/sessions/s/fork", "run"),
            ("POST", "/sessions/s/rewind", "run"),
            ("DELETE", "/sessions/s", "admin"),
            ("POST", "/sessions/import", "admin"),
            ("POST", "/sessions/prune", "admin"),
        ):
            gate.who = As(*({"read", "run", "answer"} - {needed})).who
            body = {"to": 1} if path.endswith("rewind") else {} if method == "POST" else None
            problem(await desk(method, path, body), 403, "auth.scope")


async def test_sessions_of_another_tenant_are_not_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch, gate=As("admin", tenant="other")) as desk:
        await step_into_default(desk)
        assert (await desk.get("/sessions"))["items"] == []
        problem(await desk("GET", "/sessions/theirs"), 404)
        problem(await desk("DELETE", "/sessions/theirs"), 404)
        problem(await desk("GET", "/traces/theirs"), 404)
        assert (await desk.get("/sessions/search?q=hello"))["items"] == []
        assert (await desk.get("/audit/records?session=theirs"))["items"] == []


async def step_into_default(desk: Served) -> None:
    """Let something happen with another tenant."""
    store = (await desk.tenant_service("default")).store
    await store.create(NewSession(id="theirs", agent="triage"))
    claim = await claimed(store, "theirs")
    said = ({"role": "user", "content": "hello"},)
    event = Event(session_id="theirs", seq=1, type="message", at_us=1, items=said)
    await store.commit(claim, Commit(patch=SessionPatch(), events=[event], release=True))


async def test_a_run_may_set_the_priority_of_its_session(desk: Served) -> None:
    await desk.ask("hello", session_id="c-1", priority="urgent")
    await desk.ask("hello", session_id="c-2")
    listed = await desk.get("/sessions")
    assert [each["priority"] for each in listed["items"]] == [2, 4]
    assert (await desk.get("/sessions/c-1"))["priority"] == 4
    refused = await desk("POST", "/runs", {"input": "hello", "priority": "soon"})
    assert refused.status_code == 422
