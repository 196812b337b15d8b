"""`/sessions/{id}/handoffs`: who handed a session on, and what was shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.api.handoffs import HandoffView
from ekiden.core.agent import Agent, Team
from ekiden.core.documents import from_json
from ekiden.handoff import handoff, keep_last
from ekiden.runtime import RunConfig, Runner
from ekiden.sessions import Session
from ekiden.testing import ScriptedModel, say, transfer
from tests.unit.server.counters import counter, done, task, without_workers
from tests.unit.server.desks import Served, problem, serving

NOTHING = {"kept": 0, "summarised": 0, "dropped": 0, "entries": [], "more": 0}


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server of a team that hands over."""
    async with counter(tmp_path, monkeypatch) as found:
        yield found


async def handoffs(desk: Served, session: str) -> list[Any]:
    """All of them, each as the description has it."""
    found = await desk.pages(f"/sessions/{session}/handoffs", limit=1)
    for each in found:
        from_json(HandoffView, each)
    return found


async def test_a_handoff_is_listed_with_its_view(desk: Served) -> None:
    await desk("POST", "/handoff/initiate", task())
    [only] = await handoffs(desk, "ticket-7")
    shown = await desk.get("/handoff/ticket-7.h1")
    assert {name: only[name] for name in ("id", "source", "target", "reason", "moves", "by")} == {
        name: shown[name] for name in ("id", "source", "target", "reason", "moves", "by")
    }
    assert only["status"] == "completed"
    assert only["duration_ms"] >= 0
    assert (only["summary"], only["rewound"]) == (None, False)
    [entry] = only["view"]["entries"]
    assert entry == {
        "text": "我要退款 👋",
        "role": "user",
        "agent": None,
        "fate": "kept",
        "changed": False,
        "seq": 2,
    }
    [light] = (await desk.get("/sessions/ticket-7/handoffs?views=false"))["items"]
    assert light == {**only, "view": None}
    from_json(HandoffView, light)


async def test_refused_and_rolled_back_handoffs_are_listed_in_order(desk: Served) -> None:
    await desk("POST", "/handoff/initiate", task("t", target_agent_id="closed"))
    body = {"to": "broken", "reason": "second", "summary": "two tries: 第二"}
    await desk("POST", "/sessions/t/handoff", body)
    refused, undone = await handoffs(desk, "t")
    assert (refused["status"], refused["code"]) == ("failed", "AGENT_UNAVAILABLE")
    assert refused["view"] == NOTHING
    assert (undone["status"], undone["code"]) == ("rolled_back", "TARGET_FAILED")
    assert undone["error"]
    assert undone["summary"] == "two tries: 第二"
    assert undone["view"]["kept"] == 0  # What a refused handoff brings is not kept.


async def test_requested_handoffs_are_listed_last(tmp_path: Path) -> None:
    async with without_workers(tmp_path) as desk:
        await desk("POST", "/handoff/initiate", task(wait_s=0))
        store = await desk.store()
        claim, _ = await store.claim("ticket-7", owner="somebody", lease_s=60)
        body = {"to": "陌生人", "reason": "later", "wait_s": 0}
        asked = done(await desk("POST", "/sessions/ticket-7/handoff", body))
        found = await desk.get("/sessions/ticket-7/handoffs?limit=1")
        assert [each["id"] for each in found["items"]] == ["ticket-7.h1", asked["id"]]
        assert found["items"][-1]["status"] == "initiated"
        assert found["items"][-1]["duration_ms"] is None
        await store.release(claim)


async def test_an_unknown_session_is_not_found(desk: Served) -> None:
    problem(await desk("GET", "/sessions/nobody/handoffs"), 404, "session.not_found")
    await desk("POST", "/handoff/initiate", task())
    for query in ("cursor=x", "cursor=-1", "limit=0"):
        problem(await desk("GET", f"/sessions/ticket-7/handoffs?{query}"), 422)
    late = await desk.get("/sessions/ticket-7/handoffs?cursor=99")
    assert late == {"items": [], "next_cursor": None}


def relay() -> Team:
    """Hands the last two items over."""
    last = Agent("last", model=ScriptedModel(respond=lambda request: say("完成")))
    edge = handoff(last, input_filter=keep_last(2))
    step = transfer("last", reason="not mine", summary="it is about a box")
    return Team(Agent("first", model=ScriptedModel([say("Hm."), step]), handoffs=[edge]))


async def test_a_view_shows_dropped_entries_and_a_private_run_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = relay()
    async with serving(tmp_path, monkeypatch, team=team) as desk:
        store = await desk.store()
        for name, is_shown in (("open", True), ("private", False)):
            session = Session(name, store=store)
            config = RunConfig(trace_include_sensitive_data=is_shown)
            own = relay()
            for text in ("箱子", "Please!"):
                await Runner.run(own, text, session=session, run_config=config)
        [told] = await handoffs(desk, "open")
        assert told["summary"] == "it is about a box"
        assert [(each["fate"], each["text"]) for each in told["view"]["entries"]][:2] == [
            ("dropped", "箱子"),
            ("dropped", "Hm."),
        ]
        assert told["view"]["dropped"] + told["view"]["kept"] == len(told["view"]["entries"])
        [hidden] = await handoffs(desk, "private")
        assert hidden["summary"] is None
        assert {each["text"] for each in hidden["view"]["entries"]} == {""}
        assert hidden["view"]["dropped"] == told["view"]["dropped"]


async def test_a_rewound_handoff_is_shown_as_rolled_back(desk: Served) -> None:
    await desk("POST", "/handoff/initiate", task())
    done(await desk("POST", "/sessions/ticket-7/rewind", {"to": 1}))
    [only] = await handoffs(desk, "ticket-7")
    assert (only["status"], only["rewound"]) == ("rolled_back", True)
