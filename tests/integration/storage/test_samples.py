"""A store of any format that was ever released opens, reads as it did, and goes on."""

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, Runner, Session, function_tool
from ekiden.audit import verify_audit
from ekiden.project import open_store
from ekiden.storage.base import SearchEntry
from ekiden.storage.postgres.address import parse_address
from ekiden.storage.sqlite.open_store import shipped
from ekiden.testing import ScriptedModel, say
from tests.support.sql import connect

SAMPLES = sorted((Path(__file__).resolve().parents[2] / "samples").glob("*ql*-*.*"))

FINISHED: list[dict[str, Any]] = [
    {"role": "user", "content": "我的包裹在哪里？"},
    {
        "type": "function_call",
        "name": "transfer_to_orders",
        "arguments": '{"reason":"包裹"}',
        "call_id": "call_1_1_m_1",
    },
    {
        "type": "function_call_output",
        "call_id": "call_1_1_m_1",
        "output": '{"assistant":"orders"}',
    },
    {
        "type": "function_call",
        "name": "lookup",
        "arguments": '{"order_id":"A-42"}',
        "call_id": "call_1_2_m_1",
    },
    {"type": "function_call_output", "call_id": "call_1_2_m_1", "output": "A-42 已发货"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "A-42 已发货 📦"}],
    },
]
UNFINISHED: list[dict[str, Any]] = [
    {"role": "user", "content": "and B-1?"},
    {
        "type": "function_call",
        "name": "transfer_to_orders",
        "arguments": "{}",
        "call_id": "call_1_1_m_1",
    },
    {
        "type": "function_call_output",
        "call_id": "call_1_1_m_1",
        "output": '{"assistant":"orders"}',
    },
    {
        "type": "function_call",
        "name": "lookup",
        "arguments": '{"order_id":"B-1"}',
        "call_id": "call_1_2_m_1",
    },
    {"type": "function_call_output", "call_id": "call_1_2_m_1", "output": "B-1 已发货"},
]


@pytest.fixture(params=SAMPLES, ids=lambda sample: sample.stem)
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a copy of a sample, which itself is never opened."""
    sample: Path = request.param
    if sample.suffix == ".db":
        return str(shutil.copyfile(sample, tmp_path / "ekiden.db"))
    url: str = request.getfixturevalue("postgres_url")
    sql = re.sub(r"\bsample\b", parse_address(url).schema, sample.read_text("utf-8"))

    async def fill() -> None:
        connection = await connect(url)
        await connection.execute(sql)
        await connection.close()

    asyncio.run(fill())
    return url


def test_every_format_has_its_samples_in_small_files() -> None:
    expected = {"sqlite-development.db"}
    for migration in shipped():
        expected |= {
            f"sqlite-format-{migration.number}.db",
            f"postgresql-format-{migration.number}.sql",
        }
    assert {sample.name for sample in SAMPLES} == expected
    assert all(sample.stat().st_size < 64 * 1024 for sample in SAMPLES)


async def test_a_sample_reads_as_it_was_written(copy: str) -> None:
    async with open_store(copy) as store:
        finished, unfinished = Session("finished", store=store), Session("unfinished", store=store)
        assert await finished.get_items() == FINISHED
        assert await unfinished.get_items() == UNFINISHED
        row = await finished.row()
        assert (row.agent, row.status, row.outcome) == ("orders", "idle", "done")
        assert (row.user_id, dict(row.meta), row.owner) == ("u1", {"title": "茶"}, None)
        row = await unfinished.row()
        assert (row.agent, row.status, row.outcome) == ("orders", "idle", "out_of_budget")
        assert (row.user_id, dict(row.meta), row.owner) == (None, {}, None)
        info = await store.info()
    assert info["sessions"] == 2
    assert info["format"] == shipped()[-1].number


async def test_the_unfinished_run_of_a_sample_resumes_to_its_answer(copy: str) -> None:
    @function_tool
    async def lookup(order_id: str) -> str:
        """Where an order is."""
        raise AssertionError(f"{order_id} was looked up already")

    model = ScriptedModel([say("B-1 已发货 📦")])
    orders = Agent("orders", model=model, tools=[lookup])
    triage = Agent("triage", model=model, handoffs=[orders])
    async with open_store(copy) as store:
        session = Session("unfinished", store=store)
        result = await Runner.resume(triage, session=session)
        assert (result.final_output, result.last_agent.name) == ("B-1 已发货 📦", "orders")
        assert (await session.row()).outcome == "done"
        answer = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "B-1 已发货 📦"}],
        }
        assert await session.get_items() == [*UNFINISHED, answer]


async def test_a_finished_conversation_of_a_sample_continues(copy: str) -> None:
    model = ScriptedModel([say("不客气")])
    orders = Agent("orders", model=model)
    triage = Agent("triage", model=model, handoffs=[orders])
    async with open_store(copy) as store:
        session = Session("finished", store=store)
        result = await Runner.run(triage, "谢谢", session=session)
        assert result.final_output == "不客气"
        items = await session.get_items()
        assert items[: len(FINISHED) + 1] == [*FINISHED, {"role": "user", "content": "谢谢"}]


async def test_the_audit_of_a_sample_is_valid(copy: str) -> None:
    async with open_store(copy) as store:
        before = await verify_audit(store)
        model = ScriptedModel([say("不客气")])
        triage = Agent("triage", model=model, handoffs=[Agent("orders", model=model)])
        await Runner.run(triage, "谢谢", session=Session("finished", store=store))
        after = await verify_audit(store)
    assert before.ok
    assert after.ok
    assert before.sessions == 2
    assert (before.chained > 0, before.not_chained) == (True, 0)
    assert (before.covered > 0, before.uncovered) == (True, 0)
    assert (after.covered - before.covered, after.uncovered) == (4, 0)


async def test_the_texts_of_a_sample_are_found(copy: str) -> None:
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
