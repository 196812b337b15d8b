"""What went along with a handoff: words, and the conversation before and after its filter."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Item, text_of
from ekiden.handoff import handoff, keep_last, remove_all_tools
from ekiden.handoff.records import read_handoff, read_handoffs, records_of
from ekiden.handoff.report import filter_report
from ekiden.handoff.views import HandoffViews, passed_data_of, read_views
from ekiden.runtime import HandoffController, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from ekiden.tools import function_tool
from tests.unit.audit import written


@function_tool
def weigh(what: str) -> str:
    """Weigh something."""
    return f"{what} weighs 7 kg"


async def ran(team: Agent[Any], *messages: str) -> Session:
    session = Session("s", store=MemoryStore())
    for message in messages:
        await Runner.run(team, message, session=session)
    return session


async def views(session: Session, number: int) -> HandoffViews:
    record = await read_handoff(session.store, f"s.h{number}")
    found = await read_views(session.store, record)
    assert found is not None
    return found


def told(items: Any) -> list[str]:
    """What items say, or what they are."""
    return [text_of(item) or str(item.get("type")) for item in items]


def scripted(name: str, *steps: Any, **fields: Any) -> Agent[Any]:
    return Agent(name, model=ScriptedModel(steps), **fields)


async def test_the_views_show_the_conversation_before_and_after_the_filter() -> None:
    orders = scripted("orders", say("Here it is."))
    edge = handoff(orders, input_filter=remove_all_tools)
    triage = scripted(
        "triage",
        call("weigh", what="box"),
        transfer("orders"),
        tools=[weigh],
        handoffs=[edge],
    )
    session = await ran(triage, "How heavy is my 箱子?")
    shown = await views(session, 1)
    assert told(shown.before) == [
        "How heavy is my 箱子?",
        "function_call",
        "function_call_output",
        "function_call",
        "function_call_output",
    ]
    assert told(shown.after) == ["How heavy is my 箱子?"]
    assert filter_report(shown.before, shown.after).counts["dropped"] == 4


async def test_the_view_before_starts_with_the_result_of_an_earlier_filter() -> None:
    last = scripted("last", say("Done."))
    middle = scripted(
        "middle", say("Let me see."), transfer("last"),
        handoffs=[handoff(last, input_filter=keep_last(1))],
    )  # fmt: skip
    first = scripted(
        "first", say("Hello."), transfer("middle"),
        handoffs=[handoff(middle, include_context=False)],
    )  # fmt: skip
    session = await ran(first, "one", "two", "three")
    assert told((await views(session, 1)).before)[:3] == ["one", "Hello.", "two"]
    seen = told((await views(session, 1)).after)
    assert seen[0] == "two"
    second = await views(session, 2)
    assert told(second.before)[: len(seen)] == seen
    assert told(second.before)[len(seen) : len(seen) + 2] == ["Let me see.", "three"]
    assert len(second.after) < len(second.before)


async def test_the_view_ignores_the_filter_of_a_rolled_back_handoff() -> None:
    good = scripted("good", say("Done."))
    bad = scripted("bad", fail(ValueError("no paper")))
    first = scripted(
        "first", say("Hello."), transfer("bad"), transfer("good"),
        handoffs=[
            handoff(bad, input_filter=keep_last(1)),
            handoff(good, input_filter=keep_last(1)),
        ],
    )  # fmt: skip
    session = await ran(first, "one", "two")
    assert [each.status for each in await read_handoffs(session.store, "s")] == [
        "rolled_back",
        "completed",
    ]
    assert told((await views(session, 2)).before)[:3] == ["one", "Hello.", "two"]


async def test_without_a_filter_or_a_transfer_no_views_are_stored() -> None:
    orders = scripted("orders", say("Here it is."))
    closed = Agent("closed", available=False)
    triage = scripted("triage", transfer("closed"), transfer("orders"), handoffs=[closed, orders])
    session = await ran(triage, "hello")
    records = await read_handoffs(session.store, "s")
    assert [each.is_made for each in records] == [False, True]
    assert [await read_views(session.store, each) for each in records] == [None, None]


async def words(session: Session) -> dict[str, Any]:
    events = await session.events()
    [record] = await read_handoffs(session.store, "s")
    return passed_data_of(events, record)


async def test_the_passed_data_of_a_model_handoff_comes_from_its_call() -> None:
    orders = scripted("orders", say("Here it is."))
    passed = {"reason": "一个包裹 📦", "summary": "found it", "context": "", "priority": 3}
    triage = scripted("triage", transfer("orders", **passed), handoffs=[orders])
    session = await ran(triage, "hello")
    assert await words(session) == {
        "reason": "一个包裹 📦",
        "summary": "found it",
        "priority": 3,
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("{", {"arguments": "{"}), ("[1]", {"arguments": [1]}), ("", {}), (None, {})],
)
def test_passed_data_that_is_not_an_object_is_shown_unchanged(
    arguments: str | None, expected: dict[str, Any]
) -> None:
    asked: Item = {"type": "function_call", "call_id": "c", "name": "t", "arguments": arguments}
    answer: Item = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    transfer_event = written.handoff("s", 2, *written.BEGINNING)
    transfer_event.items = (answer,)
    events = [written.event("s", 1, "llm_call", items=(asked,)), transfer_event]
    [record] = records_of(events)
    assert passed_data_of(events, record) == expected


async def test_the_reason_of_a_persons_handoff_is_recorded() -> None:
    orders = scripted("orders", say("Here it is."))
    triage = scripted("triage", say("Hello."), handoffs=[orders])
    session = await ran(triage, "hello")
    await HandoffController(triage, session.store).start("s", to="orders", reason="她很急")
    assert (await words(session))["reason"] == "她很急"
