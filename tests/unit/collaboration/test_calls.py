"""Calls for bids: who can do it, how well, and who gets it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.bus import BusSettings
from ekiden.capabilities import CapabilityMatcher
from ekiden.collaboration import CollaborationSettings, capability_bid, matcher_bid
from ekiden.core.agent import Agent
from ekiden.core.errors import UserError
from ekiden.core.errors.collaboration import (
    AnsweredAlready,
    MessageMalformed,
    NotAParticipant,
    ProtocolError,
)
from ekiden.core.errors.messages import MailboxFull
from ekiden.core.profile import Capability
from ekiden.core.values import SYSTEM_CLOCK
from tests.unit.collaboration.offices import Office, path

ALL = ["bob", "cy", "dee"]


async def test_a_call_asks_all_participants_in_one_transaction(office: Office) -> None:
    called = await office["ann"].call(["sql"], task="a report", participants=ALL)
    assert path(called) == ["discovery"]
    assert called.unanswered == ("bob", "cy", "dee")
    assert called.terms is not None
    assert called.terms.body == {"required": ["sql"], "task": "a report"}
    for name in ALL:
        [message] = await office.mail(name)
        assert (message.type, message.to_agent) == ("broadcast", name)
        incoming = await office.collaborations.receive(name, message)
        assert incoming.move == "call"
    assert len(await office.events()) == 1


async def test_bids_are_ranked_and_the_initiator_awards(office: Office) -> None:
    called = await office["ann"].call(["sql"], participants=ALL, requirements={"by": "noon"})
    await office["bob"].bid(called.id, 0.5)
    await office["dee"].bid(called.id, 0.9, offer={"price": 3})
    found = await office["cy"].decline(called.id, reason="no time")
    assert [bid.agent for bid in found.ranked_bids] == ["dee", "bob"]
    assert (found.declined, found.unanswered) == (("cy",), ())
    done = await office["ann"].award(called.id, "dee")
    assert path(done) == ["discovery", "negotiation", "agreement"]
    assert done.partner == "dee"
    assert done.agreed is not None
    assert done.agreed.by == ("dee", "ann")
    assert done.agreed.terms.body == {
        "required": ["sql"],
        "task": "",
        "requirements": {"by": "noon"},
        "offer": {"price": 3},
    }


async def test_every_participant_is_notified_of_the_award(office: Office) -> None:
    called = await office["ann"].call(["sql"], participants=ALL)
    await office["bob"].bid(called.id, 0.5)
    await office["cy"].bid(called.id, 0.5)
    await office["ann"].award(called.id, "cy")
    for name in ALL:
        last = (await office.mail(name))[-1]
        incoming = await office.collaborations.receive(name, last)
        assert incoming.move == "award"
        assert incoming.message.body == {"bidder": "cy"}
        assert incoming.collaboration.partner == "cy"


async def test_the_earlier_of_equal_bids_ranks_first(office: Office) -> None:
    called = await office["ann"].call(["sql"], participants=ALL)
    for name in ("dee", "bob", "cy"):
        await office[name].bid(called.id, 0.5)
        office.store.advance(0.01)
    found = await office["ann"].get(called.id)
    assert [bid.agent for bid in found.ranked_bids] == ["dee", "bob", "cy"]


async def test_collecting_ends_when_all_participants_have_answered(office: Office) -> None:
    called = await office["ann"].call(["sql"], participants=["bob", "cy"], deadline_s=50)
    collecting = asyncio.ensure_future(office["ann"].collect(called.id))
    await office["bob"].bid(called.id, 1)
    await office["cy"].decline(called.id)
    found = await asyncio.wait_for(collecting, 60)
    assert [bid.agent for bid in found.ranked_bids] == ["bob"]


async def test_collecting_ends_at_the_deadline() -> None:
    office = Office(clock=SYSTEM_CLOCK)
    found = await office["ann"].query_capabilities(["sql"], participants=ALL, deadline_s=0.05)
    assert (found.phase, found.ranked_bids) == ("discovery", [])
    assert found.unanswered == tuple(ALL)


async def test_a_late_bid_is_stored_and_does_not_count(office: Office) -> None:
    called = await office["ann"].call(["sql"], participants=ALL, deadline_s=10)
    await office["bob"].bid(called.id, 0.5)
    office.store.advance(10.5)
    found = await office["cy"].bid(called.id, 1.0)
    assert [(bid.agent, bid.state) for bid in found.bids] == [("bob", "counts"), ("cy", "late")]
    assert [bid.agent for bid in found.ranked_bids] == ["bob"]
    with pytest.raises(NotAParticipant, match="a bidder whose bid counts"):
        await office["ann"].award(called.id, "cy")
    assert (await office["ann"].award(called.id, "bob")).phase == "agreement"


async def test_a_bid_after_the_award_is_refused(office: Office) -> None:
    called = await office["ann"].call(["sql"], participants=ALL)
    await office["bob"].bid(called.id, 0.5)
    await office["ann"].award(called.id, "bob")
    with pytest.raises(ProtocolError, match="would fit in discovery"):
        await office["cy"].bid(called.id, 1.0)
    with pytest.raises(ProtocolError):
        await office["ann"].award(called.id, "bob")


async def test_an_agent_bids_once_and_may_withdraw(office: Office) -> None:
    called = await office["ann"].call(["sql"], participants=ALL)
    await office["bob"].bid(called.id, 0.5)
    with pytest.raises(AnsweredAlready):
        await office["bob"].bid(called.id, 0.9)
    found = await office["bob"].decline(called.id)
    assert [(bid.agent, bid.state) for bid in found.bids] == [("bob", "withdrawn")]
    for attempt in (office["bob"].decline(called.id), office["bob"].bid(called.id, 1)):
        with pytest.raises(AnsweredAlready):
            await attempt
    with pytest.raises(NotAParticipant):
        await office["ann"].award(called.id, "bob")


async def test_only_participants_bid_and_only_the_initiator_awards(office: Office) -> None:
    called = await office["ann"].call(["sql"], participants=["bob", "cy"])
    await office["bob"].bid(called.id, 0.5)
    for attempt in (
        office["ann"].bid(called.id, 1),
        office["ann"].decline(called.id),
        office["dee"].bid(called.id, 1),
        office["bob"].award(called.id, "bob"),
        office["bob"].select(called.id, "bob"),
        office["ann"].award(called.id, "cy"),
        office["ann"].award(called.id, "dee"),
    ):
        with pytest.raises(NotAParticipant):
            await attempt
    assert (await office["ann"].get(called.id)).phase == "discovery"


async def test_only_the_initiator_cancels_a_call_and_all_are_notified(office: Office) -> None:
    called = await office["ann"].call(["sql"], participants=ALL)
    with pytest.raises(NotAParticipant, match="parties"):
        await office["bob"].cancel(called.id)
    await office["ann"].cancel(called.id)
    for name in ALL:
        assert [each.type for each in await office.mail(name)] == ["broadcast", "cancel"]


async def test_the_initiator_may_negotiate_with_a_bidder(office: Office) -> None:
    called = await office["ann"].call(["sql"], participants=ALL)
    await office["bob"].bid(called.id, 0.5, offer={"price": 9})
    chosen = await office["ann"].select(called.id, "bob", deadline_s=20)
    assert path(chosen) == ["discovery", "negotiation"]
    assert chosen.terms is not None
    assert (chosen.terms.version, chosen.terms.by) == (2, "bob")
    assert (chosen.accepted_by, chosen.agreed) == ((), None)
    await office["ann"].counter(called.id, {"price": 8})
    await office["bob"].accept(called.id, 3)
    done = await office["ann"].accept(called.id, 3)
    assert path(done) == ["discovery", "negotiation", "agreement"]
    with pytest.raises(NotAParticipant, match="parties"):
        await office["cy"].cancel(called.id)


async def test_the_deadline_of_a_negotiation_starts_with_it(office: Office) -> None:
    called = await office["ann"].call(["sql"], participants=ALL, deadline_s=10)
    await office["bob"].bid(called.id, 0.5)
    office.store.advance(100)
    await office["ann"].select(called.id, "bob", deadline_s=20)
    office.store.advance(19)
    assert (await office["ann"].get(called.id)).phase == "negotiation"
    office.store.advance(2)
    assert (await office["ann"].get(called.id)).phase == "expired"


async def test_a_call_without_an_award_expires(office: Office) -> None:
    called = await office["ann"].call(["sql"], participants=ALL, deadline_s=10)
    office.store.advance(3599)
    assert (await office["ann"].get(called.id)).phase == "discovery"
    office.store.advance(2)
    assert (await office["ann"].get(called.id)).phase == "expired"
    assert (await office.mail("dee"))[-1].type == "notify"


async def test_concurrent_bids_all_count() -> None:
    office = Office()
    names = [f"agent-{number}" for number in range(50)]
    called = await office["ann"].call(["sql"], participants=names)
    await asyncio.gather(*(office[name].bid(called.id, 0.5) for name in names))
    found = await office["ann"].get(called.id)
    assert sorted(bid.agent for bid in found.ranked_bids) == sorted(names)


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), float("inf"), True, "1", None])
async def test_a_score_outside_0_to_1_is_refused(office: Office, score: float) -> None:
    called = await office["ann"].call(["sql"], participants=ALL)
    with pytest.raises(UserError, match="score"):
        await office["bob"].bid(called.id, score)


@pytest.mark.parametrize("participants", [[], ["bob", "bob"], ["ann"], ["ekiden"], [""]])
async def test_invalid_participants_of_a_call_are_refused(
    office: Office, participants: list[str]
) -> None:
    with pytest.raises(UserError):
        await office["ann"].call(["sql"], participants=participants)


@pytest.mark.parametrize("required", ["sql", [""], [5]])
async def test_invalid_required_capabilities_are_refused(office: Office, required: Any) -> None:
    with pytest.raises(UserError):
        await office["ann"].call(required, participants=ALL)


async def test_too_many_participants_are_refused() -> None:
    office = Office(settings=CollaborationSettings(max_participants=3))
    with pytest.raises(MessageMalformed, match="4 participants are too many"):
        await office["ann"].call(["sql"], participants=ALL)
    assert await office.collaborations.list() == []


async def test_a_full_mailbox_refuses_the_move_and_nothing_changes() -> None:
    office = Office(bus_settings=BusSettings(mailbox_bound=2))
    first = await office["ann"].propose("cy", 1)
    await office["ann"].propose("cy", 2)
    with pytest.raises(MailboxFull, match="'cy' is full"):
        await office["ann"].call(["sql"], participants=ALL)
    assert await office.mail("bob") == []
    assert len(await office.events()) == 2
    done = await office["ann"].cancel(first.id)
    assert done.is_closed, "what closes a collaboration always gets through"


def worker(name: str, *skills: str, proficiency: float = 0.8) -> Agent[Any]:
    return Agent(
        name,
        capabilities=tuple(Capability(name=each, proficiency=proficiency) for each in skills),
    )


async def test_the_default_bid_is_made_from_capabilities(office: Office) -> None:
    called = await office["ann"].call(["sql", "charts"], participants=ALL)
    best = await capability_bid(worker("bob", "sql", "charts"))(called)
    assert best is not None
    assert best.score == pytest.approx(0.8)
    half = await capability_bid(worker("cy", "sql", proficiency=1))(called)
    assert half is not None
    assert (half.score, half.offer) == (0.5, {"missing": ["charts"]})
    assert await capability_bid(worker("dee", "cooking"))(called) is None


async def test_a_busy_agent_does_not_bid(office: Office) -> None:
    called = await office["ann"].call(["sql"], participants=ALL)
    matcher = CapabilityMatcher()
    matcher.register("bob", [Capability(name="sql")])
    bid = matcher_bid(matcher, "bob")
    assert await bid(called) is not None
    matcher.set_status("bob", available=False)
    assert await bid(called) is None
