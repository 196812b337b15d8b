"""People answer a conversation handed off to them; requests that no process took up yet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import text_of
from ekiden.core.errors import SessionNotFound, SessionNotWaiting, UserError
from ekiden.core.handoffs import Actor
from ekiden.core.runs import Done, Waiting
from ekiden.handoff import handoff, person
from ekiden.handoff.query import HandoffQuery, open_requests
from ekiden.handoff.records import records_of
from ekiden.handoff.requests import REQUESTS, Asked, document_of
from ekiden.inbox import Inbox
from ekiden.runtime import HandoffController, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.base import NewSession
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, fail, say

ANNA = Actor(kind="person", name="anna")


def desk(*steps: Any) -> Agent[Any]:
    """An agent that hands to people."""
    edge = handoff(person("support"), tool_name_override="ask_people")
    return Agent("triage", model=ScriptedModel(steps), handoffs=[edge])


async def waiting(triage: Agent[Any]) -> Session:
    """A session that waits for people."""
    session = Session("s", store=MemoryStore())
    result = await Runner.run(triage, "I want my money.", session=session)
    assert result.outcome == Waiting("person:support")
    return session


def asking() -> Any:
    return call("ask_people", reason="angry")


async def test_a_persons_answer_becomes_the_final_output() -> None:
    triage = desk(asking())
    session = await waiting(triage)
    controller = HandoffController(triage, session.store)
    result = await controller.answer("s", "我们退款给您。👋", by="anna")
    assert result.outcome == Done("我们退款给您。👋")
    assert result.last_agent.name == "person:support"
    assert text_of((await session.get_items())[-1]) == "我们退款给您。👋"
    said = [each for each in result.events if (each.details or {}).get("by")]
    assert said[-1].details is not None
    assert said[-1].details["by"] == ANNA.to_json()
    row = await session.row()
    assert (row.status, row.outcome, row.owner) == ("idle", "done", None)


async def test_a_person_can_return_the_conversation_and_the_agent_continues() -> None:
    triage = desk(asking(), say("You get it tomorrow."))
    session = await waiting(triage)
    controller = HandoffController(triage, session.store)
    result = await controller.answer("s", "Pay tomorrow.", by="anna", give_back=True)
    assert (result.final_output, result.last_agent.name) == ("You get it tomorrow.", "triage")
    records = records_of(await session.events())
    assert [(each.target, each.status) for each in records] == [
        ("person:support", "completed"),
        ("triage", "completed"),
    ]
    assert records[-1].by == ANNA


async def test_a_return_that_the_agent_fails_is_rolled_back_to_the_person() -> None:
    triage = desk(asking(), fail(ValueError("no paper")))
    session = await waiting(triage)
    controller = HandoffController(triage, session.store)
    result = await controller.answer("s", "Pay tomorrow.", by="anna", give_back=True)
    assert result.outcome == Waiting("person:support")
    last = records_of(await session.events())[-1]
    assert (last.status, last.code) == ("rolled_back", "TARGET_FAILED")


@pytest.mark.parametrize("give_back", [False, True])
async def test_a_persons_answer_survives_a_handoff_refused_in_the_meantime(
    give_back: bool,
) -> None:
    triage = desk(asking(), say("You get it tomorrow."))
    session = await waiting(triage)
    controller = HandoffController(triage, session.store)
    for to in ("person:support", "nobody"):
        refused = await controller.start("s", to=to, reason="again")
        assert refused.status == "failed"
    result = await controller.answer("s", "Pay tomorrow.", by="anna", give_back=give_back)
    assert result.final_output == ("You get it tomorrow." if give_back else "Pay tomorrow.")
    assert not (await Inbox(session.store).list()).items


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_answer_without_words_is_refused(text: str) -> None:
    triage = desk(asking())
    session = await waiting(triage)
    with pytest.raises(UserError, match="empty"):
        await HandoffController(triage, session.store).answer("s", text, by="anna")
    assert (await session.row()).status == "waiting"


async def test_a_session_that_an_agent_has_does_not_wait_for_a_person() -> None:
    triage = desk(say("Hello."))
    session = Session("s", store=MemoryStore())
    await Runner.run(triage, "hello", session=session)
    with pytest.raises(SessionNotWaiting, match="'triage' has it"):
        await HandoffController(triage, session.store).answer("s", "hello", by="anna")
    assert (await session.row()).owner is None


async def test_a_person_answers_once() -> None:
    triage = desk(asking())
    session = await waiting(triage)
    controller = HandoffController(triage, session.store)
    await controller.answer("s", "yes", by="anna")
    with pytest.raises(SessionNotWaiting, match="send it a message"):
        await controller.answer("s", "and yes", by="anna")
    assert (await session.row()).owner is None


async def test_a_session_that_does_not_exist_cannot_be_answered() -> None:
    with pytest.raises(SessionNotFound):
        await HandoffController(desk(), MemoryStore()).answer("none", "hello", by="anna")


async def test_a_conversation_that_was_not_handed_off_cannot_be_returned() -> None:
    people = person("support")
    session = Session("s", store=MemoryStore())
    result = await Runner.run(people, "hello", session=session)
    assert isinstance(result.outcome, Waiting)
    controller = HandoffController(people, session.store, run_config=RunConfig())
    with pytest.raises(UserError, match="cannot be returned"):
        await controller.answer("s", "hello", by="anna", give_back=True)
    row = await session.row()
    assert (row.status, row.owner) == ("waiting", None)


async def asked_for(store: MemoryStore, session_id: str, **fields: Any) -> None:
    asked = Asked(**{"to": "billing", "by": ANNA, **fields})
    await store.write_documents([document_of(session_id, asked)])


async def test_open_requests_are_listed_oldest_first() -> None:
    store = MemoryStore()
    await store.create(NewSession(id="s", agent="triage"))
    await store.create(NewSession(id="s2", agent="orders", meta={"task_id": "t"}))
    await asked_for(store, "s", id="hrq_2", asked_us=2_000_000, reason="急", policy="immediate")
    await asked_for(store, "s2", id="hrq_1", asked_us=1_000_000)
    await asked_for(store, "s", id="hrq_3", asked_us=3_000_000, state="cancelled")
    await asked_for(store, "s", id="hrq_4", asked_us=3_000_000, cancel="s.h1", to="")
    await asked_for(store, "gone", id="hrq_5")
    first, second, third = await open_requests(store)
    assert (first.id, first.session_id, first.source, first.target) == (
        "hrq_1", "s2", "orders", "billing",
    )  # fmt: skip
    assert (first.status, first.policy, first.settled_at) == ("initiated", "graceful", None)
    assert (second.id, second.reason, second.policy) == ("hrq_2", "急", "immediate")
    assert (second.started_at, second.by) == (2.0, ANNA)
    assert (third.id, third.status, third.code) == ("hrq_3", "failed", "CANCELLED")
    began = datetime.fromtimestamp(2, UTC)
    for query, expected in [
        (HandoffQuery(session_id="s"), ["hrq_2", "hrq_3"]),
        (HandoffQuery(task="t"), ["hrq_1"]),
        (HandoffQuery(since=began), ["hrq_2", "hrq_3"]),
        (HandoffQuery(until=began), ["hrq_1"]),
        (HandoffQuery(since=began + timedelta(seconds=2)), []),
        (HandoffQuery(source="triage", status="initiated"), ["hrq_2"]),
        (HandoffQuery(status="completed"), []),
    ]:
        assert [each.id for each in await open_requests(store, query)] == expected


async def test_more_open_requests_than_a_page_are_all_listed() -> None:
    store = MemoryStore()
    await store.create(NewSession(id="s", agent="triage"))
    for number in range(230):
        await asked_for(store, "s", id=f"hrq_{number}", asked_us=number)
    assert len(await store.list_documents(REQUESTS)) == 100
    assert [each.id for each in await open_requests(store)] == [f"hrq_{n}" for n in range(230)]
