"""A store of any format that was ever released opens, and its unfinished work can be finished."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ekiden import (
    Agent,
    AgentMessage,
    Bus,
    Collaborations,
    HandoffExecutor,
    Inbox,
    Runner,
    Session,
    function_tool,
)
from ekiden.audit import verify_audit
from ekiden.core.conversation.model import Item, text_of
from ekiden.engine import Worker
from ekiden.handoff.records import records_of
from ekiden.memory import Memory
from ekiden.project import open_store
from ekiden.runtime.history.session_state import shared_state
from ekiden.runtime.state.leases import keeper_of
from ekiden.storage.base import SearchEntry, SessionRow, Store
from ekiden.storage.postgres.address import parse_address
from ekiden.storage.sqlite.open_store import shipped
from ekiden.testing import ScriptedModel, say
from tests.samples.make import COLLABORATION, EFFECTS, FOLDER, PARTS, SCHEMA
from tests.samples.team import CONFIG, PICTURES, World, team
from tests.support.sql import connect

SAMPLES = sorted(FOLDER.glob("*-format-*.*"))
FINISHED: dict[str, Any] = json.loads((FOLDER / "finished.json").read_text("utf-8"))
"""The sessions at their end, by the names of `named_rows`."""


@pytest.fixture(params=SAMPLES, ids=lambda sample: sample.stem)
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a copy of a sample, which itself is never opened."""
    sample: Path = request.param
    if sample.suffix == ".db":
        return str(shutil.copyfile(sample, tmp_path / "ekiden.db"))
    url: str = request.getfixturevalue("postgres_url")
    sql = re.sub(rf"\b{SCHEMA}(?=[.;])", parse_address(url).schema, sample.read_text("utf-8"))

    async def fill() -> None:
        connection = await connect(url)
        await connection.execute(sql)
        await connection.close()

    asyncio.run(fill())
    return url


class PatientWorld(World):
    """Work takes until the process has read the stored requests for handoffs, as it does every
    250 ms: a run that ends earlier leaves them to the next run of its session."""

    def __init__(self, folder: Path, store: Store) -> None:
        super().__init__(folder)
        self._keeper = keeper_of(store)

    async def before_return(self, session_id: str) -> None:
        await self._keeper._look_for_requests()
        if session_id == "request-immediate":
            await asyncio.Event().wait()  # The request interrupts it.


async def named_rows(store: Store) -> dict[str, SessionRow]:
    """The sessions by name; a session that answers is named by its task and its agent."""
    rows = (await store.list(limit=200)).sessions
    return {
        f"{row.meta['correlation_id']} > {row.agent}" if row.id.startswith("ask_") else row.id: row
        for row in rows
    }


def line_of(item: Item) -> str:
    """An item in one line."""
    match item.get("type"):
        case "function_call":
            return f"{item['name']}({item['arguments']})"
        case "function_call_output":
            return f"-> {item['output']}"
    return f"{item['role']}: {text_of(item)}"


async def ending_of(store: Store, row: SessionRow) -> dict[str, Any]:
    session = Session(row.id, store=store)
    handoffs = records_of(await session.events())
    return {
        "agent": row.agent,
        "outcome": row.outcome,
        "said": [line_of(item) for item in await session.get_items()],
        "handoffs": [f"{each.target} {each.policy} {each.status}" for each in handoffs],
    }


async def finish(store: Store, world: PatientWorld) -> None:
    """Do all the work that the sample left: run it, let time pass, answer, resume."""
    worker = Worker(store, team(), context=world, run_config=CONFIG)
    inbox = Inbox(store)
    await worker.run(until_idle=True)
    while items := (await inbox.list(limit=100)).items:
        for item in items:
            choice = "yes" if item.kind == "approval" else "approve"
            await inbox.answer(item.id, choice=choice, by="anna")
        await worker.run(until_idle=True)
    session = Session("out-of-budget", store=store)
    await Runner.resume(team(), session, run_config=CONFIG, context=world)


def test_every_format_has_its_samples_in_small_files() -> None:
    numbers = [migration.number for migration in shipped()]
    names = {
        *(f"sqlite-format-{number}.db" for number in numbers),
        *(f"postgresql-format-{number}.sql" for number in numbers),
    }
    assert {sample.name for sample in SAMPLES} == names, "python -m tests.samples.make"
    assert all(sample.stat().st_size < 160 * 1024 for sample in SAMPLES)


async def test_all_work_of_a_sample_is_finished_once_and_with_the_same_keys(
    copy: str, tmp_path: Path
) -> None:
    async with open_store(copy) as store:
        world = PatientWorld(tmp_path / "ledger", store)
        assert (await store.info())["format"] == shipped()[-1].number
        assert (await verify_audit(store)).ok
        document = await store.get_document(*EFFECTS)
        await finish(store, world)
        rows = await named_rows(store)
        endings = {name: await ending_of(store, row) for name, row in rows.items()}
        audit = await verify_audit(store)
    assert endings == {name: FINISHED[name] for name in rows}
    assert (audit.ok, audit.uncovered, audit.not_chained) == (True, 0, 0)
    assert document is not None
    before = {(session, what): key for session, key, what in document.body}
    lines = world.ledger.lines("effect")
    after = {(line["session"], line["what"]): line["key"] for line in lines}
    assert len(after) == len(lines)
    in_flight = {effect: key for effect, key in after.items() if effect in before}
    assert in_flight == {effect: before[effect] for effect in in_flight}
    left = Counter(what for _, what in in_flight)
    left -= Counter(["quote"])  # It ran together with "letter", and may have been stored or not.
    assert left == Counter(part.ends_at for part in PARTS.values() if part.ends_at)


async def test_a_sample_has_the_attachments_and_variables_that_were_stored(copy: str) -> None:
    async with open_store(copy) as store:
        [message, *_] = await Session("attachments", store=store).get_items()
        assert message == {"role": "user", "content": PICTURES}
        row = await store.get("done")
        assert (row.user_id, dict(row.meta)) == ("mira", {"title": "見本"})
        assert row.variables == {"box": "done", "label": "done"}
        shared = await shared_state(store, "user", "mira")
        assert {name: each.value for name, each in shared.items()} == {"language": "ja"}


async def test_a_conversation_of_a_sample_continues(copy: str, tmp_path: Path) -> None:
    world = World(tmp_path / "ledger")
    async with open_store(copy) as store:
        session = Session("out-of-budget", store=store)
        before = await session.get_items()
        result = await Runner.run(
            team(), "thanks", session=session, run_config=CONFIG, context=world
        )
        assert result.final_output == "You are welcome."
        assert (await session.get_items())[: len(before)] == before
        assert (await verify_audit(store)).ok


async def test_the_collaborations_of_a_sample_are_concluded(copy: str, tmp_path: Path) -> None:
    world = World(tmp_path / "ledger")
    async with open_store(copy) as store, Bus(store) as bus:
        executor = HandoffExecutor(team("buyer"), store, context=world, run_config=CONFIG)
        together = Collaborations(bus, executor=executor, settings=COLLABORATION)
        buyer, carrier = together.as_agent("buyer"), together.as_agent("carrier")
        [offered] = await carrier.list(phases=["negotiation"])
        await carrier.accept(offered.id, offered.terms.version)
        await buyer.accept(offered.id, offered.terms.version)
        done = await together.resume()
        outcomes = [each.outcome.status for each in done if each.outcome is not None]
        assert outcomes == ["completed", "completed"]
        assert len(world.ledger.lines("effect", what="drive")) == 2
        assert (await verify_audit(store)).ok


async def test_a_message_that_waits_in_a_sample_is_delivered(copy: str) -> None:
    delivered: asyncio.Queue[AgentMessage] = asyncio.Queue()
    async with open_store(copy) as store, Bus(store) as bus, bus.serve("mailbox", delivered.put):
        async with asyncio.timeout(60):
            message = await delivered.get()
    assert (message.from_agent, message.subject) == ("pm", "news")
    assert message.payload == {"text": "お知らせ"}


async def test_the_texts_and_memories_of_a_sample_are_found(copy: str) -> None:
    async with open_store(copy) as store:
        (hit,) = await store.search_text("u1", "绿茶")
        assert (hit.entry.key, hit.entry.body, hit.score) == ("drink", {"n": 1}, 1.0)
        assert [each.entry.key for each in await store.search_text("u1", "서울")] == ["city"]
        (near,) = await store.search_vectors("u1", [1.0, 0.0], model="m")
        assert (near.entry.key, round(near.score, 4)) == ("city", 0.6)
        assert list(await store.search_text("u1", "coffee")) == []
        await store.put_entries([SearchEntry(space="u1", key="drink", text="coffee")])
        assert [each.entry.space for each in await store.search_text("u2", "coffee")] == ["u2"]
        assert list(await store.search_text("u1", "green tea")) == []
        memory = Memory(store, app="samples", user="mira")
        [found] = await memory.retrieve("砂糖")
        assert (found.key, found.content) == ("tea", "Mira takes no sugar. 砂糖なし")


async def test_a_run_in_a_store_of_development_versions_resumes(tmp_path: Path) -> None:
    @function_tool
    async def lookup(order_id: str) -> str:
        """Where an order is."""
        raise AssertionError(f"{order_id} was looked up already")

    model = ScriptedModel([say("B-1 已发货 📦")])
    orders = Agent("orders", model=model, tools=[lookup])
    triage = Agent("triage", model=model, handoffs=[orders])
    path = shutil.copyfile(FOLDER / "sqlite-development.db", tmp_path / "ekiden.db")
    async with open_store(str(path)) as store:
        result = await Runner.resume(triage, Session("unfinished", store=store))
        assert (result.final_output, result.last_agent.name) == ("B-1 已发货 📦", "orders")
        finished = await Session("finished", store=store).get_items()
        assert [line_of(item) for item in finished] == [
            "user: 我的包裹在哪里？",
            'transfer_to_orders({"reason":"包裹"})',
            '-> {"assistant":"orders"}',
            'lookup({"order_id":"A-42"})',
            "-> A-42 已发货",
            "assistant: A-42 已发货 📦",
        ]
        assert (await verify_audit(store)).ok
