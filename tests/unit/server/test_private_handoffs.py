"""Handoffs of runs with `trace_include_sensitive_data=False`: facts, no words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.api.handoffs import HandoffView
from ekiden.core.agent import Agent, Team
from ekiden.core.documents import from_json
from ekiden.core.handoffs import HandoffTrigger
from ekiden.handoff import handoff, keep_last
from ekiden.runtime import RunConfig, Runner
from ekiden.sessions import Session
from ekiden.testing import ScriptedModel, say, transfer
from tests.unit.server.desks import Served, serving

SECRETS = ("秘密", "Secret answer", "secret reason", "secret summary", "secret plan")
OPEN, PRIVATE = RunConfig(), RunConfig(trace_include_sensitive_data=False)


def relay() -> Team:
    """Each hands on the last items that it saw: first to second, second to third."""
    third = Agent("third", model=ScriptedModel(respond=lambda request: say("End.")))
    second = Agent(
        "second",
        model=ScriptedModel([say("Secret answer"), transfer("third", reason="open reason")]),
        handoffs=[handoff(third, input_filter=keep_last(9))],
    )
    passed = {"reason": "secret reason", "summary": "secret summary"}
    first = Agent(
        "first",
        model=ScriptedModel([say("Welcome."), transfer("second", **passed)]),
        handoffs=[handoff(second, input_filter=keep_last(4))],
    )
    return Team(first)


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server with the session `s`: an open run, a private one that hands over, an open one that
    hands on."""
    async with serving(tmp_path, monkeypatch, team=relay()) as found:
        await ran(found, "s", OPEN, PRIVATE, OPEN)
        yield found


async def ran(desk: Served, name: str, *configs: RunConfig, team: Team | None = None) -> None:
    """Run the session once with each configuration."""
    session = Session(name, store=await desk.store())
    team = team or relay()
    for text, config in zip(("hello", "秘密", "more"), configs, strict=False):
        await Runner.run(team, text, session=session, run_config=config)


def no_secret(told: Any) -> None:
    """Whatever was answered, nothing of the private run is in it."""
    assert [secret for secret in SECRETS if secret in str(told)] == []


async def test_text_of_a_private_run_does_not_appear_in_a_later_handoff(
    desk: Served,
) -> None:
    first, second = (await desk.get("/sessions/s/handoffs"))["items"]
    no_secret([first, second])
    assert {each["text"] for each in first["view"]["entries"]} == {""}
    assert second["reason"] == "open reason"
    entries = second["view"]["entries"]
    # What was said openly is known; the rest of what the first filter gave may be private.
    based = [(each["role"], each["text"]) for each in entries if each["seq"] is None]
    assert based[:2] == [("user", "hello"), ("assistant", "Welcome.")]
    assert {text for _, text in based[2:]} == {""}
    assert ("user", "more") in [(each["role"], each["text"]) for each in entries]


async def test_a_private_handoff_is_shown_without_text_everywhere(desk: Served) -> None:
    shown = await desk.get("/handoff/s.h1")
    no_secret(shown)
    assert shown["words"] == {}
    assert "reason" not in shown
    assert {row["label"] for row in shown["view"]["rows"]} <= {
        "user",
        "assistant",
        "function_call transfer_to_second",
        "function_call_output",
    }
    [listed, _] = (await desk.get("/sessions/s/handoffs?views=false"))["items"]
    from_json(HandoffView, listed)
    assert (listed["status"], listed["summary"]) == ("completed", None)
    for path in ("/handoff", "/handoff/history/first"):
        no_secret(await desk.get(path))
    assert await desk.command("handoff", "show", "s.h1") == shown


async def test_a_later_handoff_is_shown_with_its_own_text_only(desk: Served) -> None:
    shown = await desk.get("/handoff/s.h2")
    no_secret(shown)
    assert shown["words"] == {"reason": "open reason"}
    labels = [row["label"] for row in shown["view"]["rows"]]
    assert "assistant: Welcome." in labels
    assert "user: more" in labels


async def test_handoffs_of_runs_that_are_not_private_are_shown_in_full(desk: Served) -> None:
    await ran(desk, "open", OPEN, OPEN, OPEN)
    shown = await desk.get("/handoff/open.h1")
    assert shown["words"] == {"reason": "secret reason", "summary": "secret summary"}
    assert "user: 秘密" in [row["label"] for row in shown["view"]["rows"]]
    listed, later = (await desk.get("/sessions/open/handoffs"))["items"]
    assert (listed["reason"], listed["summary"]) == ("secret reason", "secret summary")
    assert "秘密" in [each["text"] for each in later["view"]["entries"]]


async def test_the_stored_conversation_keeps_private_text(desk: Served) -> None:
    assert "秘密" in str(await desk.get("/sessions/s"))
    store = await desk.store()
    [made] = [
        event.details["reason"]
        for event in await store.events("s")
        if event.details and event.details.get("id") == "s.h1" and "reason" in event.details
    ]
    assert made == "secret reason"


async def test_a_private_trigger_shows_its_type_but_no_condition(desk: Served) -> None:
    told = {}
    for name, config in (("plain", OPEN), ("quiet", PRIVATE)):
        last = Agent("last", model=ScriptedModel([say("End.")]))
        rule = HandoffTrigger(type="condition", expression="text == '秘密'")
        first = Agent(
            "first",
            model=ScriptedModel([say("Hm."), say("Hm.")]),
            handoffs=[handoff(last, trigger=rule)],
        )
        await ran(desk, name, config, config, team=Team(first))
        told[name] = await desk.get(f"/handoff/{name}.h1")
        [listed] = (await desk.get(f"/sessions/{name}/handoffs"))["items"]
        assert listed["trigger"] == told[name]["trigger"]
    assert told["plain"]["trigger"]["evaluation"]["value"] is True
    assert told["quiet"]["trigger"] == {"type": "condition"}
    assert "reason" not in told["quiet"]
