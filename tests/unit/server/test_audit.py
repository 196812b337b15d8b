"""The audit over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.api.local import administration as local
from ekiden.audit.query import Manifest
from tests.support.sqlite import execute
from tests.unit.audit.written import story, write
from tests.unit.server.desks import As, Served, problem, serving


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server with two sessions that have a story."""
    async with serving(tmp_path, monkeypatch) as found:
        store = await found.store()
        await write(store, story("s"))
        await write(store, story("t"))
        yield found


async def test_an_audit_list_equals_the_output_of_the_command(desk: Served) -> None:
    for query, options in (
        ("", ()),
        ("agent=router", ("--agent", "router")),
        ("status=validating", ("--status", "validating")),
        ("type=tool_confirmation", ("--type", "tool_confirmation")),
        ("session=s&oldest_first=true", ("--session", "s", "--oldest-first")),
        ("handoff=s.h1", ("--handoff", "s.h1")),
        ("task=s", ("--task", "s")),
        ("correlation=t", ("--correlation", "t")),
        ("since=2023-11-14T22:13:24Z", ("--since", "2023-11-14T22:13:24+00:00")),
        ("until=2023-11-14T22:13:24%2B00:00", ("--until", "2023-11-14T22:13:24+00:00")),
        ("since=2d", ("--since", "2d")),
    ):
        found = await desk.get(f"/audit/records?{query}")
        assert found["items"] == await desk.command("audit", "list", *options), query


async def test_audit_pages_have_no_gaps_even_within_one_event(desk: Served) -> None:
    whole = (await desk.get("/audit/records"))["items"]
    assert len(whole) == 12
    for limit in (1, 2, 5):
        assert await desk.pages("/audit/records", limit=limit) == whole
    oldest = await desk.pages("/audit/records?oldest_first=true", limit=3)
    assert {each["id"] for each in oldest} == {each["id"] for each in whole}


async def test_text_filters_work_for_lists_and_exports(
    desk: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await desk.pages("/audit/records?text=MS.SATO", limit=1)
    assert [each["id"] for each in found] == ["t/6", "s/6"]
    query = {"text": "包裹 📦", "session": "s", "oldest_first": "true"}
    listed = (await desk.get("/audit/records", params=query))["items"]
    assert [each["id"] for each in listed] == ["s/3.1", "s/3.2", "s/3.3"]
    export = await desk("GET", "/audit/export", params={"text": "refund"})
    lines = [json.loads(line) for line in export.text.splitlines()]
    assert [each["id"] for each in lines[:-1]] == ["s/6", "t/6"]
    assert lines[-1]["records"] == 2
    monkeypatch.setattr(local, "_MAX_SCANNED", 1)
    first = await desk.get("/audit/records?text=包裹&limit=1")
    assert first["items"] == []
    assert first["next_cursor"]
    assert len(await desk.pages("/audit/records?text=包裹")) == 6
    for query_ in ("text=%00", f"text={'x' * 201}"):
        problem(await desk("GET", f"/audit/records?{query_}"), 422)
        problem(await desk("GET", f"/audit/export?{query_}"), 422)


async def test_a_record_and_the_records_of_a_handoff_are_found(desk: Served) -> None:
    for name in ("s/3.2", "s/3", "s/6", "s.h1"):
        found = await desk.get(f"/audit/records/{name}")
        assert found["items"] == await desk.command("audit", "show", name)
    for name in ("s/1", "s/3.9", "s/99", "nobody/1", "客.h1", "s%2F77", "x" * 300):
        problem(await desk("GET", f"/audit/records/{name}"), 404, "audit.not_found")
    problem(await desk("GET", f"/audit/records/{'x' * 301}"), 422)


async def test_an_invalid_list_query_is_refused(desk: Served) -> None:
    for query in (
        "limit=0",
        "status=done",
        "type=llm_call",
        "cursor=x",
        "cursor=",
        "cursor=%2B1",
        "since=soon",
        "since=2025-02-29",
        "since=2025-13-01",
        "until=9999-99-99",
        "since=99999w",
        "agent=%00",
        "oldest_first=perhaps",
    ):
        problem(await desk("GET", f"/audit/records?{query}"), 422)


async def test_an_export_equals_the_output_of_the_command(desk: Served, tmp_path: Path) -> None:
    exported = await desk("GET", "/audit/export")
    assert exported.headers["content-type"] == "application/x-ndjson"
    file = tmp_path / "audit.jsonl"
    await asyncio.to_thread(_export, file)
    assert exported.content == file.read_bytes()
    *_, last = exported.text.splitlines()
    assert Manifest.from_json(json.loads(last)).records == 12
    some = await desk("GET", "/audit/export?session=t&type=handoff")
    assert len(some.text.splitlines()) == 5
    problem(await desk("GET", "/audit/export?since=x"), 422)


def _export(file: Path) -> None:
    from ekiden.cli.main import main

    assert main(["audit", "export", "--output", str(file)]) == 0


async def test_an_unchanged_audit_is_verified(desk: Served) -> None:
    found = await desk("POST", "/audit/verify", {})
    assert found.json() == await desk.command("audit", "verify")
    assert found.json()["ok"] is True
    without_body = await desk("POST", "/audit/verify", headers={"Content-Type": "application/json"})
    assert without_body.json()["ok"] is True
    one = await desk("POST", "/audit/verify", {"session_id": "s"})
    assert one.json()["sessions"] == 1
    problem(await desk("POST", "/audit/verify", {"session_id": "nobody"}), 404)


async def test_a_changed_audit_fails_verification(desk: Served) -> None:
    export = (await desk("GET", "/audit/export")).text
    whole = await desk("POST", "/audit/verify", {"against": export})
    assert (whole.json()["ok"], whole.json()["compared"]) == (True, 12)
    path = desk.root / ".ekiden" / "ekiden.db"
    execute(path, "UPDATE events SET at_us = at_us + 1 WHERE seq = 3 AND session = 1")
    found = (await desk("POST", "/audit/verify", {})).json()
    assert (found["ok"], found["broken"], found["first"]["fault"]) == (False, 1, "changed")
    against = (await desk("POST", "/audit/verify", {"against": export})).json()
    assert against["first"]["fault"] == "differs"
    cut = (await desk("POST", "/audit/verify", {"against": export[:-5]})).json()
    assert "damaged_export" in {each["fault"] for each in cut["links"]}
    nothing = (await desk("POST", "/audit/verify", {"against": ""})).json()
    assert nothing["ok"] is False


async def test_an_invalid_verification_request_is_refused(desk: Served) -> None:
    bodies: tuple[Any, ...] = (
        {"session_id": "a/b"},
        {"timeout_s": 0},
        {"timeout_s": 601},
        {"timeout_s": "x"},
        {"against": 3},
        {"all": True},
    )
    for body in bodies:
        problem(await desk("POST", "/audit/verify", body), 422)


async def test_a_verification_has_a_deadline_and_runs_alone(
    desk: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def endless(*arguments: Any, **options: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(local, "verify_audit", endless)
    first = asyncio.create_task(desk("POST", "/audit/verify", {"timeout_s": 1}))
    await begun.wait()
    problem(await desk("POST", "/audit/verify", {}), 429, "request.too_many")
    problem(await first, 504, "request.took_too_long")
    monkeypatch.undo()


async def test_reading_the_audit_needs_the_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch, gate=As("run", "answer")) as desk:
        for path in ("/audit/records", "/audit/records/s/1", "/audit/export"):
            problem(await desk("GET", path), 403, "auth.scope")
        problem(await desk("POST", "/audit/verify", {}), 403, "auth.scope")
