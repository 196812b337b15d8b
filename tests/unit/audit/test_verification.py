"""Verifying chains, without anybody having meddled with them."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ekiden.audit import (
    AuditChain,
    AuditQuery,
    BrokenLink,
    Verification,
    audit_records,
    chained,
    export_audit,
    find_records,
    verify_audit,
)
from ekiden.audit.record import MOST_KEPT
from ekiden.core.errors import SessionNotFound
from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox
from ekiden.runtime.history.deletion import prune_sessions
from ekiden.storage.base import Batch, SessionPatch, Store
from ekiden.storage.memory import MemoryStore
from ekiden.testing.contracts.base import claimed, step
from tests.unit.audit.written import BEGINNING, START_US, event, handoff, story, write


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as store:
        yield store


async def exported(store: Store, **query: Any) -> list[str]:
    """The lines of an export."""
    lines: list[str] = []
    await export_audit(store, AuditQuery(**query), lines.append)
    return lines


def meddle(store: MemoryStore, session_id: str, change: Callable[[Any], None]) -> None:
    """Change a session behind the store's back."""
    change(store._sessions[session_id])


async def test_an_unchanged_store_is_verified(store: MemoryStore) -> None:
    await write(store, story("s"))
    await write(store, story("t"))
    await write(store, [event("u", 1)])
    found = await verify_audit(store)
    assert found.ok
    assert (found.sessions, found.chained, found.not_chained) == (3, 2, 0)
    assert (found.events, found.unhashed, found.broken, found.first) == (8, 0, 0, None)


async def test_an_empty_store_is_verified(store: MemoryStore) -> None:
    found = await verify_audit(store)
    assert (found.ok, found.sessions) == (True, 0)


async def test_one_session_can_be_verified(store: MemoryStore) -> None:
    await write(store, story("s"))
    await write(store, story("t"))
    found = await verify_audit(store, session_id="s")
    assert (found.ok, found.sessions, found.events) == (True, 1, 4)
    with pytest.raises(SessionNotFound):
        await verify_audit(store, session_id="x")


async def test_more_sessions_and_events_than_one_page_are_verified(store: MemoryStore) -> None:
    await write(
        store, [event("long", n) for n in range(1, 2500)] + [handoff("long", 2500, "failed")]
    )
    await write(store, [event("even", n, "inbox") for n in range(1, 2001)])
    for number in range(120):
        await write(store, story(f"s{number}"))
    told: list[int] = []
    found = await verify_audit(store, progress=lambda so_far: told.append(so_far.sessions))
    assert found.ok
    assert (found.sessions, found.events) == (122, 1 + 2000 + 120 * 4)
    assert told == list(range(1, 123))


async def test_a_session_of_an_earlier_version_is_counted_separately(store: MemoryStore) -> None:
    await write(store, [], unhashed=story("old"))
    await write(store, story("new"))
    found = await verify_audit(store)
    assert found.ok
    assert (found.chained, found.not_chained) == (1, 1)
    assert (found.events, found.unhashed) == (4, 4)


async def test_a_session_continued_in_this_version_is_verified_from_there(
    store: MemoryStore,
) -> None:
    old = [handoff("s", 1, "completed"), handoff("s", 2, "failed")]
    new = [handoff("s", 3, "completed"), event("s", 4), handoff("s", 5, "failed")]
    await write(store, new, unhashed=old)
    found = await verify_audit(store)
    assert found.ok
    assert (found.chained, found.events, found.unhashed) == (1, 2, 2)

    def cut(session: Any) -> None:
        session.events[2].details.pop("hash")

    meddle(store, "s", cut)
    assert [link.record_id for link in (await verify_audit(store)).links] == ["s/5"]


async def test_a_missing_hash_after_a_hashed_record_is_reported(store: MemoryStore) -> None:
    await write(store, story())
    meddle(store, "s", lambda session: session.events[4].details.pop("hash"))
    (link,) = (await verify_audit(store)).links
    assert (link.record_id, link.fault) == ("s/5", "no_hash")


async def test_removing_all_hashes_but_not_the_head_is_reported(store: MemoryStore) -> None:
    await write(store, story())

    def strip(session: Any) -> None:
        for each in session.events:
            (each.details or {}).pop("hash", None)

    meddle(store, "s", strip)
    (link,) = (await verify_audit(store)).links
    assert (link.record_id, link.fault) == ("s/2", "no_hash")


@pytest.mark.parametrize(
    "cursor", [{}, {"hd": ""}, {"hd": 5, "hn": 4}, {"hd": "x", "hn": "4"}, ["not", "a", "dict"]]
)
async def test_removing_the_head_but_not_the_hashes_is_reported(
    store: MemoryStore, cursor: Any
) -> None:
    await write(store, story())

    def forget(session: Any) -> None:
        session.cursor = cursor

    meddle(store, "s", forget)
    (link,) = (await verify_audit(store)).links
    assert (link.record_id, link.fault) == ("s/7", "no_head")


async def test_events_written_during_verification_are_skipped(store: MemoryStore) -> None:
    class Busy(MemoryStore):
        """A store whose session goes on between reading its row and its events."""

        async def events(self, session_id: str, **page: Any) -> Any:
            if session_id and (await self.get("s")).seq == 7:
                linked, chain = chained([handoff("s", 8, "completed")], AuditChain(head_before))
                patch = SessionPatch(cursor={"hd": chain.head, "hn": 5})
                await self.commit(await claimed(self), step(*linked, patch=patch))
            return await super().events(session_id, **page)

    async with Busy() as busy:
        await write(busy, story())
        head_before = (await busy.get("s")).cursor["hd"]
        found = await verify_audit(busy)
        assert (found.ok, found.events) == (True, 4)
        found = await verify_audit(busy)
        assert (found.ok, found.events) == (True, 5)


async def test_a_session_deleted_during_verification_is_not_broken(store: MemoryStore) -> None:
    class Deleting(MemoryStore):
        async def events(self, session_id: str, **page: Any) -> Any:
            if session_id:
                await self.delete(session_id)
            return await super().events(session_id, **page)

    async with Deleting() as deleting:
        await write(deleting, story())
        assert (await verify_audit(deleting)).ok


async def test_an_event_after_the_head_is_reported_as_added(store: MemoryStore) -> None:
    await write(store, story())
    meddle(store, "s", lambda session: session.events.append(handoff("s", 8, "completed")))
    (link,) = (await verify_audit(store)).links
    assert (link.record_id, link.fault) == ("s/8", "added")


async def test_an_event_that_cannot_be_hashed_is_reported_as_changed(store: MemoryStore) -> None:
    await write(store, story())
    meddle(store, "s", lambda session: session.events[2].details.update(reason=float("nan")))
    (link,) = (await verify_audit(store)).links
    assert (link.record_id, link.fault) == ("s/3", "changed")


async def test_the_earliest_broken_link_is_the_first(store: MemoryStore) -> None:
    for number, name in enumerate(("b", "c", "a")):
        at_us = 1_000_000 * (3 - number)
        await write(store, [handoff(name, 1, "failed", at_us=at_us), event(name, 2)])
        meddle(store, name, lambda session: session.events[0].details.update(reason="other"))
    found = await verify_audit(store)
    assert [link.record_id for link in found.links] == ["a/1", "c/1", "b/1"]
    assert found.first is not None
    assert found.first.record_id == "a/1"
    assert not found.ok


def test_only_the_earliest_of_many_broken_links_are_kept() -> None:
    found = Verification()
    for number in range(MOST_KEPT + 500, 0, -1):
        name = f"s{number}"
        link = BrokenLink(
            record_id=f"{name}/1", session_id=name, fault="changed", message="", at_us=number
        )
        found.report(link)
        found.report(link)
    assert found.broken == MOST_KEPT + 500
    assert [link.at_us for link in found.links] == list(range(1, MOST_KEPT + 1))


async def test_a_verification_is_converted_to_json(store: MemoryStore) -> None:
    await write(store, story())
    meddle(store, "s", lambda session: session.events[2].details.update(reason="other"))
    result = (await verify_audit(store)).to_json()
    assert result["ok"] is False
    assert (result["sessions"], result["broken"]) == (1, 1)
    assert result["first"] == result["links"][0]
    assert (result["first"]["record_id"], result["first"]["fault"]) == ("s/3", "changed")
    assert "was changed" in result["first"]["message"]
    json.dumps(result)


class TestAgainstAnExport:
    """What is stored, held against what was exported."""

    async def test_an_export_has_the_records_and_a_manifest(self, store: MemoryStore) -> None:
        await write(store, story("s"))
        await write(store, story("t"))
        lines = await exported(store, session_id="s")
        records = (await audit_records(store, AuditQuery(session_id="s"))).records
        assert [json.loads(line) for line in lines[:-1]] == [
            each.to_json() for each in reversed(records)
        ]
        manifest = json.loads(lines[-1])
        assert (manifest["format"], manifest["version"]) == ("ekiden.audit", 1)
        row = await store.get("s")
        assert manifest["records"] == 6
        assert manifest["heads"] == {"s": [row.cursor["hd"], row.cursor["hn"]]}
        assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)

    async def test_more_than_one_page_is_exported_in_order(self, store: MemoryStore) -> None:
        await write(store, [handoff("s", seq, *BEGINNING) for seq in range(1, 401)])
        lines = await exported(store)
        assert len(lines) == 1201
        times = [json.loads(line)["timestamp"] for line in lines[:-1]]
        assert times == sorted(times)
        assert (await verify_audit(store, against=lines)).compared == 1200

    async def test_an_unchanged_store_agrees_with_its_export(self, store: MemoryStore) -> None:
        await write(store, story("s"))
        await write(store, [], unhashed=story("old"))
        lines = await exported(store)
        await write(store, story("later"))
        told: list[int] = []
        found = await verify_audit(
            store, against=lines, progress=lambda now: told.append(now.compared)
        )
        assert found.ok
        assert (found.compared, found.sessions) == (12, 3)
        assert told[-1] == 12

    async def test_a_continued_session_agrees_with_its_export(self, store: MemoryStore) -> None:
        await write(store, story())
        lines = await exported(store)
        row = await store.get("s")
        linked, chain = chained([handoff("s", 8, "completed")], AuditChain(row.cursor["hd"]))
        patch = SessionPatch(cursor={"hd": chain.head, "hn": 5})
        await store.commit(await claimed(store), step(*linked, patch=patch))
        assert (await verify_audit(store, against=lines)).ok

    async def test_a_deleted_session_is_detected(self, store: MemoryStore) -> None:
        await write(store, story("s"))
        await write(store, story("t"))
        lines = await exported(store)
        await store.delete("s")
        assert (await verify_audit(store)).ok
        (link,) = (await verify_audit(store, against=lines)).links
        assert (link.record_id, link.fault) == ("s/2", "deleted")

    async def test_a_session_rewritten_with_valid_hashes_is_detected(
        self, store: MemoryStore
    ) -> None:
        await write(store, story())
        lines = await exported(store)
        routes = await exported(store, type="route")
        await store.delete("s")
        await write(store, [*story()[:2], handoff("s", 3, "failed", reason="forged"), *story()[3:]])
        assert (await verify_audit(store)).ok
        (link,) = (await verify_audit(store, against=lines)).links
        assert (link.record_id, link.fault) == ("s/3.1", "missing")
        # Although the one record that was exported is as it was, the chain's head tells.
        (link,) = (await verify_audit(store, against=routes)).links
        assert (link.record_id, link.fault) == ("s/6", "differs")

    async def test_a_session_rewritten_shorter_is_detected(self, store: MemoryStore) -> None:
        await write(store, story())
        routes = await exported(store, type="route")
        await store.delete("s")
        await write(store, story()[:3])
        (link,) = (await verify_audit(store, against=routes)).links
        assert (link.record_id, link.fault) == ("s/3", "cut_off")

    async def test_records_of_an_earlier_version_are_compared(self, store: MemoryStore) -> None:
        await write(store, [], unhashed=story())
        lines = await exported(store)
        meddle(store, "s", lambda session: session.events[2].details.update(reason="other"))
        assert (await verify_audit(store)).ok
        (link,) = (await verify_audit(store, against=lines)).links
        assert (link.record_id, link.fault) == ("s/3.1", "differs")
        assert link.message.endswith("differs from the export in: reason")

    async def test_each_broken_session_is_reported_once(self, store: MemoryStore) -> None:
        await write(store, story("s"))
        await write(store, story("t"))
        lines = await exported(store)
        for name in "st":
            meddle(store, name, lambda session: session.events.pop(2))
        found = await verify_audit(store, against=lines)
        assert found.broken == 2
        assert [link.fault for link in found.links] == ["missing", "missing"]

    async def test_one_session_can_be_compared(self, store: MemoryStore) -> None:
        await write(store, story("s"))
        await write(store, story("t"))
        lines = await exported(store)
        await store.delete("t")
        found = await verify_audit(store, session_id="s", against=lines)
        assert (found.ok, found.compared) == (True, 6)

    async def test_a_truncated_export_is_damaged(self, store: MemoryStore) -> None:
        await write(store, story())
        lines = await exported(store)
        for part in ([], lines[:-1]):
            (link,) = (await verify_audit(store, against=part)).links
            assert (link.fault, link.record_id) == ("damaged_export", "")
            assert "cut off" in link.message

    @pytest.mark.parametrize("number", range(7))
    async def test_an_altered_export_is_damaged(self, store: MemoryStore, number: int) -> None:
        await write(store, story())
        lines = await exported(store)
        without = [*lines[:number], *lines[number + 1 :]]
        assert (await verify_audit(store, against=without)).first is not None
        assert [link.fault for link in (await verify_audit(store, against=without)).links] == [
            "damaged_export"
        ]

    @pytest.mark.parametrize(
        "line",
        [
            "",
            "nonsense",
            "[]",
            "7",
            "{}",
            '{"id":"s/2"}',
            '{"id":5,"session_id":"s"}',
            '{"id":"s/x","session_id":"s"}',
            '{"id":"s","session_id":"s"}',
            '{"id":"s/²","session_id":"s"}',
            '{"id":"s/99999999999999999999","session_id":"s"}',
            "[" * 100_000,
            '{"format":"ekiden.audit","version":2}',
            '{"format":"ekiden.audit","version":1}',
            '{"format":"ekiden.audit","version":1,"records":"x","heads":{},"sha256":""}',
            '{"format":"ekiden.audit","version":1,"records":0,"heads":{"s":[1]},"sha256":""}',
            '{"format":"ekiden.audit","version":1,"records":0,"heads":[],"sha256":""}',
            '{"format":"ekiden.audit","version":1,"records":0,"heads":{},"sha256":""}',
        ],
    )
    async def test_a_malformed_line_is_named(self, store: MemoryStore, line: str) -> None:
        await write(store, story())
        (link,) = (await verify_audit(store, against=[line])).links
        assert link.fault == "damaged_export"
        assert "line 1" in link.message

    async def test_undecodable_bytes_in_an_export_are_reported_not_raised(
        self, store: MemoryStore
    ) -> None:
        await write(store, story())
        lines = await exported(store)
        broken = lines[0].replace("fits", "f\udcffts")
        found = await verify_audit(store, against=[broken, *lines[1:]])
        assert {link.fault for link in found.links} == {"damaged_export", "differs"}

    async def test_line_endings_do_not_matter(self, store: MemoryStore) -> None:
        await write(store, story())
        lines = await exported(store)
        windows = [line.replace("\n", "\r\n") for line in lines]
        assert (await verify_audit(store, against=windows)).ok

    async def test_a_session_deleted_during_the_export_has_no_head(self) -> None:
        class Deleting(MemoryStore):
            async def get(self, session_id: str) -> Any:
                await self.delete(session_id)
                return await super().get(session_id)

        async with Deleting() as store:
            await write(store, story())
            lines = await exported(store)
        assert json.loads(lines[-1])["heads"] == {}
        assert len(lines) == 7

    async def test_a_long_comparison_reports_its_progress(self, store: MemoryStore) -> None:
        await write(store, [handoff("s", seq, *BEGINNING) for seq in range(1, 101)])
        told: list[int] = []
        lines = await exported(store)
        await verify_audit(store, against=lines, progress=lambda now: told.append(now.compared))
        assert told == [100, 200, 300, 300]


async def test_events_without_a_session_are_listed_but_not_chained(store: MemoryStore) -> None:
    await write(store, story("s"))
    late = event("", 0, "inbox", at_us=START_US + 10**9, details={"id": "i1", "by": "ms.sato"})
    hashed = event("", 0, "inbox", at_us=START_US + 10**9, details={"hash": "foreign"})
    await store.write(Batch(events=[late, hashed]))
    page = await audit_records(store, AuditQuery(type="inbox"))
    assert [each.id for each in page.records] == ["no-session/2", "no-session/1"]
    assert [each.previous for each in page.records] == [None, None]
    assert page.records[1].actor.name == "ms.sato"
    for name in ("no-session/1", "/1"):
        assert [each.id for each in await find_records(store, name)] == ["no-session/1"]
    assert len((await audit_records(store, AuditQuery(session_id=""))).records) == 2
    found = await verify_audit(store)
    assert (found.ok, found.sessions, found.not_chained) == (True, 1, 0)


async def test_a_deleted_event_without_a_session_breaks_its_export(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(store, story("s"))
    await store.write(Batch(events=[event("", 0, "inbox", details={"n": n}) for n in range(3)]))
    with monkeypatch.context() as earlier:
        earlier.setattr("ekiden.audit.record.NO_SESSION", "")
        lines = await exported(store)
    assert any('"id":"/1"' in line for line in lines)
    assert (await verify_audit(store, against=lines)).ok
    lines = await exported(store)
    assert json.loads(lines[-1])["heads"].keys() == {"s"}
    assert (await verify_audit(store, against=lines)).ok
    feed = store._feed
    assert feed is not None
    del feed.free[2]
    found = await verify_audit(store, against=lines)
    assert (found.ok, found.broken) == (False, 1)
    assert found.first is not None
    assert (found.first.record_id, found.first.fault) == ("no-session/3", "missing")


async def test_the_id_of_a_deleted_item_may_be_reused(store: MemoryStore) -> None:
    inbox = Inbox(store)
    asked = InboxItem(id="daily", kind="approval", from_agent="a", subject="?")
    await inbox.post(asked)
    await inbox.answer("daily", text="yes", by="mira")
    store.advance(10)
    await prune_sessions(store, older_than_s=1)
    await inbox.post(asked)
    assert (await verify_audit(store)).ok
    await inbox.answer("daily", text="no", by="mira")
    found = await verify_audit(store)
    assert (found.ok, found.decisions) == (True, 1)
