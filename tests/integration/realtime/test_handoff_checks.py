"""Live handoffs are checked, approved and recorded as those of runs are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from ekiden import (
    Agent,
    Decline,
    GuardrailFunctionOutput,
    HandoffController,
    HandoffRefused,
    Inbox,
    MemoryStore,
    RunConfig,
    Runner,
    Session,
    handoff_guardrail,
)
from ekiden.audit import verify_audit
from ekiden.handoff.query import HandoffQuery, find_handoffs
from ekiden.integrations.realtime import RealtimeAgent, realtime_handoff
from ekiden.testing import ScriptedModel, delay, say, transfer
from tests.integration.realtime.conftest import outputs, talking


@handoff_guardrail
def no_cards(ctx: Any, agent: Any, request: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(tripwire_triggered="4111" in request.reason)


@dataclass
class Case:
    """A handoff from desk, which front handed to, that is refused."""

    code: str
    options: dict[str, Any] = field(default_factory=dict)
    target: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    to: str = "billing"


REFUSALS = {
    "condition": Case(
        "CONDITIONS_NOT_MET", options={"policy": "conditional", "condition": "vip == true"}
    ),
    "accepts": Case("DECLINED", target={"accepts": lambda ctx, request: Decline("closed")}),
    "availability": Case("AGENT_UNAVAILABLE", target={"available": False}),
    "capabilities": Case("CAPABILITY_MISSING", options={"capabilities": ["refunds"]}),
    "depth": Case("MAX_DEPTH_EXCEEDED", config={"max_handoffs": 1}),
    "cycle": Case("CIRCULAR_HANDOFF", to="front"),
    "guardrail": Case("GUARDRAIL", source={"handoff_guardrails": [no_cards]}),
    "guardrail of all": Case("GUARDRAIL", config={"handoff_guardrails": [no_cards]}),
    "nobody to approve": Case("NOT_APPROVED", options={"confirm": True}),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_live_handoff_is_refused_and_recorded_like_one_in_a_run(name: str) -> None:
    case = REFUSALS[name]
    front = RealtimeAgent("front")
    billing = RealtimeAgent("billing", **case.target)
    target = {"billing": billing, "front": front}[case.to]
    desk = RealtimeAgent("desk", handoffs=[realtime_handoff(target, **case.options)], **case.source)
    front.handoffs.append(desk)
    session = Session("s1", store=MemoryStore())
    steps = [transfer("desk"), transfer(case.to, reason="card 4111"), say("I stay.")]
    async with talking(steps, front, session=session, **case.config) as (server, live):
        await live.session.send_message("Hi")
        await live.until_said("I stay.")
        assert live.session.agent is desk
    assert outputs(server)[1].startswith(f"Error: the handoff to {case.to} was not made: ")
    refused, made = (await find_handoffs(session.store)).records
    assert (made.status, made.code) == ("completed", None)
    assert (refused.status, refused.code) == ("failed", case.code)
    assert [move.status for move in refused.moves] == ["initiated", "validating", "failed"]
    assert (await session.row()).agent == "desk"
    assert (await verify_audit(session.store)).ok


async def test_a_program_hands_off_only_along_declared_edges() -> None:
    stranger, billing = RealtimeAgent("stranger"), RealtimeAgent("billing")
    closed = realtime_handoff(billing, is_enabled=False)
    desk = RealtimeAgent("desk", handoffs=[closed])
    session = Session("s1", store=MemoryStore())
    async with talking([], desk, session=session) as (_, live):
        for target in (stranger, billing):
            with pytest.raises(HandoffRefused) as caught:
                await live.session.update_agent(target)
            assert caught.value.refusal == "PERMISSION_DENIED"
            assert live.session.agent is desk
    found = (await find_handoffs(session.store)).records
    assert [(each.target, each.code, each.by.kind) for each in found] == [
        ("billing", "PERMISSION_DENIED", "program"),
        ("stranger", "PERMISSION_DENIED", "program"),
    ]


@pytest.mark.parametrize("choice", ["approve", "reject"])
async def test_the_conversation_continues_while_a_handoff_waits_for_approval(
    choice: str,
) -> None:
    store = MemoryStore()
    billing = RealtimeAgent("billing")
    desk = RealtimeAgent("desk", handoffs=[realtime_handoff(billing, confirm=True)])
    session, inbox = Session("s1", store=store), Inbox(store)
    ask = transfer("billing", call_id="c1", reason="an invoice")
    steps = [ask, say("One moment."), say("Yes?"), say("Now.")]
    async with talking(steps, desk, session=session, approver="inbox") as (server, live):
        await live.session.send_message("My invoice?")
        await live.until_said("One moment.")
        [item] = (await inbox.list()).items
        assert (item.kind, item.from_agent, item.tool) == (
            "confirmation",
            "desk",
            "transfer_to_billing",
        )
        assert (await HandoffController(desk, store).get("s1.h1")).status == "validating"
        await live.session.send_message("Are you there?")
        await live.until_said("Yes?")
        assert live.session.agent is desk
        await inbox.answer(item.id, choice=choice, by="anna")
        await live.until_said("Now.")
        assert live.session.agent is (billing if choice == "approve" else desk)
    assert "a person must approve it first" in outputs(server)[0]
    [record] = (await find_handoffs(store)).records
    ended = ("completed", None) if choice == "approve" else ("failed", "NOT_APPROVED")
    assert (record.id, record.status, record.code, record.call_id) == ("s1.h1", *ended, "c1")
    items = await session.get_items()
    assert [each["type"] for each in items if each.get("call_id") == "c1"] == [
        "function_call",
        "function_call_output",
    ]
    kinds = [event.type for event in await session.events()]
    assert kinds.count("tool_confirmation") == 1
    assert (await verify_audit(store)).ok


async def test_a_turn_without_speech_does_not_restart_the_handoff_chain() -> None:
    gate = asyncio.Event()
    left = RealtimeAgent("left")
    right = RealtimeAgent("right", handoffs=[realtime_handoff(left, allow_return="always")])
    left.handoffs.append(right)
    steps = [transfer("right"), delay(gate, transfer("left")), say("Well.")]
    async with talking(steps, left, max_handoffs=1) as (server, live):
        await live.session.send_message("Hi")
        await live.until_type("handoff")
        await live.session.send_audio(b"\x00" * 100)
        gate.set()
        await live.until_said("Well.")
        assert live.session.agent is right
    assert "was not made" in outputs(server)[1]


@pytest.mark.parametrize("how", ["closed", "lost"])
async def test_ending_a_session_cancels_its_pending_approval(how: str) -> None:
    store = MemoryStore()
    desk = RealtimeAgent(
        "desk", handoffs=[realtime_handoff(RealtimeAgent("billing"), confirm=True)]
    )
    session, inbox = Session("s1", store=store), Inbox(store)
    steps = [transfer("billing"), say("One moment.")]
    async with talking(steps, desk, session=session, approver="inbox") as (_, live):
        await live.session.send_message("Hi")
        await live.until_said("One moment.")
        [item] = (await inbox.list()).items
        if how == "lost":
            store.advance(60)
            async with talking([], desk, session=session):
                pass
    assert (await inbox.get(item.id)).status == "cancelled"
    [record] = (await find_handoffs(store)).records
    assert (record.status, record.code) == ("failed", "CANCELLED")
    assert (await session.row()).status == "idle"


async def test_a_live_handoff_is_recorded_and_audited_like_one_in_a_run() -> None:
    store = MemoryStore()
    steps = [transfer("billing", reason="an invoice", call_id="c1"), say("Paid.")]
    spoken = Session("spoken", store=store, correlation_id="case-7")
    desk = RealtimeAgent("desk", handoffs=[RealtimeAgent("billing")])
    async with talking(steps, desk, session=spoken) as (_, live):
        await live.session.send_message("My invoice?")
        await live.until_said("Paid.")
    written = Session("written", store=store, correlation_id="case-7")
    config = RunConfig(model=ScriptedModel(steps))
    team = Agent("desk", handoffs=[Agent("billing")])
    await Runner.run(team, "My invoice?", session=written, run_config=config)
    found = (await find_handoffs(store, HandoffQuery(correlation_id="case-7"))).records
    first, second = (
        {
            **record.to_json(),
            "call": record.call_id,
            "moves": [move.status for move in record.moves],
            "hashes": len(record.hashes),
        }
        for record in found
    )
    for each in (first, second):
        for name in ("id", "session_id", "started_at", "settled_at"):
            del each[name]
    assert first == second
    assert first["moves"] == ["initiated", "validating", "transferring", "completed"]
    assert (await verify_audit(store)).ok
