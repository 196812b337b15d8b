"""Senders cannot be forged, and what was said cannot be changed or said again."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from ekiden.collaboration import Collaborations, CollaborationSettings
from ekiden.collaboration.wire import KEY, KEYS
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.current_agent import acting_as
from ekiden.core.errors.collaboration import (
    CollaborationUnreadable,
    MessageExpired,
    MessageMalformed,
    MessageReplayed,
    NotAParticipant,
    ProtocolError,
    SignatureInvalid,
    TermsSuperseded,
)
from ekiden.core.errors.messages import SenderForged
from ekiden.storage.base import DocumentWrite
from tests.unit.collaboration.offices import Office


async def said(office: Office) -> tuple[str, AgentMessage]:
    """A proposal of ``ann`` to ``bob``, and the message with which ``bob`` accepted it."""
    offer = await office["ann"].propose("bob", {"price": 9})
    await office["bob"].accept(offer.id, 1)
    [message] = await office.mail("ann")
    return offer.id, message


def changed(message: AgentMessage, **fields: Any) -> AgentMessage:
    """The message with other fields; those of the payload, too."""
    new = deepcopy(message)
    for name, value in fields.items():
        if name in new.payload:
            new.payload[name] = value
        elif name in new.payload["body"]:
            new.payload["body"][name] = value
        else:
            new = replace(new, **{name: value})
    return new


@pytest.mark.parametrize(
    "fields",
    [
        {"from_agent": "ann"},
        {"from_agent": "eve"},
        {"from_agent": "ekiden"},
        {"to": "eve"},
        {"id": "msg_other"},
        {"collaboration": "col_other"},
        {"move": "acknowledge"},
        {"version": 2},
        {"digest": "0" * 64},
        {"correlation_id": "msg_other"},
        {"correlation_id": None},
        {"created_at": 1e9},
        {"ttl": 1e9},
        {"ttl": None},
        {"signature": "0" * 64},
    ],
)
async def test_a_tampered_message_is_refused_and_recorded(
    office: Office, fields: dict[str, Any]
) -> None:
    collaboration_id, message = await said(office)
    before = await office.collaborations.get(collaboration_id)
    tampered = changed(message, **fields)
    with pytest.raises(SignatureInvalid, match="forged"):
        await office.collaborations.submit(tampered)
    with pytest.raises(SignatureInvalid):
        await office.collaborations.receive("ann", tampered)
    assert await office.refusals() == ["collaboration.signature"] * 2
    assert await office.collaborations.get(collaboration_id) == before


async def test_a_replayed_message_is_refused(office: Office) -> None:
    collaboration_id, message = await said(office)
    before = await office.collaborations.get(collaboration_id)
    with pytest.raises(MessageReplayed):
        await office.collaborations.submit(message)
    [opening] = await office.mail("bob")
    with pytest.raises(MessageReplayed):
        await office.collaborations.submit(opening)
    assert await office.refusals() == ["collaboration.replayed"] * 2
    assert await office.collaborations.get(collaboration_id) == before


async def test_a_replayed_opening_of_a_removed_collaboration_is_refused(office: Office) -> None:
    """Its collaboration was cleaned up, and the opening was kept."""
    collaboration_id, _ = await said(office)
    [opening] = await office.mail("bob")
    await office["ann"].cancel(collaboration_id)
    office.store.advance(100)
    assert await office.collaborations.cleanup(older_than_s=50) == 1
    assert await office.collaborations.list() == []
    with pytest.raises(MessageExpired):
        await office.collaborations.submit(opening)
    assert await office.collaborations.list() == []


async def test_cleanup_keeps_collaborations_whose_messages_could_be_replayed(
    office: Office,
) -> None:
    collaboration_id, _ = await said(office)
    [opening] = await office.mail("bob")
    await office["ann"].cancel(collaboration_id)
    assert await office.collaborations.cleanup(older_than_s=0) == 0
    with pytest.raises(MessageReplayed):
        await office.collaborations.submit(opening)


async def test_a_message_signed_by_another_store_is_refused(office: Office) -> None:
    elsewhere = Office()
    await elsewhere["ann"].propose("bob", "x")
    [message] = await elsewhere.mail("bob")
    with pytest.raises(SignatureInvalid):
        await office.collaborations.submit(message)


async def test_a_signed_message_may_be_submitted_by_another_way(office: Office) -> None:
    """The gate is one: what a handle would let in, `submit` lets in."""
    offer = await office["ann"].propose("bob", "x")
    drafts = office.drafts("bob")
    body = {"version": 1, "digest": offer.terms.digest}
    message = await drafts.answer(offer, "accept", body, answers=offer.messages[0].id)
    found = await office.collaborations.submit(AgentMessage.from_json(message.to_json()))
    assert found.accepted_by == ("bob",)


async def test_an_expired_message_is_refused(office: Office) -> None:
    offer = await office["ann"].propose("bob", "x", deadline_s=50)
    body = {"version": 1, "digest": offer.terms.digest}
    message = await office.drafts("bob").answer(offer, "accept", body, answers=offer.messages[0].id)
    short = await office.signed(message, ttl=5.0)
    office.store.advance(6)
    with pytest.raises(MessageExpired, match="time limit of 5 s"):
        await office.collaborations.submit(short)
    assert await office.refusals() == ["collaboration.message_expired"]


async def test_an_acceptance_of_superseded_terms_is_refused(
    office: Office,
) -> None:
    offer = await office["ann"].propose("bob", "x")
    body = {"version": 1, "digest": offer.terms.digest}
    message = await office.drafts("ann").answer(offer, "accept", body, answers=offer.messages[0].id)
    countered = await office["bob"].counter(offer.id, "y")
    await office["bob"].accept(offer.id, 2)
    with pytest.raises(TermsSuperseded):
        await office.collaborations.submit(message)
    for changes in ({"version": 2}, {"digest": countered.terms.digest}):
        mixed = await office.signed(message, body={**body, **changes})
        with pytest.raises(TermsSuperseded):
            await office.collaborations.submit(mixed)
    assert (await office["ann"].get(offer.id)).agreed is None


async def test_an_answer_must_name_a_message_of_its_collaboration(office: Office) -> None:
    offer = await office["ann"].propose("bob", "x")
    body = {"version": 1, "digest": offer.terms.digest}
    other = await office["ann"].propose("bob", "y")
    message = await office.drafts("bob").answer(offer, "accept", body, answers=other.messages[0].id)
    with pytest.raises(MessageMalformed, match="answers message"):
        await office.collaborations.submit(message)
    cancel = await office.drafts("bob").answer(
        offer, "cancel", {"reason": ""}, answers=other.messages[0].id
    )
    with pytest.raises(MessageMalformed, match="answers a message of its collaboration"):
        await office.collaborations.submit(cancel)


async def test_the_code_of_an_agent_acts_only_in_its_own_name(office: Office) -> None:
    offer = await office["ann"].propose("bob", "x")
    bob, ann = office["bob"], office["ann"]
    with acting_as("ann"):
        with pytest.raises(SenderForged, match="'ann' cannot send or answer in the name of 'bob'"):
            office.collaborations.as_agent("bob")
        with pytest.raises(SenderForged):
            await bob.accept(offer.id, 1)
        with pytest.raises(SenderForged):
            await bob.propose("cy", "x")
        for reading in (bob.get(offer.id), bob.list(), bob.wait_for(offer.id)):
            with pytest.raises(SenderForged):
                await reading
        assert (await ann.accept(offer.id, 1)).accepted_by == ("ann",)
    assert await office.refusals() == ["bus.sender_forged"] * 2
    assert [each["by"] for each in await office.told() if each["move"] == "refused"] == [
        "ann",
        "ann",
    ]


async def test_only_the_addressee_of_a_message_can_receive_it(office: Office) -> None:
    _, message = await said(office)
    with pytest.raises(NotAParticipant):
        await office.collaborations.receive("eve", message)
    with pytest.raises(NotAParticipant):
        await office.collaborations.receive("eve", replace(message, to_agent="eve"))
    called = await office["ann"].call(["sql"], participants=["bob", "cy"])
    copy = (await office.mail("cy"))[0]
    for_eve = replace(copy, to_agent="eve")
    with pytest.raises(NotAParticipant):
        await office.collaborations.receive("eve", for_eve)
    with pytest.raises(MessageReplayed):
        await office.collaborations.receive("bob", replace(copy, to_agent="bob"))
    assert called.phase == "discovery"


async def test_an_answered_message_is_not_received_again(office: Office) -> None:
    offer = await office["ann"].propose("bob", "x")
    [message] = await office.mail("bob")
    assert not (await office.collaborations.receive("bob", message)).is_answered
    await office["bob"].accept(offer.id, 1)
    again = await office.collaborations.receive("bob", replace(message, redelivered=True))
    assert again.is_answered
    with pytest.raises(MessageReplayed):
        await office.collaborations.receive("bob", message)


async def test_an_expired_message_is_not_received(office: Office) -> None:
    await office["ann"].propose("bob", "x", deadline_s=5)
    [message] = await office.mail("bob")
    office.store.advance(6)
    with pytest.raises(MessageExpired):
        await office.collaborations.receive("bob", message)


async def test_a_second_opening_of_an_existing_collaboration_is_refused(office: Office) -> None:
    first = await office["ann"].propose("bob", "x", key="k")
    other = await office.drafts("ann").opening(
        "request", terms="y", others=["bob"], context=None, deadline_s=5, key="k"
    )
    assert other.payload["collaboration"] == first.id
    with pytest.raises(ProtocolError, match="only as the start of a new one"):
        await office.collaborations.submit(other)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"participants": ["bob", "ann"]}, "first participant"),
        ({"participants": ["ann", "bob", "cy"]}, "exactly one other participant"),
        ({"participants": ["ann", "cy"]}, "exactly one other participant"),
        ({"expires_us": 5}, "deadline"),
    ],
)
async def test_a_contradictory_opening_is_refused(
    office: Office, body: dict[str, Any], problem: str
) -> None:
    draft = await office.drafts("ann").opening(
        "propose", terms="y", others=["bob"], context=None, deadline_s=5
    )
    draft.payload["body"]["opening"].update(body)
    signed = await office.signed(draft)
    with pytest.raises(MessageMalformed, match=problem):
        await office.collaborations.submit(signed)


async def test_two_processes_share_one_signing_key(office: Office) -> None:
    other = Collaborations(office.bus, settings=CollaborationSettings())
    offer = await other.as_agent("ann").propose("bob", "x")
    key = await office.store.get_document(KEYS, KEY)
    assert key is not None
    assert key.version == 1
    assert len(bytes.fromhex(key.body["hmac_sha256"])) == 32
    [message] = await office.mail("bob")
    incoming = await office.collaborations.receive("bob", message)
    assert incoming.collaboration.id == offer.id


async def test_of_two_concurrent_key_creations_both_use_the_first(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office["ann"].propose("bob", "x")
    look = office.store.get_document
    seen: list[str] = []

    async def early(collection: str, key: str) -> Any:
        seen.append(key)
        return None if len(seen) == 1 else await look(collection, key)

    monkeypatch.setattr(office.store, "get_document", early)
    other = Collaborations(office.bus)
    [message] = await office.mail("bob")
    assert (await other.receive("bob", message)).move == "propose"


async def test_a_message_in_the_name_of_the_system_is_refused(office: Office) -> None:
    offer = await office["ann"].propose("bob", "x")
    draft = await office.drafts("ann").answer(offer, "cancel", {"reason": ""}, answers="msg_1")
    forged = await office.signed(draft, move="expire", type="notify", body={})
    with pytest.raises(NotAParticipant):
        await office.collaborations.submit(forged)
    system = await office.signed(draft, by="ekiden")
    with pytest.raises(NotAParticipant):
        await office.collaborations.submit(system)
    assert await office.collaborations.get(offer.id) == offer


async def test_the_signing_key_appears_in_no_event_or_message(office: Office) -> None:
    await said(office)
    key = await office.store.get_document(KEYS, KEY)
    assert key is not None
    secret = key.body["hmac_sha256"]
    shown = repr([await office.told(), await office.mail("ann"), await office.mail("bob")])
    assert secret not in shown


@pytest.mark.parametrize("body", [None, {}, {"hmac_sha256": "xyz"}, {"hmac_sha256": "00"}, [1]])
async def test_a_damaged_signing_key_is_an_error_and_not_replaced(
    office: Office, body: Any
) -> None:
    if body is None:
        body = {"hmac_sha256": None}
    write = DocumentWrite(collection=KEYS, key=KEY, body=body)
    await office.store.write_documents([write])
    with pytest.raises(CollaborationUnreadable, match="key"):
        await office["ann"].propose("bob", "x")
