"""The audit."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ekiden.client.ekiden import Ekiden
from ekiden.core.documents import to_json
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.core.errors.server import AuditRecordNotFound, RequestInvalid
from ekiden.project import open_store
from tests.support.sqlite import execute
from tests.unit.audit.written import story, write


@pytest.fixture(autouse=True)
async def written(tmp_path: Path) -> Path:
    """A store with two sessions that have a story."""
    path = tmp_path / "s.db"
    async with open_store(str(path), create=True) as store:
        await write(store, story("s"))
        await write(store, story("t"))
    return path


async def test_records_are_listed(ekiden: Ekiden) -> None:
    whole = [each async for each in ekiden.audit.list()]
    assert len(whole) == 12
    first = await ekiden.audit.list().page(limit=5)
    rest = await ekiden.audit.list().page(cursor=first.next_cursor)
    assert [*first.items, *rest.items] == whole
    assert rest.next_cursor is None
    oldest = [each async for each in ekiden.audit.list(session="s", oldest_first=True)]
    assert {each.session_id for each in oldest} == {"s"}
    assert [each.timestamp for each in oldest] == sorted(each.timestamp for each in oldest)
    handed = next(each for each in oldest if each.type == "handoff")
    assert (handed.handoff_id, handed.actor.kind) == ("s.h1", "agent")
    told = to_json(handed)
    assert (told["from"], told["to"]) == (handed.source, handed.target)


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"agent": "router"}, 2),
        ({"status": "validating"}, 2),
        ({"type": "tool_confirmation"}, 2),
        ({"handoff": "s.h1"}, 4),
        ({"task": "s"}, 6),
        ({"correlation": "t"}, 6),
        ({"since": "2023-11-14", "until": "2023-11-15"}, 12),
        ({"until": datetime(2023, 11, 14, tzinfo=UTC)}, 0),
        ({"since": "7d"}, 0),
        ({"text": "MS.SATO"}, 2),
    ],
    ids=str,
)
async def test_records_and_exports_are_filtered(
    ekiden: Ekiden, filters: dict[str, Any], count: int
) -> None:
    listed = [each async for each in ekiden.audit.list(**filters, oldest_first=True)]
    *lines, manifest = [json.loads(line) async for line in ekiden.audit.export(**filters)]
    assert len(listed) == count
    assert [each.id for each in listed] == [line["id"] for line in lines]
    assert [to_json(each) for each in listed] == lines
    assert (manifest["format"], manifest["records"]) == ("ekiden.audit", count)


async def test_an_invalid_filter_is_refused(ekiden: Ekiden) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"status": "done"},
        {"type": "llm_call"},
        {"since": "soon"},
        {"agent": "\0"},
        {"text": "x" * 201},
    )
    for filters in wrong:
        with pytest.raises(RequestInvalid):
            await ekiden.audit.list(**filters).page()
        with pytest.raises(RequestInvalid):
            [line async for line in ekiden.audit.export(**filters)]
    for cursor in ("x", ""):
        with pytest.raises(UserError):
            await ekiden.audit.list().page(cursor=cursor)


async def test_a_record_and_the_records_of_a_handoff_are_found(ekiden: Ekiden) -> None:
    [one] = [each async for each in ekiden.audit.get("s/3.2")]
    assert one.id == "s/3.2"
    several = [each.id async for each in ekiden.audit.get("s.h1")]
    assert len(several) == 4
    assert "s/3.2" in several
    for name in ("s/1", "s/99", "nobody/1", "客.h1"):
        with pytest.raises(AuditRecordNotFound, match="has no record"):
            await ekiden.audit.get(name).page()
    with pytest.raises(RequestInvalid):
        await ekiden.audit.get("x" * 301).page()


async def test_an_unchanged_audit_is_verified(ekiden: Ekiden, tmp_path: Path) -> None:
    found = await ekiden.audit.verify()
    assert (found.ok, found.broken, found.first, tuple(found.links)) == (True, 0, None, ())
    assert found.sessions == 2
    assert found.checked
    assert (await ekiden.audit.verify(session_id="s", timeout_s=60)).sessions == 1
    lines = [line async for line in ekiden.audit.export()]
    file = tmp_path / "audit.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with file.open(encoding="utf-8") as opened:
        for against in ("\n".join(lines), file.read_text(encoding="utf-8"), opened):
            compared = await ekiden.audit.verify(against=against)
            assert (compared.ok, compared.compared) == (True, 12)
    with pytest.raises(SessionNotFound):
        await ekiden.audit.verify(session_id="nobody")
    with pytest.raises(RequestInvalid):
        await ekiden.audit.verify(session_id="a/b")
    with pytest.raises(RequestInvalid):
        await ekiden.audit.verify(timeout_s=601)


async def test_a_changed_audit_fails_verification(ekiden: Ekiden, written: Path) -> None:
    export = "\n".join([line async for line in ekiden.audit.export()])
    execute(written, "UPDATE events SET at_us = at_us + 1 WHERE seq = 3 AND session = 1")
    found = await ekiden.audit.verify()
    assert (found.ok, found.broken) == (False, 1)
    assert found.first is not None
    assert (found.first.fault, found.first.session_id) == ("changed", "s")
    assert tuple(found.links) == (found.first,)
    against = await ekiden.audit.verify(against=export)
    assert against.first is not None
    assert against.first.fault == "differs"
    assert not (await ekiden.audit.verify(against="")).ok
