"""Agents that are served on the bus take part in collaborations."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ekiden.collaboration import Collaboration, Incoming, Offer
from ekiden.core.agent import Agent
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.errors import UserError
from ekiden.core.errors.collaboration import MessageReplayed
from ekiden.core.profile import Capability
from ekiden.core.values import SYSTEM_CLOCK
from tests.unit.collaboration.offices import Office, Recorder


def worker(name: str, proficiency: float) -> Agent[Any]:
    skills = (Capability(name="sql", proficiency=proficiency),)
    return Agent(name, capabilities=skills)


async def test_serving_agents_bid_and_the_best_bid_gets_the_award() -> None:
    office = Office(executor=Recorder(), clock=SYSTEM_CLOCK)
    handler = office.collaborations.handler
    told: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def note(name: str) -> Any:
        async def respond(incoming: Incoming) -> None:
            await told.put((name, incoming.move))

        return respond

    async with (
        asyncio.timeout(60),
        office.bus as bus,
        bus.serve("bob", handler(worker("bob", 0.7), note("bob"))),
        bus.serve("cy", handler(worker("cy", 0.9), note("cy"))),
        bus.serve("dee", handler(worker("dee", 0.1), note("dee"))),
    ):
        found = await office["ann"].query_capabilities(["sql"], deadline_s=15)
        assert found.participants == ("ann", "bob", "cy", "dee")
        assert [(bid.agent, bid.score) for bid in found.ranked_bids] == [("cy", 0.9), ("bob", 0.7)]
        assert found.declined == ("dee",)
        agreed = await office["ann"].award(found.id, found.ranked_bids[0].agent)
        assert agreed.phase == "agreement"
        heard = {await told.get() for _ in range(3)}
        assert heard == {("bob", "award"), ("cy", "award"), ("dee", "award")}


async def test_a_negotiation_over_the_bus_ends_in_an_agreement() -> None:
    office = Office(clock=SYSTEM_CLOCK)

    async def haggle(incoming: Incoming) -> None:
        found, party = incoming.collaboration, incoming.party
        terms = found.terms
        assert terms is not None
        if terms.by == party.name:
            return
        if terms.body < 80:
            await party.counter(found.id, terms.body + 10)
        elif party.name not in found.accepted_by:
            await party.accept(found.id, terms.version)

    async def insist(incoming: Incoming) -> None:
        found, party = incoming.collaboration, incoming.party
        terms = found.terms
        assert terms is not None
        if incoming.move == "counter":
            await party.counter(found.id, terms.body + 20)
        elif incoming.move == "accept":
            await party.accept(found.id, terms.version)

    handler = office.collaborations.handler
    async with (
        asyncio.timeout(60),
        office.bus as bus,
        bus.serve("ann", handler("ann", insist)),
        bus.serve("bob", handler("bob", haggle)),
    ):
        offer = await office["ann"].propose("bob", 60)
        done = await office["ann"].wait_for(offer.id, lambda each: each.agreed is not None)
        assert done.agreed is not None
        assert (done.agreed.terms.body, done.agreed.by) == (90, ("bob", "ann"))


async def test_an_agent_may_bid_with_a_custom_function() -> None:
    office = Office(clock=SYSTEM_CLOCK)

    async def bid(call: Collaboration) -> Offer | None:
        assert call.terms is not None
        return Offer(score=0.6, offer={"for": call.terms.body["task"]})

    handler = office.collaborations.handler("bob", bid=bid)
    async with asyncio.timeout(60), office.bus as bus, bus.serve("bob", handler):
        found = await office["ann"].query_capabilities(["sql"], task="report", deadline_s=15)
    assert [each.offer for each in found.ranked_bids] == [{"for": "report"}]


async def test_a_call_without_participants_and_matcher_is_refused() -> None:
    office = Office()
    with pytest.raises(UserError, match="name the `participants`"):
        await office["ann"].call(["sql"])


async def test_messages_of_other_kinds_are_passed_on(office: Office) -> None:
    message = AgentMessage(type="query", from_agent="ann", to_agent="bob", payload={"x": 1})

    async def otherwise(message: AgentMessage) -> Any:
        return {"seen": message.payload}

    handle = office.collaborations.handler("bob", otherwise=otherwise)
    assert await handle(message) == {"seen": {"x": 1}}
    with pytest.raises(UserError, match="collaborations only"):
        await office.collaborations.handler("bob")(message)


async def test_a_forged_message_is_dropped_and_recorded(office: Office) -> None:
    heard: list[Incoming] = []

    async def respond(incoming: Incoming) -> None:
        heard.append(incoming)

    offer = await office["ann"].propose("bob", "x")
    [message] = await office.mail("bob")
    handle = office.collaborations.handler("bob", respond)
    assert await handle(replace(message, from_agent="eve")) is None
    assert (heard, await office.refusals()) == ([], ["collaboration.signature"])
    await handle(message)
    assert [each.collaboration.id for each in heard] == [offer.id]


async def test_a_redelivered_message_is_answered_once(office: Office) -> None:
    async def respond(incoming: Incoming) -> None:
        await incoming.party.accept(incoming.collaboration.id, 1)

    await office["ann"].propose("bob", "x")
    [message] = await office.mail("bob")
    handle = office.collaborations.handler("bob", respond)
    await handle(message)
    await handle(replace(message, redelivered=True))
    assert await office.refusals() == []
    assert len(await office.mail("ann")) == 1
    await handle(message)
    assert await office.refusals() == [MessageReplayed.code]


async def test_a_late_answer_is_dropped(office: Office) -> None:
    async def respond(incoming: Incoming) -> None:
        await office["ann"].cancel(incoming.collaboration.id)
        await incoming.party.accept(incoming.collaboration.id, 1)

    offer = await office["ann"].propose("bob", "x")
    [message] = await office.mail("bob")
    assert await office.collaborations.handler("bob", respond)(message) is None
    assert (await office["bob"].get(offer.id)).phase == "cancelled"


async def test_an_exception_of_a_responder_reaches_the_bus(office: Office) -> None:
    async def respond(incoming: Incoming) -> None:
        raise ValueError("out of paper")

    await office["ann"].propose("bob", "x")
    [message] = await office.mail("bob")
    with pytest.raises(ValueError, match="out of paper"):
        await office.collaborations.handler("bob", respond)(message)


async def test_a_message_about_a_removed_collaboration_is_dropped(office: Office) -> None:
    offer = await office["ann"].propose("bob", "x")
    await office["ann"].cancel(offer.id)
    messages = await office.mail("bob")
    office.store.advance(200)
    assert await office.collaborations.cleanup(older_than_s=100) == 1
    handle = office.collaborations.handler("bob")
    for message in messages:
        assert await handle(message) is None


async def test_a_handler_without_a_responder_drops_the_message(office: Office) -> None:
    await office["ann"].propose("bob", "x")
    [message] = await office.mail("bob")
    assert await office.collaborations.handler("bob")(message) is None
