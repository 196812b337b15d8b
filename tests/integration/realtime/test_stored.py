"""Live sessions that are recorded in a store, and go on after they broke."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden import (
    Agent,
    LeaseLost,
    MemoryStore,
    RunConfig,
    Runner,
    Session,
    SessionBusy,
    SqliteStore,
    Store,
    StoreUnavailable,
    ToolContext,
    UnknownAgent,
    UserError,
    function_tool,
)
from ekiden.audit import GENESIS, head_of, link
from ekiden.handoff.records import records_of
from ekiden.integrations.realtime import (
    RealtimeAgent,
    RealtimeDisconnected,
    RealtimeModelSettings,
    realtime_handoff,
)
from ekiden.sessions import chain_of
from ekiden.storage.base import NewSession
from ekiden.testing import ScriptedModel, call, hang, say, transfer
from ekiden.testing.servers.realtime import heard
from tests.integration.realtime.conftest import outputs, talking

MOVES = ["initiated", "validating", "transferring", "completed"]


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "desk.db")
    async with made:
        yield made


async def test_a_handoff_is_stored_in_one_transaction(
    store: Store, triage: RealtimeAgent[Any]
) -> None:
    session = Session("s1", store=store)
    async with talking(
        [transfer("billing", call_id="c1", reason="an invoice"), say("Paid.")],
        triage,
        session=session,
    ) as (_, live):
        await live.session.send_message("My invoice?")
        await live.until_said("Paid.")
        assert (await session.row()).agent == "billing"
        assert (await session.row()).owner is not None
    row, events = await session.row(), await session.events()
    assert (row.agent, row.status, row.owner) == ("billing", "idle", None)
    assert [event.type for event in events] == ["message", "handoff", "handoff", "message"]
    [made] = records_of(events)
    assert (made.id, made.source, made.target, made.call_id) == ("s1.h1", "triage", "billing", "c1")
    assert [move.status for move in made.moves] == MOVES
    assert (made.status, made.reason, made.by.kind) == ("completed", "an invoice", "model")
    assert await session.get_items() == [
        {"role": "user", "content": "My invoice?"},
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "transfer_to_billing",
            "arguments": '{"reason":"an invoice"}',
        },
        {"type": "function_call_output", "call_id": "c1", "output": '{"assistant":"billing"}'},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Paid."}],
        },
    ]


async def test_spoken_messages_are_stored_as_transcripts(
    store: Store, triage: RealtimeAgent[Any]
) -> None:
    settings = RealtimeModelSettings(input_audio_transcription={"model": "whisper-1"})
    session = Session(store=store)
    steps = [heard("退款！"), say("好的。🙂")]
    async with talking(steps, triage, session=session, settings=settings) as (_, live):
        await live.session.send_audio(b"\x00\x01")
        await live.until_said("好的。🙂")
    said = [item["content"] for item in await session.get_items()]
    assert said == ["退款！", [{"type": "output_text", "text": "好的。🙂"}]]


async def test_a_refused_handoff_is_recorded(store: Store, billing: RealtimeAgent[Any]) -> None:
    def closed(ctx: Any) -> None:
        raise RuntimeError("closed")

    other = RealtimeAgent("other")
    triage = RealtimeAgent("triage", handoffs=[realtime_handoff(billing, on_handoff=closed), other])
    session = Session("s1", store=store)
    steps = [transfer("billing"), [transfer("other"), transfer("billing")], say("Other.")]
    async with talking(steps, triage, session=session) as (_, live):
        await live.session.send_message("Hi")
        await live.until_said("Other.")
    failed, made = records_of(await session.events())
    assert (failed.id, failed.target, failed.code) == ("s1.h1", "billing", "SOURCE_FAILED")
    assert failed.error == "RuntimeError: closed"
    assert [move.status for move in failed.moves] == ["initiated", "validating", "failed"]
    assert (made.id, made.target, made.status) == ("s1.h2", "other", "completed")
    assert (await session.row()).agent == "other"


async def test_the_audit_of_a_live_session_is_one_chain(
    store: Store, triage: RealtimeAgent[Any], billing: RealtimeAgent[Any]
) -> None:
    billing.handoffs.append(triage)
    session = Session("s1", store=store)
    steps = [transfer("billing"), transfer("triage"), say("Here again.")]
    async with talking(steps, triage, session=session, returns="always") as (_, live):
        await live.session.send_message("Hi")
        await live.until_said("Here again.")
        await live.session.update_agent(billing)
    previous = GENESIS
    handoffs = [event for event in await session.events() if event.type == "handoff"]
    for event in handoffs:
        previous = link(previous, event)
        assert (event.details or {})["hash"] == previous
    head = head_of(await session.row())
    assert head is not None
    assert (head.hash, head.count) == (previous, 6)


async def test_a_broken_conversation_continues_with_its_last_agent(
    store: Store, triage: RealtimeAgent[Any], billing: RealtimeAgent[Any]
) -> None:
    session = Session("s1", store=store)
    async with talking([transfer("billing"), say("Yes?"), hang()], triage, session=session) as (
        server,
        live,
    ):
        await live.session.send_message("My invoice?")
        await live.until_said("Yes?")
        await live.session.send_message("Number 7")
        await server.until("response.create", 3)
        server.drop()
        with pytest.raises(RealtimeDisconnected):
            await live.rest()
    assert (await session.row()).owner is None
    async with talking([say("It is paid.")], triage, session=session) as (server, live):
        assert live.session.agent is billing
        await live.session.send_message("Well?")
        await live.until_said("It is paid.")
    told = server.frames[0]["session"]["instructions"]
    assert told.startswith("You know invoices.\n\n# What you were handed")
    told = [
        frame["item"]["content"][0]["text"] for frame in server.sent("conversation.item.create")
    ]
    assert told == ["My invoice?", "Yes?", "Number 7", "Well?"]
    texts = [item for item in await session.get_items() if "role" in item]
    assert len(texts) == 5  # nothing was stored twice


async def test_only_the_last_messages_are_replayed_to_the_provider(
    store: Store, triage: RealtimeAgent[Any]
) -> None:
    session = Session("s1", store=store)
    async with talking([say("1")], triage, session=session) as (_, live):
        await live.session.send_message("0")
        await live.until_said("1")
    async with talking([], triage, session=session, history_items=1) as (server, live):
        await server.until("conversation.item.create")
    assert server.frames[1]["item"]["content"] == [{"type": "output_text", "text": "1"}]


async def test_tools_are_recorded_and_variables_are_stored(store: Store) -> None:
    @function_tool
    def count(ctx: ToolContext[Any]) -> str:
        """Count."""
        ctx.set("visits", ctx.get("visits", 0) + 1)
        return str(ctx.get("visits"))

    @function_tool
    def keep(ctx: ToolContext[Any]) -> str:
        """Keep what cannot be kept."""
        ctx.set("bad", {1, 2})
        return "kept"

    desk = RealtimeAgent("desk", tools=[count, keep])
    session = Session("s1", store=store)
    for expected in ("1", "2"):
        async with talking([[call("count"), call("keep")], say("Ok.")], desk, session=session) as (
            server,
            live,
        ):
            await live.session.send_message("Hi")
            await live.until(lambda event: event.type == "agent_end" and len(outputs(server)) == 2)
        assert outputs(server)[0] == expected
        assert "is not JSON" in outputs(server)[1]
    assert (await session.row()).variables == {"visits": 2}
    kinds = [event.type for event in await session.events()]
    assert kinds.count("tool_call") == 4


async def test_text_runs_and_live_sessions_continue_each_other(
    store: Store, triage: RealtimeAgent[Any]
) -> None:
    session = Session("s1", store=store)
    written = Agent("triage", handoffs=[Agent("billing", handoffs=[]), Agent("sales")])
    model = ScriptedModel([transfer("billing"), say("Billing, in writing.")])
    await Runner.run(written, "Hi", session=session, run_config=RunConfig(model=model))
    back = realtime_handoff(triage, allow_return="always")
    triage.handoffs = [RealtimeAgent("billing", handoffs=[back])]
    async with talking([say("Billing, live.")], triage, session=session) as (server, live):
        assert live.session.agent.name == "billing"
        await live.session.update_agent(triage)
        await live.session.send_message("Hello")
        await live.until_said("Billing, live.")
    assert [frame["item"]["content"][0]["text"] for frame in server.frames if "item" in frame] == [
        "Hi",
        "Billing, in writing.",
        "Hello",
    ]
    model = ScriptedModel([transfer("sales"), say("Sales, in writing.")])
    result = await Runner.run(written, "Buy", session=session, run_config=RunConfig(model=model))
    assert result.final_output == "Sales, in writing."
    assert 'from: "billing"' in (model.calls[0].request.instructions or "")
    ids = [row["id"] for row in chain_of(await session.events()) if row["status"] == "completed"]
    assert ids == ["s1.h1", "s1.h2", "s1.h3"]


async def test_a_live_session_cannot_be_opened_twice(
    store: Store, triage: RealtimeAgent[Any]
) -> None:
    session = Session("s1", store=store)
    async with talking([], triage, session=session):
        with pytest.raises(SessionBusy):
            async with talking([], triage, session=session):
                pass
    async with talking([], triage, session=session):
        pass


async def test_a_foreign_or_unfinished_session_is_refused_and_released(
    store: Store, triage: RealtimeAgent[Any]
) -> None:
    await store.create(NewSession(id="foreign", agent="stranger"))
    await store.create(NewSession(id="open", agent="triage", status="waiting"))
    with pytest.raises(UnknownAgent, match="stranger"):
        async with talking([], triage, session=Session("foreign", store=store)):
            pass
    with pytest.raises(UserError, match="unfinished run"):
        async with talking([], triage, session=Session("open", store=store)):
            pass
    assert (await store.get("foreign")).owner is None
    assert (await store.get("open")).owner is None


async def test_a_session_that_was_taken_over_ends_and_writes_nothing_more() -> None:
    store = MemoryStore()
    session = Session("s1", store=store)
    desk = RealtimeAgent("desk", handoffs=[RealtimeAgent("other")])
    gone = asyncio.Event()

    async def wait(ctx: Any) -> None:
        await gone.wait()

    desk.handoffs = [realtime_handoff(RealtimeAgent("other"), on_handoff=wait)]
    async with talking([transfer("other")], desk, session=session) as (server, live):
        await live.session.send_message("Hi")
        await live.until_type("agent_end")
        store.advance(60)
        await store.claim("s1", owner="thief", lease_s=30)
        gone.set()
        with pytest.raises(LeaseLost):
            await live.rest()
        assert live.events[-1].code == "session.lease_lost"
        assert live.session.agent is desk
    assert server.kinds.count("session.update") == 1
    assert (await session.row()).owner == "thief"
    assert [event.type for event in await session.events()] == ["message"]


async def test_a_lost_lease_is_noticed_while_the_session_is_idle() -> None:
    store = MemoryStore()
    async with talking(
        [], RealtimeAgent("desk"), session=Session("s1", store=store), lease_s=0.03
    ) as (_, live):
        store.advance(1)
        await store.claim("s1", owner="thief", lease_s=30)
        with pytest.raises(LeaseLost):
            await live.rest()


async def test_a_lease_is_renewed_despite_a_brief_store_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    renewed = asyncio.Event()
    calls = 0
    renew = store.renew

    async def sometimes(claims: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise StoreUnavailable("just a moment")
        lost = await renew(claims)
        renewed.set()
        return lost

    monkeypatch.setattr(store, "renew", sometimes)
    session = Session("s1", store=store)
    async with talking([say("Hi.")], RealtimeAgent("desk"), session=session, lease_s=0.03) as (
        _,
        live,
    ):
        await renewed.wait()
        await live.session.send_message("Hello")
        await live.until_said("Hi.")
    assert "just a moment" in caplog.text


async def test_a_store_failure_ends_the_session_without_a_handoff(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    desk = RealtimeAgent("desk", handoffs=[RealtimeAgent("other")])

    async def full(claim: Any, commit: Any) -> None:
        raise StoreUnavailable("the disk is full")

    session = Session("s1", store=store)
    async with talking([transfer("other")], desk, session=session) as (server, live):
        await live.session.send_message("Hi")
        monkeypatch.setattr(store, "commit", full)
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await live.rest()
        assert live.session.agent is desk
        assert live.of("handoff") == []
    assert server.kinds.count("session.update") == 1
    assert (await session.row()).agent == "desk"
