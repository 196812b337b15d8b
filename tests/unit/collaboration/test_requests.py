"""Requests: one agent asks another to take work over."""

from __future__ import annotations

import pytest

from ekiden.core.errors import UserError
from ekiden.core.errors.collaboration import (
    AnsweredAlready,
    CollaborationNotFound,
    NotAParticipant,
    NotYourTurn,
    ProtocolError,
    TermsSuperseded,
)
from tests.unit.collaboration.offices import Office, path


async def test_an_acknowledged_request_is_agreed(office: Office) -> None:
    asked = await office["ann"].request_handoff(
        "bob", "count the boxes", {"by": "noon"}, context={"session_id": "s1"}
    )
    assert asked.phase == "negotiation"
    done = await office["bob"].acknowledge(asked.id)
    assert path(done) == ["discovery", "negotiation", "agreement"]
    assert done.agreed is not None
    assert done.agreed.terms.body == {"task": "count the boxes", "requirements": {"by": "noon"}}
    assert done.agreed.by == ("ann", "bob")
    assert done.context == {"session_id": "s1"}
    assert done.initiator == "ann"
    assert done.participants == ("ann", "bob")


async def test_the_target_finds_the_request_in_its_mailbox(office: Office) -> None:
    asked = await office["ann"].request_handoff("bob", "count the boxes")
    [message] = await office.mail("bob")
    assert (message.type, message.from_agent, message.to_agent) == ("request", "ann", "bob")
    assert message.payload["collaboration"] == asked.id
    assert message.ttl == pytest.approx(60)
    incoming = await office.collaborations.receive("bob", message)
    assert incoming.move == "request"
    await incoming.party.acknowledge(incoming.collaboration.id)
    [answer] = await office.mail("ann")
    assert (answer.type, answer.correlation_id) == ("acknowledge", message.id)


async def test_a_rejected_request_is_closed_with_its_reason(office: Office) -> None:
    asked = await office["ann"].request_handoff("bob", "count the boxes")
    done = await office["bob"].reject(asked.id, reason="no time")
    assert path(done) == ["discovery", "negotiation", "cancelled"]
    assert done.outcome is not None
    assert (done.outcome.status, done.outcome.by, done.outcome.reason) == (
        "rejected",
        "bob",
        "no time",
    )
    assert not done.outcome.ok
    assert done.completed_at is not None
    assert done.agreed is None


async def test_a_counter_proposal_to_a_request_starts_a_negotiation(office: Office) -> None:
    asked = await office["ann"].request_handoff("bob", "count the boxes")
    open_again = await office["bob"].reject(asked.id, reason="too many", counter={"boxes": 10})
    assert open_again.phase == "negotiation"
    assert open_again.terms is not None
    assert (open_again.terms.version, open_again.terms.by) == (2, "bob")
    assert open_again.accepted_by == ()
    [_, no] = (await office.mail("bob")) + (await office.mail("ann"))
    assert no.type == "reject"
    await office["ann"].accept(asked.id, 2)
    done = await office["bob"].accept(asked.id, 2)
    assert done.agreed is not None
    assert done.agreed.terms.body == {"boxes": 10}


async def test_a_countered_request_cannot_be_acknowledged(office: Office) -> None:
    asked = await office["ann"].request_handoff("bob", "count the boxes")
    await office["bob"].counter(asked.id, "fewer boxes")
    with pytest.raises(TermsSuperseded, match="version 2"):
        await office["bob"].acknowledge(asked.id)
    assert (await office["ann"].get(asked.id)).phase == "negotiation"


async def test_only_the_target_acknowledges(office: Office) -> None:
    asked = await office["ann"].request_handoff("bob", "count the boxes")
    with pytest.raises(NotAParticipant):
        await office["ann"].acknowledge(asked.id)
    with pytest.raises(NotAParticipant):
        await office["eve"].acknowledge(asked.id)
    assert await office.refusals() == ["collaboration.not_participant"] * 2
    proposed = await office["ann"].propose("bob", "other")
    with pytest.raises(NotAParticipant):
        await office["bob"].acknowledge(proposed.id)


async def test_a_request_is_not_answered_by_its_initiator(office: Office) -> None:
    asked = await office["ann"].request_handoff("bob", "count the boxes")
    with pytest.raises(NotYourTurn):
        await office["ann"].reject(asked.id)
    with pytest.raises(NotYourTurn):
        await office["ann"].counter(asked.id, "more boxes")
    with pytest.raises(AnsweredAlready):
        await office["ann"].accept(asked.id, 1)


async def test_an_answer_in_the_wrong_phase_is_refused_with_the_right_phases(
    office: Office,
) -> None:
    done = await office.agreed()
    with pytest.raises(ProtocolError, match="in phase 'agreement'.*would fit in negotiation") as e:
        await office["bob"].acknowledge(done.id)
    assert e.value.code == "collaboration.phase"
    assert e.value.fits == ("negotiation",)
    assert e.value.phase == "agreement"
    await office["bob"].cancel(done.id, reason="the boxes are gone")
    with pytest.raises(ProtocolError, match="cancelled by bob: 'the boxes are gone'") as e:
        await office["ann"].cancel(done.id)
    assert e.value.fits == ("discovery", "negotiation", "agreement", "execution")


@pytest.mark.parametrize(
    ("target", "task"),
    [
        ("ann", "x"),
        ("", "x"),
        (" ", "x"),
        (None, "x"),
        ("b\nb", "x"),
        ("b#1", "x"),
        ("\ud800", "x"),
        ("b" * 201, "x"),
        ("ekiden", "x"),
        ("bob", ""),
        ("bob", "  "),
        ("bob", 5),
    ],
)
async def test_an_invalid_handoff_request_is_refused(
    office: Office, target: str, task: str
) -> None:
    with pytest.raises(UserError):
        await office["ann"].request_handoff(target, task)
    assert await office.events() == []


@pytest.mark.parametrize("given", [{"context": {1, 2}}, {"context": [1]}, {"deadline_s": 0}])
async def test_invalid_options_of_a_request_are_refused(
    office: Office, given: dict[str, object]
) -> None:
    with pytest.raises(UserError):
        await office["ann"].request_handoff("bob", "x", **given)


@pytest.mark.parametrize("name", ["", "ekiden", None, "x\x00", "a#b"])
def test_an_invalid_agent_name_is_refused(office: Office, name: str) -> None:
    with pytest.raises(UserError):
        office.collaborations.as_agent(name)


@pytest.mark.parametrize("wrong", ["nope", "", "x" * 1000, "\ud800", "a/b", None, 7])
async def test_an_unknown_collaboration_is_refused(office: Office, wrong: str) -> None:
    with pytest.raises(CollaborationNotFound):
        await office["ann"].accept(wrong, 1)
    with pytest.raises(CollaborationNotFound):
        await office.collaborations.get(wrong)


async def test_a_repeated_call_with_one_idempotency_key_sends_once(office: Office) -> None:
    first = await office["ann"].request_handoff("bob", "count", key="call-1")
    again = await office["ann"].request_handoff("bob", "count", key="call-1")
    assert again == first
    done = await office["bob"].acknowledge(first.id, key="call-2")
    assert await office["bob"].acknowledge(first.id, key="call-2") == done
    assert len(await office.events()) == 2
    assert len(await office.mail("bob")) == 1
    assert len(await office.mail("ann")) == 1
    assert await office.refusals() == []


async def test_an_idempotency_key_belongs_to_its_collaboration(office: Office) -> None:
    for number in range(2):
        asked = await office["ann"].request_handoff("bob", "count", key=f"call-{number}")
        await office["bob"].acknowledge(asked.id, key="yes")
    assert len(await office.mail("ann")) == 2


async def test_every_move_is_an_event_without_a_session(office: Office) -> None:
    done = await office.agreed()
    request, yes = await office.events()
    assert (request.session_id, request.type, request.agent) == ("", "message", "ann")
    assert request.details == {
        "collaboration": done.id,
        "move": "request",
        "by": "ann",
        "phase": "negotiation",
        "message": done.messages[0].id,
        "to": ["bob"],
    }
    assert yes.details is not None
    assert (yes.details["move"], yes.details["phase"]) == ("acknowledge", "agreement")
