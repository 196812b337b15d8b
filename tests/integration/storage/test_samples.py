"""A store of any format that was ever released opens, reads as it did, and goes on."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, Runner, Session, SqliteStore, function_tool
from ekiden.audit import verify_audit
from ekiden.storage.base import SearchEntry
from ekiden.storage.sqlite.migrate import SHIPPED, load_migrations
from ekiden.testing import ScriptedModel, say

SAMPLES = sorted((Path(__file__).resolve().parents[2] / "samples").glob("sqlite-format-*.db"))

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
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a sample, which itself is never opened."""
    path = tmp_path / "ekiden.db"
    shutil.copyfile(request.param, path)
    return path


def test_every_format_has_its_sample_in_one_small_file() -> None:
    formats = [migration.number for migration in load_migrations(SHIPPED)]
    assert [sample.name for sample in SAMPLES] == [f"sqlite-format-{n}.db" for n in formats]
    for sample in SAMPLES:
        assert sample.stat().st_size < 64 * 1024
        assert not sample.with_name(f"{sample.name}-wal").exists()


async def test_a_sample_reads_as_it_was_written(copy: Path) -> None:
    async with SqliteStore(copy) as store:
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
    assert info["format"] == load_migrations(SHIPPED)[-1].number


async def test_what_a_sample_left_unfinished_comes_to_its_answer(copy: Path) -> None:
    @function_tool
    async def lookup(order_id: str) -> str:
        """Where an order is."""
        raise AssertionError(f"{order_id} was looked up already")

    model = ScriptedModel([say("B-1 已发货 📦")])
    orders = Agent("orders", model=model, tools=[lookup])
    triage = Agent("triage", model=model, handoffs=[orders])
    async with SqliteStore(copy) as store:
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


async def test_a_finished_conversation_of_a_sample_goes_on(copy: Path) -> None:
    model = ScriptedModel([say("不客气")])
    orders = Agent("orders", model=model)
    triage = Agent("triage", model=model, handoffs=[orders])
    async with SqliteStore(copy) as store:
        session = Session("finished", store=store)
        result = await Runner.run(triage, "谢谢", session=session)
        assert result.final_output == "不客气"
        items = await session.get_items()
        assert items[: len(FINISHED) + 1] == [*FINISHED, {"role": "user", "content": "谢谢"}]


async def test_the_audit_of_a_sample_is_unbroken(copy: Path) -> None:
    """Format 1 was written before there were hashes, and formats before 7 without digests."""
    async with SqliteStore(copy) as store:
        before = await verify_audit(store)
        model = ScriptedModel([say("不客气")])
        triage = Agent("triage", model=model, handoffs=[Agent("orders", model=model)])
        await Runner.run(triage, "谢谢", session=Session("finished", store=store))
        after = await verify_audit(store)
    assert before.ok
    assert after.ok
    assert before.sessions == 2
    assert (before.chained > 0) != (before.not_chained > 0)
    assert (before.covered > 0) != (before.uncovered > 0)
    assert (after.covered - before.covered, after.uncovered) == (4, before.uncovered)


async def test_a_sample_of_format_4_finds_its_texts(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    shutil.copyfile(SAMPLES[3], path)
    async with SqliteStore(path) as store:
        (hit,) = await store.search_text("u1", "绿茶")
        assert (hit.entry.key, hit.entry.body, hit.score) == ("drink", {"n": 1}, 1.0)
        assert [each.entry.key for each in await store.search_text("u1", "서울")] == ["city"]
        (near,) = await store.search_vectors("u1", [1.0, 0.0], model="m")
        assert (near.entry.key, round(near.score, 4)) == ("city", 0.6)
        assert list(await store.search_text("u1", "coffee")) == []
        await store.put_entries([SearchEntry(space="u1", key="drink", text="coffee")])
        assert [each.entry.space for each in await store.search_text("u2", "coffee")] == ["u2"]
        assert list(await store.search_text("u1", "green tea")) == []


async def test_texts_are_found_in_a_store_of_any_format(copy: Path) -> None:
    async with SqliteStore(copy) as store:
        await store.put_entries([SearchEntry(space="new", key="k", text="red 茶")])
        assert [each.entry.key for each in await store.search_text("new", "茶")] == ["k"]
        assert (await store.find_entries("new"))[0].text == "red 茶"
