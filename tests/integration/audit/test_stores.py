"""What a store gives back has the hashes that were computed before it was stored."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, CodeContext, Inbox, InboxItem, Runner, Session
from ekiden.audit import AuditQuery, audit_records, export_audit, verify_audit
from ekiden.core.agent import Team
from ekiden.runtime.history.fork import fork_session
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, say, transfer
from ekiden.testing.contracts.base import AWKWARD_TEXTS
from tests.support.sql import execute
from tests.unit.audit.written import event, handoff, write

TEXTS = (*AWKWARD_TEXTS, "two halves \ud83d\udce6 of one")


class AuditOfAStore:
    """What every back end keeps."""

    async def test_any_text_and_number_keeps_its_audit_hash(self, store: Store) -> None:
        numbers = [0, -0.0, 1.0, 1e300, 5e-324, 0.1, 2**70, -(2**63), True, None, 1e16]
        events = [
            handoff("s", seq, "failed", reason=text, more={text: [text, *numbers]})
            for seq, text in enumerate(TEXTS, start=1)
        ]
        last = len(events) + 1
        said = event(
            "s",
            last,
            "inbox",
            agent="Übersetzer 訳",
            step="1.1.h/ß",
            duration_us=2**40,
            items=tuple({"role": "user", "content": text} for text in TEXTS),
            error=TEXTS[-1],
        )
        await write(store, [*events, said])
        await write(store, [event("bare", 1, "guardrail"), event("bare", 2, "route", details={})])
        lines: list[str] = []
        manifest = await export_audit(store, AuditQuery(), lines.append)
        assert manifest.records == last + 2
        found = await verify_audit(store, against=lines)
        assert found.ok, found.first
        assert (found.events, found.compared) == (last + 2, last + 2)

    async def test_a_run_is_audited_in_its_own_transactions(self, store: Store) -> None:
        model = ScriptedModel([transfer("orders", reason="包裹"), say("已发货 📦"), say("不客气")])
        orders = Agent("orders", model=model)
        triage = Agent("triage", model=model, handoffs=[orders])
        session = Session("s", store=store)
        await Runner.run(triage, "我的包裹在哪里？", session=session)
        await Runner.run(triage, "谢谢", session=session)
        records = (
            await audit_records(store, AuditQuery(type="handoff", newest_first=False))
        ).records
        moves = ["initiated", "validating", "transferring", "completed"]
        assert [each.move for each in records] == moves
        assert {each.agents for each in records} == {("triage", "orders")}
        found = await verify_audit(store)
        assert (found.ok, found.chained, found.unhashed) == (True, 1, 0)

    async def test_a_branch_of_a_session_has_its_own_audit_chain(self, store: Store) -> None:
        model = ScriptedModel([transfer("orders", reason="a parcel"), say("sent"), say("welcome")])
        orders = Agent("orders", model=model)
        triage = Agent("triage", model=model, handoffs=[orders])
        session = Session("s", store=store)
        await Runner.run(triage, "Where is it?", session=session)
        said = await session.events()
        await Runner.run(triage, "Thanks.", session=session)
        await fork_session(store, "s", before_seq=len(said) + 1, new_id="branch")
        found = await verify_audit(store)
        assert found.ok, found.first
        assert (found.chained, found.unhashed) == (2, 0)

    async def test_the_audit_of_a_task_includes_its_questions_and_decisions(
        self, store: Store
    ) -> None:
        async def lead(ctx: CodeContext[Any]) -> str:
            await ctx.ask("helper", "how much?")
            return (await ctx.request_approval("may I?")).choice

        helper = Agent("helper", model=ScriptedModel([say("7")]))
        team = Team(Agent("lead", run=lead), helper)
        session = Session("s", store=store, correlation_id="C")
        await Runner.run(team, "go", session=session)
        [item] = (await Inbox(store).list()).items
        await Inbox(store).answer(item.id, choice="approve", by="mira")
        for query in (AuditQuery(task="s"), AuditQuery(correlation_id="C")):
            records = (await audit_records(store, query)).records
            assert "mira" in {each.actor.name for each in records if each.actor.kind == "person"}
            assert ("message", "helper", "how much?") in {
                (each.type, each.target, each.reason) for each in records
            }
        assert (await verify_audit(store)).ok


class TestMemory(AuditOfAStore):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with MemoryStore() as store:
            yield store


class TestSqlite(AuditOfAStore):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        async with SqliteStore(tmp_path / "ekiden.db") as store:
            yield store


class TestPostgres(AuditOfAStore):
    @pytest.fixture
    async def store(self, postgres_store: PostgresStore) -> Store:
        return postgres_store


async def test_verification_finds_a_change_in_postgres(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store:
        await write(store, [handoff("s", 1, "failed", reason="a"), event("s", 2, "inbox")])
        await execute(postgres_url, "update events set agent = 'x' where seq = 1")
        (link,) = (await verify_audit(store)).links
        assert (link.record_id, link.fault) == ("s/1", "changed")
        await execute(postgres_url, "update events set details = '{' where seq = 1")
        (link,) = (await verify_audit(store)).links
        assert (link.record_id, link.fault) == ("s/1", "unreadable")


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("update events set details = replace(details, 'mira', 'eve')", "changed"),
        ("delete from events where seq = (select max(seq) from events)", "wrong_head"),
        ("update events set items = replace(items, 'hello', 'hallo')", "changed"),
        ("update documents set body = replace(body, '\"approve\"', '\"reject\"')", "changed"),
    ],
)
async def test_postgres_has_a_store_wide_chain_and_commit_digests(
    postgres_url: str, sql: str, fault: str
) -> None:
    async with PostgresStore(postgres_url) as store:
        agent = Agent("a", model=ScriptedModel([say("hello")]))
        await Runner.run(agent, "hi", session=Session("s", store=store))
        inbox = Inbox(store)
        options = ("approve", "reject")
        for name in ("one", "two"):
            asked = InboxItem(
                id=name, kind="approval", from_agent="a", subject="?", options=options
            )
            await inbox.post(asked)
            await inbox.answer(name, choice="approve", by="mira")
        found = await verify_audit(store)
        assert (found.ok, found.uncovered, found.decisions) == (True, 0, 2)
        await execute(postgres_url, sql)
        assert [link.fault for link in (await verify_audit(store)).links][:1] == [fault]
