"""Negotiations: proposals, counter-proposals, and agreement by both sides."""

from __future__ import annotations

import asyncio

import pytest

from ekiden.collaboration import CollaborationSettings
from ekiden.core.errors import UserError
from ekiden.core.errors.collaboration import (
    AnsweredAlready,
    NotAParticipant,
    NotYourTurn,
    ProtocolError,
    RoundsExhausted,
    TermsSuperseded,
)
from tests.unit.collaboration.offices import Office, path


async def test_terms_that_both_accept_become_the_agreement(office: Office) -> None:
    offer = await office["ann"].propose("bob", {"price": 90})
    await office["bob"].counter(offer.id, {"price": 80}, reason="too dear")
    last = await office["ann"].counter(offer.id, {"price": 85})
    assert last.terms is not None
    assert (last.terms.version, last.rounds, last.phase) == (3, 3, "negotiation")
    half = await office["bob"].accept(offer.id, 3)
    assert (half.phase, half.accepted_by, half.agreed) == ("negotiation", ("bob",), None)
    done = await office["ann"].accept(offer.id, last.terms.digest)
    assert path(done) == ["discovery", "negotiation", "agreement"]
    assert done.agreed is not None
    assert done.agreed.terms == last.terms
    assert done.agreed.by == ("bob", "ann")


async def test_a_proposal_does_not_accept_its_own_terms(office: Office) -> None:
    offer = await office["ann"].propose("bob", "ten boxes")
    half = await office["bob"].accept(offer.id, 1)
    assert half.phase == "negotiation"
    done = await office["ann"].accept(offer.id, 1)
    assert done.phase == "agreement"


async def test_one_participant_cannot_accept_for_both(office: Office) -> None:
    offer = await office["ann"].propose("bob", "ten boxes")
    await office["ann"].accept(offer.id, 1)
    with pytest.raises(AnsweredAlready):
        await office["ann"].accept(offer.id, 1)
    assert (await office["ann"].get(offer.id)).phase == "negotiation"


async def test_superseded_terms_cannot_be_accepted(office: Office) -> None:
    offer = await office["ann"].propose("bob", "ten boxes")
    assert offer.terms is not None
    await office["bob"].counter(offer.id, "nine boxes")
    for named in (1, offer.terms.digest, 3, 0, -1, True, "", "ten boxes"):
        with pytest.raises(TermsSuperseded, match="current terms are version 2"):
            await office["ann"].accept(offer.id, named)
    with pytest.raises(UserError, match="version or digest"):
        await office["ann"].accept(offer.id, None)


async def test_a_counter_proposal_revokes_acceptances(office: Office) -> None:
    offer = await office["ann"].propose("bob", "ten boxes")
    await office["ann"].accept(offer.id, 1)
    countered = await office["bob"].counter(offer.id, "nine boxes", answers=1)
    assert countered.accepted_by == ()
    half = await office["bob"].accept(offer.id, 2)
    assert half.phase == "negotiation"


async def test_of_a_concurrent_acceptance_and_counter_one_wins(office: Office) -> None:
    offer = await office["ann"].propose("bob", "ten boxes")
    await office["bob"].accept(offer.id, 1)
    results = await asyncio.gather(
        office["ann"].accept(offer.id, 1),
        office["bob"].counter(offer.id, "nine boxes"),
        office["ann"].cancel(offer.id),
        return_exceptions=True,
    )
    found = await office["ann"].get(offer.id)
    assert sum(isinstance(each, Exception) for each in results) in (1, 2)
    assert len(found.messages) == 2 + 3 - sum(isinstance(each, Exception) for each in results)


async def test_rounds_are_limited(office: Office) -> None:
    offer = await office["ann"].propose("bob", 1, max_rounds=3)
    await office["bob"].counter(offer.id, 2)
    last = await office["ann"].counter(offer.id, 3)
    with pytest.raises(RoundsExhausted, match="its 3 rounds"):
        await office["bob"].counter(offer.id, 4)
    with pytest.raises(RoundsExhausted):
        await office["bob"].reject(offer.id, counter=4)
    assert last.terms is not None
    await office["bob"].accept(offer.id, 3)
    assert (await office["ann"].accept(offer.id, 3)).phase == "agreement"


async def test_the_default_is_five_rounds() -> None:
    assert CollaborationSettings().max_rounds == 5


async def test_participants_take_turns(office: Office) -> None:
    offer = await office["ann"].propose("bob", "ten boxes")
    with pytest.raises(NotYourTurn, match="the other side"):
        await office["ann"].counter(offer.id, "eleven boxes")
    with pytest.raises(NotYourTurn):
        await office["ann"].reject(offer.id)


async def test_agents_outside_the_collaboration_are_refused(office: Office) -> None:
    offer = await office["ann"].propose("bob", "ten boxes")
    eve = office["eve"]
    for attempt in (
        eve.accept(offer.id, 1),
        eve.counter(offer.id, "mine"),
        eve.reject(offer.id),
        eve.cancel(offer.id),
        eve.get(offer.id),
        eve.bid(offer.id, 1.0),
        eve.award(offer.id, "bob"),
    ):
        with pytest.raises(NotAParticipant):
            await attempt
    assert await office["ann"].get(offer.id) == offer
    assert await office.refusals() == ["collaboration.not_participant"] * 6
    assert await eve.list() == []


@pytest.mark.parametrize("name", ["ann", "bob"])
async def test_either_participant_can_cancel(office: Office, name: str) -> None:
    offer = await office["ann"].propose("bob", "ten boxes")
    done = await office[name].cancel(offer.id, reason="changed my mind")
    assert path(done) == ["discovery", "negotiation", "cancelled"]
    assert done.outcome is not None
    assert (done.outcome.status, done.outcome.by) == ("cancelled", name)
    other = "bob" if name == "ann" else "ann"
    last = (await office.mail(other))[-1]
    assert (last.type, last.from_agent, last.to_agent) == ("cancel", name, other)


async def test_a_closed_collaboration_never_changes(office: Office) -> None:
    offer = await office["ann"].propose("bob", "ten boxes")
    done = await office["bob"].reject(offer.id)
    ann, bob = office["ann"], office["bob"]
    for attempt in (
        ann.accept(offer.id, 1),
        bob.accept(offer.id, 1),
        bob.counter(offer.id, 5),
        bob.reject(offer.id),
        ann.cancel(offer.id),
        bob.decline(offer.id),
    ):
        with pytest.raises(ProtocolError, match="cancelled"):
            await attempt
    assert await office.collaborations.get(offer.id) == done
    assert await office.timers() == []


async def test_a_negotiation_expires_at_its_deadline(office: Office) -> None:
    offer = await office["ann"].propose("bob", "ten boxes", deadline_s=20)
    [timer] = await office.timers()
    assert timer.endswith(f"/collaboration/{offer.id}")
    office.store.advance(19.5)
    assert (await office["bob"].accept(offer.id, 1)).phase == "negotiation"
    office.store.advance(0.6)
    with pytest.raises(ProtocolError, match="'expired'.*expired by ekiden"):
        await office["ann"].accept(offer.id, 1)
    found = await office["ann"].get(offer.id)
    assert path(found) == ["discovery", "negotiation", "expired"]
    assert found.outcome is not None
    assert (found.outcome.status, found.outcome.by) == ("expired", "ekiden")
    assert await office.timers() == []
    for name in ("ann", "bob"):
        last = (await office.mail(name))[-1]
        incoming = await office.collaborations.receive(name, last)
        assert (incoming.move, incoming.message.by) == ("expire", "ekiden")


async def test_an_expired_negotiation_is_shown_as_expired_before_its_timer(office: Office) -> None:
    offer = await office["ann"].propose("bob", "ten boxes", deadline_s=20)
    office.store.advance(21)
    [listed] = await office["bob"].list()
    assert (listed.id, listed.phase) == (offer.id, "expired")
    assert await office.collaborations.list(phases=["negotiation"]) == []


@pytest.mark.parametrize("terms", [None, {1, 2}, float("nan"), object()])
async def test_terms_that_are_empty_or_not_json_are_refused(office: Office, terms: object) -> None:
    with pytest.raises(UserError):
        await office["ann"].propose("bob", terms)
    assert await office.events() == []


@pytest.mark.parametrize("rounds", [0, -1, 1001, 2.5, "3"])
async def test_an_invalid_number_of_rounds_is_refused(office: Office, rounds: int) -> None:
    with pytest.raises(UserError):
        await office["ann"].propose("bob", "x", max_rounds=rounds)


@pytest.mark.parametrize("reason", ["x" * 2001, None, 5])
async def test_an_invalid_reason_is_refused(office: Office, reason: str) -> None:
    offer = await office["ann"].propose("bob", "x")
    with pytest.raises(UserError):
        await office["bob"].reject(offer.id, reason=reason)


async def test_terms_are_stored_unchanged(office: Office) -> None:
    terms = {"名前": "箱を数える 📦", "half": "\ud83d", "n": [1, 1.5, None, True], "": ""}
    offer = await office["ann"].propose("bob", terms)
    terms["n"] = "changed afterwards"
    assert offer.terms is not None
    found = await office["bob"].get(offer.id)
    assert found.terms is not None
    assert found.terms.body["n"] == [1, 1.5, None, True]
    assert found.terms.body["half"] == "\ud83d"
    await office["bob"].accept(offer.id, found.terms.digest)
    assert (await office["ann"].accept(offer.id, 1)).phase == "agreement"


@pytest.mark.parametrize(
    "given",
    [
        {"max_rounds": 0},
        {"bids_s": -1},
        {"lease_s": float("inf")},
        {"lifetime_s": "long"},
        {"max_participants": True},
    ],
)
def test_invalid_settings_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(UserError, match=next(iter(given))):
        CollaborationSettings(**given)
