"""The verification finds every change of the file."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from ekiden.audit import AuditQuery, Verification, export_audit, verify_audit
from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox
from ekiden.storage.sqlite import SqliteStore
from ekiden.storage.sqlite.rows import stored_type
from tests.support.examples import examples
from tests.support.sqlite import execute
from tests.unit.audit.written import event, story, write

AUDITED_SEQS = (2, 3, 5, 6)
JSON_TEXTS = st.sampled_from(
    ["null", "7", '"text"', "[]", "{}", '{"reason":"x"}', "[[1],2]", '[{"role":"user"}]', "1,2"]
)
BAD_JSON = st.sampled_from(["", "{", "nonsense", '{"a":', "[1]]", "\x00", '"' * 3])
NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.sampled_from(["", "x", "triage ", "Orders", "訳", "'", "\u202e"])
CHANGES = st.one_of(
    st.tuples(st.just("type"), st.integers(-3, 15) | st.sampled_from(["handoff", "new_type"])),
    st.tuples(st.just("at_us"), NUMBERS),
    st.tuples(st.just("seq"), NUMBERS.filter(lambda seq: seq not in range(1, 8))),
    st.tuples(st.just("session"), st.sampled_from([3, 99, -1])),
    st.tuples(st.just("agent"), st.none() | TEXTS),
    st.tuples(st.just("step"), st.none() | TEXTS),
    st.tuples(st.just("duration_us"), st.none() | NUMBERS),
    st.tuples(st.just("details"), st.none() | JSON_TEXTS | BAD_JSON),
    st.tuples(st.just("items"), st.none() | JSON_TEXTS | BAD_JSON),
    st.tuples(st.just("error"), st.none() | JSON_TEXTS | BAD_JSON),
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the session `s`, and others beside it."""
    path = tmp_path_factory.mktemp("written") / "ekiden.db"

    async def fill() -> None:
        async with SqliteStore(path) as store:
            await write(store, story("before"))
            await write(store, story("s"))
            await write(store, [event("empty", 1)])

    asyncio.run(fill())
    return path


def tampered(written: Path, copy: Path, sql: str, values: tuple[Any, ...] = ()) -> Verification:
    """What is found after `sql` was run on a copy of the file."""
    shutil.copyfile(written, copy)
    db = apsw.Connection(str(copy))
    db.execute(sql, values)
    assert db.changes() > 0
    db.close()

    async def verify() -> Verification:
        async with SqliteStore(copy) as store:
            return await verify_audit(store)

    return asyncio.run(verify())


def session_number(path: Path, name: str = "s") -> int:
    """The number under which the file has the session."""
    ((number,),) = execute(path, f"SELECT num FROM sessions WHERE id = '{name}'")
    return int(number)


def means_the_same(column: str, before: Any, after: Any) -> bool:
    """Whether two values of a column are read as one."""
    if column == "type" and before == stored_type(after):
        return True
    if column not in ("details", "items", "error"):
        return bool(before == after and type(before) is type(after))
    try:
        was, now = (None if text is None else json.loads(text) for text in (before, after))
    except ValueError:
        return False
    return (was or []) == (now or []) if column == "items" else was == now


@settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sampled_from(AUDITED_SEQS), CHANGES)
def test_any_change_of_an_audited_event_is_detected(
    written: Path, tmp_path: Path, seq: int, change: tuple[str, Any]
) -> None:
    column, value = change
    number = session_number(written)
    place = f"session = {number} AND seq = {seq}"
    ((before,),) = execute(written, f"SELECT {column} FROM events WHERE {place}")
    assume(not means_the_same(column, before, value))
    found = tampered(
        written, tmp_path / "copy.db", f"UPDATE events SET {column} = ? WHERE {place}", (value,)
    )
    assert not found.ok
    assert found.first is not None
    assert {link.session_id for link in found.links} <= {"s", "empty"}
    assert "s" in {link.session_id for link in found.links}


@pytest.mark.parametrize("seq", range(1, 8))
def test_any_removed_event_is_detected(written: Path, tmp_path: Path, seq: int) -> None:
    number = session_number(written)
    delete = f"DELETE FROM events WHERE session = {number} AND seq = {seq}"
    found = tampered(written, tmp_path / "copy.db", delete)
    assert [link.record_id for link in found.links] == [f"s/{seq}"]
    assert [link.fault for link in found.links] == ["cut_off" if seq == 7 else "missing"]


@pytest.mark.parametrize("last", range(6))
def test_a_truncated_chain_is_detected_although_the_row_agrees(
    written: Path, tmp_path: Path, last: int
) -> None:
    number = session_number(written)
    cut = (
        f"DELETE FROM events WHERE session = {number} AND seq > {last};"
        f"UPDATE sessions SET seq = {last} WHERE num = {number}"
    )
    found = tampered(written, tmp_path / "copy.db", cut)
    assert [(link.session_id, link.fault) for link in found.links] == [("s", "wrong_head")]


@pytest.mark.parametrize(("one", "other"), [(2, 3), (3, 5), (2, 6), (5, 6)])
def test_any_two_swapped_events_are_detected(
    written: Path, tmp_path: Path, one: int, other: int
) -> None:
    number = session_number(written)
    swap = (
        f"UPDATE events SET seq = -1 WHERE session = {number} AND seq = {one};"
        f"UPDATE events SET seq = {one} WHERE session = {number} AND seq = {other};"
        f"UPDATE events SET seq = {other} WHERE session = {number} AND seq = -1"
    )
    found = tampered(written, tmp_path / "copy.db", swap)
    assert [(link.record_id, link.fault) for link in found.links] == [(f"s/{one}", "changed")]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("cursor = json_set(cursor, '$.hd', 'x')", "wrong_head"),
        ("cursor = json_set(cursor, '$.hn', 5)", "wrong_head"),
        ("cursor = json_set(cursor, '$.hn', 3)", "wrong_head"),
        ("cursor = json_remove(cursor, '$.hd')", "no_head"),
        ("cursor = json_remove(cursor, '$.hn')", "no_head"),
        ("cursor = NULL", "no_head"),
        ("cursor = '[]'", "no_head"),
        ("seq = 6", "added"),
        ("seq = 8", "cut_off"),
        ("seq = 0", "added"),
        ("id = 'other'", "changed"),
    ],
)
def test_any_change_of_the_stored_head_is_detected(
    written: Path, tmp_path: Path, change: str, fault: str
) -> None:
    update = f"UPDATE sessions SET {change} WHERE id = 's'"
    found = tampered(written, tmp_path / "copy.db", update)
    assert [link.fault for link in found.links] == [fault]


def test_an_unreadable_row_is_reported(written: Path, tmp_path: Path) -> None:
    update = "UPDATE sessions SET cursor = '{' WHERE id = 's'"
    found = tampered(written, tmp_path / "copy.db", update)
    assert [link.fault for link in found.links] == ["unreadable"]
    assert found.first is not None
    assert "the session created before empty" in found.first.message
    assert found.sessions == 1
    update = "UPDATE sessions SET cursor = '{'"
    found = tampered(written, tmp_path / "copy.db", update)
    assert found.first is not None
    assert "the newest session" in found.first.message


def test_an_event_moved_to_another_session_is_missing_here_and_added_there(
    written: Path, tmp_path: Path
) -> None:
    number, empty = session_number(written), session_number(written, "empty")
    move = f"UPDATE events SET session = {empty} WHERE session = {number} AND seq = 3"
    found = tampered(written, tmp_path / "copy.db", move)
    assert {(link.record_id, link.fault) for link in found.links} == {
        ("s/3", "missing"),
        ("empty/3", "added"),
    }


def test_a_change_of_an_event_that_is_no_decision_is_detected(
    written: Path, tmp_path: Path
) -> None:
    number = session_number(written)
    update = f"UPDATE events SET agent = 'other' WHERE session = {number} AND seq = 4"
    found = tampered(written, tmp_path / "copy.db", update)
    assert [link.fault for link in found.links] == ["changed"]


@pytest.mark.parametrize("column", ["agent", "step", "details", "items", "error", "digest"])
def test_an_undecodable_byte_is_reported_as_unreadable(
    written: Path, tmp_path: Path, column: str
) -> None:
    number = session_number(written)
    place = f"session = {number} AND seq = 4"
    update = f"UPDATE events SET {column} = CAST(x'22e97f22' AS TEXT) WHERE {place}"
    found = tampered(written, tmp_path / "copy.db", update)
    assert [(link.record_id, link.fault) for link in found.links] == [("s/4", "unreadable")]


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("UPDATE events SET details = replace(details, 'mira', 'eve') WHERE seq = 2", "changed"),
        ("DELETE FROM events WHERE seq = 3", "changed"),
        ("DELETE FROM events WHERE seq = 4", "wrong_head"),
        ("DELETE FROM events", "wrong_head"),
        ("UPDATE events SET digest = NULL WHERE seq = 4", "no_digest"),
        ("DELETE FROM documents WHERE collection = 'ekiden.store'", "no_head"),
        ("UPDATE documents SET body = replace(body, 'text\":\"no', 'text\":\"yes')", "changed"),
        ("UPDATE documents SET body = replace(body, 'one', 'uno')", "changed"),
        ("UPDATE documents SET key = 'x' || key WHERE collection = 'inbox.done'", "added"),
        ("UPDATE documents SET key = key || 'x' WHERE key LIKE '2/%'", "added"),
        ("UPDATE events SET type = -1 WHERE seq = 2", "changed"),
        ("UPDATE events SET details = CAST(x'7be97d' AS TEXT) WHERE seq = 2", "unreadable"),
        ("UPDATE documents SET body = CAST(x'e9' AS TEXT) WHERE key = 'chain'", "unreadable"),
    ],
)
def test_a_decision_without_a_session_is_in_the_store_chain(
    tmp_path: Path, sql: str, fault: str
) -> None:
    path = tmp_path / "ekiden.db"

    async def decide() -> Verification:
        async with SqliteStore(path) as store:
            inbox = Inbox(store)
            for name in ("one", "two"):
                asked = InboxItem(id=name, kind="approval", from_agent="a", subject="?")
                await inbox.post(asked)
                await inbox.answer(name, text="no", by="mira")
            return await verify_audit(store)

    before = asyncio.run(decide())
    assert (before.ok, before.covered, before.uncovered, before.decisions) == (True, 4, 0, 2)
    found = tampered(path, tmp_path / "copy.db", sql)
    assert [link.fault for link in found.links][:1] == [fault]


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("UPDATE events SET details = '{' WHERE seq = 3", "missing"),
        ("UPDATE events SET type = 9 WHERE seq = 3", "missing"),
        ("UPDATE events SET details = json_set(details, '$.to', 'x') WHERE seq = 3", "differs"),
        ("UPDATE sessions SET variables = '{'; DELETE FROM events WHERE seq = 3", "unreadable"),
    ],
)
def test_comparing_an_export_reports_unreadable_events(
    tmp_path: Path, sql: str, fault: str
) -> None:
    path = tmp_path / "ekiden.db"

    async def verify() -> Verification:
        lines: list[str] = []
        async with SqliteStore(path) as store:
            await write(store, story("s"))
            await export_audit(store, AuditQuery(status="transferring"), lines.append)
        execute(path, sql)
        async with SqliteStore(path) as store:
            return await verify_audit(store, against=lines)

    found = asyncio.run(verify())
    assert found.first is not None
    assert "s/3.3" in [link.record_id for link in found.links]
    assert fault in [link.fault for link in found.links]
