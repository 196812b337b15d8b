"""The tools with which a model asks agents and people: white-listed, and marked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import UserError
from ekiden.core.runs import Waiting
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say
from tests.unit.runtime.asking.desks import open_items


async def sales(ctx: CodeContext[Any]) -> str:
    return f"{ctx.received['context']}: 42 cents"


async def hears(ctx: CodeContext[Any]) -> str:
    return "noted"


def desk(*steps: Any, **rights: Any) -> tuple[Team, ScriptedModel]:
    model = ScriptedModel(list(steps))
    agent = Agent("desk", model=model, **rights)
    return Team(agent, Agent("sales", run=sales), Agent("archive", run=hears)), model


def told(model: ScriptedModel) -> str:
    """What the model's last call gave."""
    return str(model.calls[-1].input[-1]["output"])


async def test_a_model_asks_an_agent_and_reads_the_answer_with_its_source() -> None:
    asked = call("ask_agent", agent="sales", subject="price", question="灯はいくら？")
    team, model = desk(asked, say("42"), can_ask=["sales"])
    result = await Runner.run(team, "how much?")
    assert result.final_output == "42"
    assert told(model) == "Answer of agent 'sales':\n灯はいくら？: 42 cents"
    [spec] = model.calls[0].tools
    assert spec.name == "ask_agent"
    assert spec.parameters["properties"]["agent"]["enum"] == ["sales"]


async def test_a_model_cannot_ask_an_agent_outside_can_ask() -> None:
    asked = call("ask_agent", agent="archive", subject="x", question="y")
    team, model = desk(asked, say("not then"), can_ask=["sales"])
    await Runner.run(team, "go")
    assert told(model) == "'archive' is not an allowed agent: choose sales"


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"agent": 7}, "7 is not an allowed agent: choose sales, archive"),
        ({"agent": "sales", "subject": 3, "question": "x"}, "`subject` must be text"),
        ({"agent": "sales", "subject": "", "question": "x"}, "a question needs a subject"),
        ({}, "None is not an allowed agent"),
    ],
)
async def test_invalid_arguments_of_an_ask_tool_are_reported_to_the_model(
    arguments: Any, wrong: str
) -> None:
    team, model = desk(call("ask_agent", **arguments), say("sorry"), can_ask=["sales", "archive"])
    assert (await Runner.run(team, "go")).final_output == "sorry"
    assert wrong in told(model)


async def test_a_model_sends_a_message_to_an_agent() -> None:
    tells = call("tell_agent", agent="archive", subject="order 7", message="is done")
    team, model = desk(tells, say("done"), can_tell=["archive"])
    store = MemoryStore()
    await Runner.run(team, "go", session=Session("s", store=store))
    assert told(model) == "archive is told."
    rows = {row.agent: row.outcome for row in (await store.list()).sessions}
    assert rows == {"desk": "done", "archive": "done"}


async def test_a_model_asks_a_person() -> None:
    asks = call(
        "ask_person", role="manager", subject="discount", question="15 %?", options=["yes", "no"]
    )
    team, model = desk(asks, say("granted"), can_ask_people=["manager"])
    store = MemoryStore()
    session = Session("s", store=store)
    result = await Runner.run(team, "go", session=session)
    assert result.outcome == Waiting("person:manager")
    [item] = await open_items(store)
    assert (item.subject, item.body, item.options) == ("discount", "15 %?", ("yes", "no"))
    waiting = asyncio.create_task(Runner.wait(team, session))
    await Inbox(store).answer(item.id, choice="yes", text="but once", by="mira")
    assert (await waiting).final_output == "granted"
    assert told(model) == '{"choice":"yes","text":"but once","by":"mira"}'


async def test_options_that_are_not_a_list_of_texts_are_refused() -> None:
    asks = call("ask_person", role="manager", subject="x", question="y", options="yes")
    team, model = desk(asks, say("sorry"), can_ask_people=["manager"])
    await Runner.run(team, "go", session=Session("s", store=MemoryStore()))
    assert "`options` is a list of texts" in told(model)


async def test_an_agent_without_can_ask_gets_no_ask_tool() -> None:
    team, model = desk(say("hi"))
    await Runner.run(team, "go")
    assert model.calls[0].tools == []


@pytest.mark.parametrize("wrong", ["sales", ["sales", ""], [7]])
def test_can_ask_must_be_a_list_of_names(wrong: Any) -> None:
    with pytest.raises(UserError, match="must be a list of names"):
        Agent("desk", can_ask=wrong)
