"""A session as a document: exported, imported, continued; a forged one is checked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ekiden.audit import verify_audit
from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.errors import SessionExists, SessionNotFound, UserError
from ekiden.core.errors.stored_data import SessionImportInvalid
from ekiden.handoff import handoff, remove_all_tools
from ekiden.runtime import Runner
from ekiden.runtime.history.fork import fork_session, rewind_session
from ekiden.runtime.history.session_document import export_session, import_session
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tools import function_tool
from tests.support.examples import examples

SAMPLES = Path(__file__).parents[2] / "samples"
SAMPLE = SAMPLES / "session-export-1.json"
DEVELOPMENT = sorted(SAMPLES.glob("session-export-store-*.json"))


def desk() -> Agent[Any]:
    @function_tool
    def note(ctx: ToolContext[Any], what: str) -> str:
        ctx.variables["noted"] = [*ctx.variables.get("noted", []), what]
        return f"noted {what}"

    def answer(request: Any) -> Any:
        last = request.input[-1]
        if request.agent == "door":
            return transfer("clerk", reason="門票")
        if last.get("role") == "user":
            return call("note", what=str(last["content"])[:40])
        return say(f"{request.agent} heard it 🎫")

    model = ScriptedModel(respond=answer)
    clerk = Agent("clerk", model=model, tools=[note])
    return Agent("door", model=model, handoffs=[handoff(clerk, input_filter=remove_all_tools)])


async def talked(*texts: str, max_turns: int | None = None) -> MemoryStore:
    store = MemoryStore()
    session = Session("s", store=store, user_id="u1", title="茶")
    for text in texts:
        more = {} if max_turns is None else {"max_turns": max_turns}
        await Runner.run(desk(), text, session=session, **more)
    return store


async def everything(store: MemoryStore, session_id: str) -> Any:
    row = await store.get(session_id)
    events = [
        (e.seq, e.type, e.at_us, e.agent, e.step, e.duration_us, e.details, e.items, e.error)
        for e in await store.events(session_id)
    ]
    plain = (row.agent, row.status, row.outcome, row.user_id, row.meta, row.cursor, row.variables)
    return plain, events, await store.steps(session_id)


async def test_a_session_is_the_same_after_export_and_import() -> None:
    store = await talked("a ticket", "and another one")
    document = json.dumps(await export_session(store, "s"))
    other = MemoryStore()
    session = await import_session(other, document)
    assert session.session_id == "s"
    assert await everything(other, "s") == await everything(store, "s")
    assert (await verify_audit(other)).ok
    result = await Runner.run(desk(), "one more", session=session)
    assert result.final_output == "clerk heard it 🎫"
    assert (await session.row()).variables == {"noted": ["a ticket", "and another one", "one more"]}


async def test_under_another_id_its_audit_is_chained_anew() -> None:
    store = await talked("a ticket")
    session = await import_session(store, await export_session(store, "s"), new_id="copy")
    assert await session.get_items() == await Session("s", store=store).get_items()
    verification = await verify_audit(store)
    assert verification.ok
    assert verification.sessions == 2


async def test_an_imported_unfinished_run_can_be_resumed() -> None:
    store = await talked("a ticket", max_turns=2)
    other = MemoryStore()
    session = await import_session(other, json.dumps(await export_session(store, "s")).encode())
    row = await session.row()
    assert row.status == "idle"
    assert row.cursor["p"] == "think"
    result = await Runner.resume(desk(), session)
    assert result.final_output == "clerk heard it 🎫"


async def test_an_imported_session_can_be_forked_and_rewound() -> None:
    store = await talked("a ticket", "and another one")
    other = MemoryStore()
    await import_session(other, await export_session(store, "s"))
    branch = await fork_session(other, "s", at_seq=4)
    assert (await branch.row()).agent == "clerk"
    await rewind_session(other, "s", to_seq=4)
    last = MemoryStore()
    again = await import_session(last, await export_session(other, "s"))
    assert await again.get_items() == await branch.get_items()
    result = await Runner.resume(desk(), again)
    assert result.final_output == "clerk heard it 🎫"


async def test_an_empty_session_can_be_moved() -> None:
    store = MemoryStore()
    await store.create(Session("s", store=store).draft("door"))
    other = MemoryStore()
    await import_session(other, await export_session(store, "s"))
    assert (await other.get("s")).agent == "door"


def orders_desk(answer: str) -> Agent[Any]:
    """The team of the exports of development versions; its tool was called already."""

    @function_tool
    def lookup(order_id: str) -> str:
        raise AssertionError(f"{order_id} was looked up already")

    model = ScriptedModel([say(answer)])
    orders = Agent("orders", model=model, tools=[lookup])
    return Agent("triage", model=model, handoffs=[orders])


@pytest.mark.parametrize("sample", DEVELOPMENT, ids=lambda sample: sample.stem)
async def test_an_export_of_a_development_version_is_imported_and_continued(sample: Path) -> None:
    store = MemoryStore()
    session = await import_session(store, sample.read_bytes())
    items = await session.get_items()
    assert [item["content"] for item in items if item.get("role") == "user"] == [
        "我的包裹在哪里？",
        "and B-1?",
    ]
    assert [item["output"] for item in items if "output" in item][1:] == [
        "A-42 已发货",
        "B-1 已发货",
    ]
    row = await session.row()
    assert (row.agent, row.user_id, dict(row.meta)) == ("orders", "u1", {"title": "茶"})
    has_cursor = "resume" in json.loads(sample.read_bytes())
    if has_cursor:
        result = await Runner.resume(orders_desk("B-1 已发货 📦"), session)
        assert result.final_output == "B-1 已发货 📦"
    else:
        with pytest.raises(UserError, match="send a message"):
            await Runner.resume(orders_desk("B-1 已发货 📦"), session)
    result = await Runner.run(orders_desk("不客气"), "谢谢", session=session)
    assert (result.final_output, result.last_agent.name) == ("不客气", "orders")
    assert (await session.get_items())[: len(items)] == items
    assert (await verify_audit(store)).ok


async def test_an_export_of_today_must_say_how_to_resume() -> None:
    document = await export_session(await talked("one ticket please"), "s")
    del document["resume"]
    with pytest.raises(SessionImportInvalid, match="it is missing") as caught:
        await import_session(MemoryStore(), document)
    assert caught.value.place == "resume"


async def test_a_message_after_the_import_closes_a_call_without_an_output() -> None:
    [sample, *_] = DEVELOPMENT
    document = json.loads(sample.read_bytes())
    del document["events"][-2:]
    session = await import_session(MemoryStore(), document)
    result = await Runner.run(orders_desk("不客气"), "谢谢", session=session)
    assert result.final_output == "不客气"
    [*_, output, _, _] = await session.get_items()
    assert "interrupted by a new message" in output["output"]


async def test_an_id_that_is_taken_is_refused() -> None:
    store = await talked("a ticket")
    with pytest.raises(SessionExists):
        await import_session(store, await export_session(store, "s"))
    with pytest.raises(SessionNotFound):
        await export_session(store, "nobody")


async def test_an_import_drops_approvals_budgets_and_answers_of_other_sessions() -> None:
    document = await export_session(await talked("a ticket", "more"), "s")
    document["session"]["meta"] |= {"answers": "msg_1", "purses": ["x"], "asked_in": "y"}
    cursor = document["resume"]["cursor"]
    cursor["al"] = [["clerk", "shell", "", "eve"]]
    cursor["as"] = {"1.1.a1": ["query", "msg_1", "clerk", "other", None, 0]}
    cursor["ho"] = [
        ["s.h9", "door", "clerk", None, 1, None, 0, None, 1, None, 0.0, 0, {}, None,
         [["k", "os:abort", None, "door", 0, "open"]], None, []],
    ]  # fmt: skip
    document["resume"]["steps"]["2.0.before"]["cursor"]["al"] = [["clerk", "shell", "", "eve"]]
    store = MemoryStore()
    session = await import_session(store, document)
    row = await session.row()
    assert set(row.meta) == {"title"}
    assert not {"al", "as", "ho"} & set(row.cursor)
    assert "al" not in (await store.steps("s"))["2.0.before"]["cursor"]
    last = (await session.events())[-1]
    assert last.details is not None
    assert (last.details["id"], last.details["status"]) == ("s.h9", "completed")
    assert (await verify_audit(store)).ok


def put(*path: Any, value: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


BAD = [
    (put("format", value="zip"), "format"),
    (put("version", value=2), "version"),
    (put("version", value="1"), "version"),
    (put("session", value=None), "session"),
    (put("session", "session_id", value="no spaces"), "session.session_id"),
    (put("session", "session_id", value=7), "session.session_id"),
    (put("session", "agent", value=""), "session.agent"),
    (put("session", "user_id", value=5), "session.user_id"),
    (put("session", "outcome", value="lovely"), "session.outcome"),
    (put("session", "meta", value=[]), "session.meta"),
    (put("session", "variables", value="x"), "session.variables"),
    (put("events", value={}), "events"),
    (put("events", 1, value=3), "events[1]"),
    (put("events", 1, "seq", value=9), "events[1].seq"),
    (put("events", 1, "seq", value=True), "events[1].seq"),
    (put("events", 1, "event_type", value="party"), "events[1].event_type"),
    (put("events", 1, "event_type", value=[]), "events[1].event_type"),
    (put("events", 1, "timestamp", value="now"), "events[1].timestamp"),
    (put("events", 1, "timestamp", value=-4), "events[1].timestamp"),
    (put("events", 1, "duration_ms", value=1e300), "events[1].duration_ms"),
    (put("events", 1, "details", value=[1]), "events[1].details"),
    (put("events", 1, "details", value={"undoes": [1]}), "events[1].details.undoes"),
    (put("events", 1, "details", value={"undoes": ["a", 1]}), "events[1].details.undoes[0]"),
    (put("events", 0, "items", value=[1]), "events[0].items[0]"),
    (put("events", 0, "items", value=[{"type": "function_call"}]), "events[0].items[0].call_id"),
    (put("events", 0, "error", value=1), "events[0].error"),
    (put("events", 0, "step", value="1.1.m"), "events[2].step"),
    (put("events", 3, "details", "reason", value="another"), "events[3].details.hash"),
    (put("resume", value=None), "resume"),
    (put("resume", "steps", value=None), "resume.steps"),
    (put("resume", "steps", "", value=1), "resume.steps"),
    (put("resume", "steps", "2.0.before", value=1), "resume.steps.2.0.before"),
    (put("resume", "cursor", value=1), "resume.cursor"),
    (put("resume", "cursor", "r", value="x"), "resume.cursor.r"),
    (put("resume", "cursor", "p", value="party"), "resume.cursor.p"),
    (put("resume", "cursor", "c", value=10**6), "resume.cursor"),
    (put("resume", "cursor", "b", value="9.9.filter"), "resume.cursor.b"),
    (put("resume", "cursor", "ch", value=[1, 2]), "resume.cursor.ch[0]"),
    (put("resume", "cursor", "u", value={"cats": 3}), "resume.cursor.u"),
    (put("resume", "cursor", "ho", value=[["x"]]), "resume.cursor.ho"),
]


@pytest.mark.parametrize(("change", "place"), BAD, ids=[f"{n}-{p}" for n, (_, p) in enumerate(BAD)])
async def test_an_invalid_document_is_refused_with_the_place_and_nothing_is_stored(
    change: Callable[[Any], None], place: str
) -> None:
    document = json.loads(json.dumps(await export_session(await talked("a ticket", "more"), "s")))
    change(document)
    store = MemoryStore()
    with pytest.raises(SessionImportInvalid) as caught:
        await import_session(store, document)
    assert caught.value.place == place
    assert caught.value.code == "session.import_invalid"
    assert (await store.info())["sessions"] == 0


@pytest.mark.parametrize(
    "data", ["", "{", b"\xff\xfe", "[]", "null", "[" * 100_000, object(), {"format": float("nan")}]
)
async def test_data_that_is_not_a_session_document_is_refused(data: Any) -> None:
    with pytest.raises(SessionImportInvalid):
        await import_session(MemoryStore(), data)


_leaves = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5)
_junk = st.recursive(_leaves, lambda each: st.lists(each) | st.dictionaries(st.text(), each))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything in a document."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, each in pairs:
        found.append((*path, key))
        if isinstance(each, dict | list):
            found += places(each, (*path, key))
    return found


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_a_random_document_is_imported_or_refused_as_invalid(data: st.DataObject) -> None:
    async def check() -> None:
        document = _known()
        put(*data.draw(st.sampled_from(places(document))), value=data.draw(_junk))(document)
        store = MemoryStore()
        try:
            session = await import_session(store, document)
        except SessionImportInvalid:
            assert (await store.info())["sessions"] == 0
        else:
            await session.get_items()

    asyncio.run(check())


def _known() -> Any:
    return json.loads(SAMPLE.read_text("utf-8"))


async def test_the_frozen_sample_can_be_imported_and_continued() -> None:
    store = MemoryStore()
    session = await import_session(store, SAMPLE.read_bytes())
    assert (await verify_audit(store)).ok
    result = await Runner.resume(desk(), session)
    assert result.final_output == "clerk heard it 🎫"
    assert (await session.row()).variables == {"noted": ["a ticket", "茶をください"]}
