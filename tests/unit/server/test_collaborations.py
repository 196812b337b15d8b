"""`/collaborations` over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.server.counters import counter, done, without_workers
from tests.unit.server.desks import As, Served, problem


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Served]:
    """A server of a team that hands over."""
    async with without_workers(tmp_path) as found:
        yield found


async def begin(desk: Served, **fields: Any) -> Any:
    """A proposal of triage to a stranger."""
    body: dict[str, Any] = {"agent": "triage", "move": "propose", "target": "陌生人"}
    if fields.get("move", "propose") == "propose":
        body["terms"] = {"价格": 90}
    if fields.get("move") == "call":
        del body["target"]
    made = await desk("POST", "/collaborations", {**body, **fields})
    found = done(made, 201)
    assert made.headers["location"].endswith(found["id"])
    return found


async def move(desk: Served, found: Any, agent: str, name: str, **fields: Any) -> Any:
    """What comes of a move."""
    path = f"/collaborations/{found['id']}/moves"
    return await desk("POST", path, {"agent": agent, "move": name, **fields})


async def test_agents_negotiate_and_agree(desk: Served) -> None:
    offer = await begin(desk, context={"session_id": "s"}, deadline_s=60, max_rounds=3)
    assert (offer["phase"], offer["initiator"], offer["partner"]) == (
        "negotiation",
        "triage",
        "陌生人",
    )
    countered = done(await move(desk, offer, "陌生人", "counter", terms={"价格": 80}, version=1))
    assert countered["terms"]["body"] == {"价格": 80}
    done(await move(desk, offer, "triage", "accept", version=2))
    agreed = done(await move(desk, offer, "陌生人", "accept", version=2))
    assert (agreed["phase"], sorted(agreed["agreed"]["by"])) == ("agreement", ["triage", "陌生人"])
    assert await desk.get(f"/collaborations/{offer['id']}") == agreed
    assert (await desk.get("/messages?agent=陌生人"))["items"]


async def test_a_collaboration_request_is_accepted_rejected_or_cancelled(desk: Served) -> None:
    asked = {"move": "request", "task": "退款 1042", "requirements": {"by": 5}}
    taken = await begin(desk, **asked)
    assert done(await move(desk, taken, "陌生人", "acknowledge"))["phase"] == "agreement"
    refused = await begin(desk, **asked)
    told = done(await move(desk, refused, "陌生人", "reject", reason="没空"))
    assert told["outcome"]["status"] == "rejected"
    gone = await begin(desk, **asked)
    told = done(await move(desk, gone, "triage", "cancel", reason="不用了"))
    assert (told["phase"], told["outcome"]["reason"]) == ("cancelled", "不用了")


async def test_a_call_for_bids_is_awarded(desk: Served) -> None:
    asked = {"move": "call", "capabilities": ["退款"]}
    called = await begin(desk, **asked, participants=["billing", "陌生人", "closed"])
    done(await move(desk, called, "billing", "bid", score=0.5, offer={"价格": 5}))
    done(await move(desk, called, "陌生人", "bid", score=0.9))
    done(await move(desk, called, "closed", "decline", reason="closed"))
    won = done(await move(desk, called, "triage", "award", bidder="陌生人"))
    assert (won["phase"], won["partner"]) == ("agreement", "陌生人")
    everybody = await begin(desk, **asked)
    assert set(everybody["participants"]) == {
        each["name"] for each in (await desk.get("/agents"))["items"]
    }
    done(await move(desk, everybody, "billing", "bid", score=1))
    chosen = done(await move(desk, everybody, "triage", "select", bidder="billing"))
    assert chosen["phase"] == "negotiation"


async def test_a_move_that_does_not_fit_is_a_conflict_and_changes_nothing(desk: Served) -> None:
    offer = await begin(desk)
    for agent, name, fields, code in (
        ("triage", "counter", {"terms": 1}, "collaboration.turn"),
        ("billing", "accept", {"version": 1}, "collaboration.not_participant"),
        ("陌生人", "accept", {"version": 7}, "collaboration.superseded"),
        ("陌生人", "bid", {"score": 1}, "collaboration.phase"),
    ):
        problem(await move(desk, offer, agent, name, **fields), 409, code)
    assert await desk.get(f"/collaborations/{offer['id']}") == offer


async def test_an_invalid_move_is_refused(desk: Served) -> None:
    offer = await begin(desk)
    wrong: list[dict[str, Any]] = [
        {"move": "accept"},
        {"move": "bid"},
        {"move": "bid", "score": 2},
        {"move": "award"},
        {"move": "select"},
        {"move": "execute"},
        {"move": "reject", "reason": "x" * 2001},
    ]
    for fields in wrong:
        body = {"agent": "陌生人", **fields}
        problem(await desk("POST", f"/collaborations/{offer['id']}/moves", body), 422)
    openings: list[dict[str, Any]] = [
        {"move": "propose"},
        {"move": "request", "target": "billing"},
        {"move": "request", "target": "triage", "task": "x"},
        {"move": "call"},
        {"move": "call", "capabilities": ["x"], "participants": []},
        {"move": "propose", "target": "billing", "terms": "x" * 100_000},
        {"move": "propose", "target": "billing", "deadline_s": 0},
        {"move": "award"},
    ]
    for fields in openings:
        problem(await desk("POST", "/collaborations", {"agent": "triage", **fields}), 422)
    body = {"agent": "ghost", "move": "propose", "target": "billing", "terms": 1}
    problem(await desk("POST", "/collaborations", body), 404, "agent.unknown")
    problem(await desk("GET", "/collaborations/none"), 404, "collaboration.not_found")
    problem(await move(desk, {"id": "none"}, "triage", "cancel"), 404)
    for query in ("limit=0", "phase=x"):
        problem(await desk("GET", f"/collaborations?{query}"), 422)


async def test_collaborations_are_listed_by_agent_and_phase(desk: Served) -> None:
    ids = [(await begin(desk, target=name))["id"] for name in ("billing", "陌生人", "closed")]
    done(await move(desk, {"id": ids[0]}, "billing", "reject"))
    listed = (await desk.get("/collaborations"))["items"]
    assert [each["id"] for each in listed] == sorted(ids)
    assert await desk.pages("/collaborations", limit=1) == listed
    [one] = (await desk.get("/collaborations?agent=陌生人"))["items"]
    assert one["partner"] == "陌生人"
    found = await desk.get("/collaborations?phase=negotiation&phase=agreement")
    assert {each["id"] for each in found["items"]} == set(ids[1:])


async def test_a_repeated_key_creates_one_collaboration(desk: Served) -> None:
    first = await begin(desk, key="k1")
    assert await begin(desk, key="k1") == first
    assert len((await desk.get("/collaborations"))["items"]) == 1


async def test_acting_for_an_agent_needs_the_admin_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counter(tmp_path, monkeypatch, gate=As("read", "run", "answer")) as desk:
        body = {"agent": "triage", "move": "propose", "target": "billing", "terms": 1}
        problem(await desk("POST", "/collaborations", body), 403, "auth.scope")
        problem(await move(desk, {"id": "x"}, "triage", "cancel"), 403, "auth.scope")
        assert (await desk.get("/collaborations"))["items"] == []
