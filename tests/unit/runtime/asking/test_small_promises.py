"""Small promises about asking that the documentation makes."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.handoff import handoff, person
from ekiden.inbox import Inbox, InboxQuery
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, say, transfer
from tests.unit.runtime.asking.desks import open_items, team_of


async def test_a_failed_step_sends_no_messages() -> None:
    async def teller(ctx: CodeContext[Any]) -> str:
        await ctx.tell("archive", "it is done")
        await ctx.tell("elsewhere", "it is done")
        raise ConnectionError("it is not")

    async def archive(ctx: CodeContext[Any]) -> str:
        raise AssertionError("it was told")

    store = MemoryStore()
    with pytest.raises(ConnectionError):
        await Runner.run(
            team_of(teller=teller, archive=archive), "go", session=Session("s", store=store)
        )
    assert [row.id for row in (await store.list()).sessions] == ["s"]
    assert list(await store.find_messages()) == []


async def test_a_handoff_waits_in_the_inbox_for_approval() -> None:
    store, config = MemoryStore(), RunConfig(approver="inbox")
    session = Session("s", store=store)
    model = ScriptedModel([transfer("billing", reason="a refund"), say("billing here")])
    edge = handoff(Agent("billing", model=model), confirm=True)
    team = Team(Agent("desk", model=model, handoffs=[edge]))
    await Runner.run(team, "go", session=session, run_config=config)
    [item] = await open_items(store)
    assert (item.kind, item.tool) == ("confirmation", "transfer_to_billing")
    await Inbox(store).answer(item.id, choice="approve", by="mira")
    result = await Runner.wait(team, session, run_config=config)
    assert (result.final_output, result.chain) == ("billing here", ["user", "desk", "billing"])


async def test_a_second_message_to_people_replaces_the_open_item() -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    model = ScriptedModel([transfer("person:support", reason="broken")])
    team = Team(Agent("desk", model=model, handoffs=[person("support")]))
    for text in ("mine is broken", "hello?"):
        await Runner.run(team, text, session=session)
    [item] = await open_items(store)
    assert item.body == "hello?"
    [before] = (await Inbox(store).list(InboxQuery(status="cancelled"))).items
    assert before.body == "mine is broken"
    await Inbox(store).answer(item.id, choice="answer", text="here I am", by="mira")
    assert (await Runner.wait(team, session)).final_output == "here I am"
