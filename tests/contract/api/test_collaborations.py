"""Agents that agree on work."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.client.ekiden import Ekiden
from ekiden.core.errors import EkidenError, UnknownAgent
from ekiden.core.errors.collaboration import CollaborationNotFound
from ekiden.core.errors.server import RequestInvalid


async def test_agents_negotiate_and_agree(ekiden: Ekiden) -> None:
    found = ekiden.collaborations
    offer = await found.propose(
        "triage", "orders", {"价格": 90}, context={"session_id": "s"}, deadline_s=60, max_rounds=3
    )
    assert (offer.phase, offer.initiator, offer.partner) == ("negotiation", "triage", "orders")
    assert (offer.context, offer.max_rounds) == ({"session_id": "s"}, 3)
    countered = await found.counter(offer.id, "orders", {"价格": 80}, version=1, reason="贵")
    assert countered.terms is not None
    assert (countered.terms.body, countered.terms.version) == ({"价格": 80}, 2)
    await found.accept(offer.id, "triage", 2)
    agreed = await found.accept(offer.id, "orders", 2)
    assert agreed.phase == "agreement"
    assert agreed.agreed is not None
    assert sorted(agreed.agreed.by) == ["orders", "triage"]
    assert await found.get(offer.id) == agreed
    assert [each.move for each in agreed.messages][:2] == ["propose", "counter"]


async def test_a_collaboration_request_is_accepted_rejected_or_cancelled(ekiden: Ekiden) -> None:
    found = ekiden.collaborations
    first, second, third = [
        await found.request("triage", "orders", "退款 1042", requirements={"by": 5})
        for _ in range(3)
    ]
    assert (await found.acknowledge(first.id, "orders")).phase == "agreement"
    refused = await found.reject(second.id, "orders", reason="没空")
    assert refused.outcome is not None
    assert refused.outcome.status == "rejected"
    gone = await found.cancel(third.id, "triage", reason="不用了")
    assert gone.outcome is not None
    assert (gone.phase, gone.outcome.reason) == ("cancelled", "不用了")
    assert gone.completed_at is not None


async def test_a_call_for_bids_is_awarded(ekiden: Ekiden) -> None:
    found = ekiden.collaborations
    called = await found.call("triage", ["退款"], participants=["billing", "orders"], task="x")
    await found.bid(called.id, "billing", 0.5, offer={"价格": 5})
    declined = await found.decline(called.id, "orders", reason="closed")
    assert (declined.declined, declined.bids[0].score) == (("orders",), 0.5)
    won = await found.award(called.id, "triage", "billing")
    assert (won.phase, won.partner) == ("agreement", "billing")
    everybody = await found.call("triage", ["退款"])
    names = {each.name async for each in ekiden.agents.list()}
    assert set(everybody.participants) == names
    await found.bid(everybody.id, "billing", 1)
    assert (await found.select(everybody.id, "triage", "billing")).phase == "negotiation"


async def test_collaborations_are_listed_by_agent_and_phase(ekiden: Ekiden) -> None:
    found = ekiden.collaborations
    ids = [(await found.propose("triage", name, 1)).id for name in ("billing", "orders", "desk")]
    await found.reject(ids[0], "billing")
    listed = [each async for each in found.list()]
    assert [each.id for each in listed] == sorted(ids)
    page = await found.list().page(limit=2)
    rest = await found.list().page(limit=2, cursor=page.next_cursor)
    assert ([*page.items, *rest.items], rest.next_cursor) == (listed, None)
    assert [each.partner async for each in found.list(agent="orders")] == ["orders"]
    some = [each.id async for each in found.list(phase=["negotiation", "agreement"])]
    assert sorted(some) == sorted(ids[1:])
    with pytest.raises(RequestInvalid):
        await found.list(phase=["so"]).page()  # type: ignore[list-item]


async def test_an_invalid_or_conflicting_request_is_refused(ekiden: Ekiden) -> None:
    found = ekiden.collaborations
    first = await found.propose("triage", "orders", 1, key="k1")
    assert await found.propose("triage", "orders", 1, key="k1") == first
    for going, code in (
        (found.counter(first.id, "triage", 1), "collaboration.turn"),
        (found.accept(first.id, "billing", 1), "collaboration.not_participant"),
        (found.accept(first.id, "orders", 7), "collaboration.superseded"),
        (found.bid(first.id, "orders", 1), "collaboration.phase"),
    ):
        with pytest.raises(EkidenError) as told:
            await going
        assert told.value.code == code
    with pytest.raises(UnknownAgent):
        await found.propose("ghost", "orders", 1)
    with pytest.raises(CollaborationNotFound):
        await found.get("none")
    with pytest.raises(CollaborationNotFound):
        await found.cancel("none", "triage")
    wrong: list[dict[str, Any]] = [
        {"agent": "", "target": "orders", "task": "x"},
        {"agent": "triage", "target": "a#b", "task": "x"},
        {"agent": "triage", "target": "orders", "task": " "},
        {"agent": "triage", "target": "orders", "task": "x", "deadline_s": 0},
        {"agent": "triage", "target": "orders", "task": "x", "key": "a\nb"},
    ]
    for given in wrong:
        with pytest.raises(RequestInvalid):
            await found.request(**given)
    with pytest.raises(RequestInvalid):
        await found.bid(first.id, "orders", 2)
    with pytest.raises(RequestInvalid):
        await found.reject(first.id, "orders", reason="x" * 2001)
    with pytest.raises(RequestInvalid):
        await found.call("triage", [])
