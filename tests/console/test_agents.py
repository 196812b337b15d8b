"""The agents: what they are and do, who waits for whom, deadlocks, and who would get a request."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.console.agents_team import HOSTILE, agents_team, write_deadlocks
from tests.console.conftest import OpenConsole
from tests.console.place import Console, Look


def card(console: Console, name: str) -> Locator:
    """An agent in the list."""
    heading = console.page.get_by_role("heading", name=re.compile(f"^{name}\\b"))
    return console.page.locator(".agent-card").filter(has=heading)


@pytest.mark.slow
def test_the_team_is_listed_with_capabilities_and_triggers(
    open_console: OpenConsole, look: Look
) -> None:
    console = open_console(agents_team(), at="agents", look=look)
    helper = card(console, "helper")
    for told in ("model", "Helps with lamps", "80 %", "35 %", "退款", r"order #\d+", "refund"):
        expect(helper).to_contain_text(told)
    expect(helper).to_contain_text("at most 7 concurrent sessions")
    expect(helper).to_contain_text("0 running · 0 ready · 0 waiting")
    expect(card(console, "triage").get_by_role("link", name="helper")).to_be_visible()
    assert console.serious() == []
    assert console.fits()
    console.page.keyboard.press("/")
    console.page.keyboard.type("灯具")
    expect(console.page.locator(".agent-card")).to_have_count(1)
    expect(console.page).to_have_url(re.compile("q="))


@pytest.mark.slow
def test_all_details_of_one_agent_are_shown(open_console: OpenConsole, look: Look) -> None:
    console = open_console(agents_team(), at="agents", look=look)
    card(console, "helper").get_by_role("link", name="helper").click()
    main = console.page.locator("main")
    expect(main.get_by_role("heading", level=1)).to_have_text("helper")
    for told in ("Be kind.", "pays back", "money", "Pay an order back.", "90"):
        expect(main).to_contain_text(told)
    expect(main.locator(".facts")).to_contain_text("7")
    way = main.get_by_role("link", name="Its sessions")
    expect(way).to_have_attribute("href", "#/sessions?agent=helper")
    expect(main.get_by_role("row", name=re.compile("^refund "))).to_contain_text("yes")
    assert console.serious() == []
    assert console.fits()
    console.open("agents/triage")
    row = main.get_by_role("row", name=re.compile("writer"))
    expect(row).to_contain_text("when the model decides")
    console.expected = ["404"]
    console.open("agents/ghost")
    expect(console.page.get_by_role("alert")).to_contain_text("ghost")


@pytest.mark.slow
def test_a_wait_between_agents_is_drawn_until_it_is_answered(
    open_console: OpenConsole, look: Look
) -> None:
    console = open_console(agents_team(), at="agents?view=waits", look=look)
    page = console.page
    expect(page.get_by_text("No agent is waiting.")).to_be_visible()
    console.start("discount", "s", agent="clerk")
    drawing = page.get_by_role("group", name="Who waits for whom")
    expect(drawing.locator("[data-box]")).to_have_count(3)
    arrow = drawing.locator("[data-arrow]").filter(has_text="clerk waits for manager")
    expect(arrow).to_have_count(1)
    waits = page.locator(".wait-list")
    expect(waits).to_contain_text("may I give a discount?")
    expect(waits).to_contain_text(HOSTILE)
    assert page.evaluate("window.__ran") is None
    assert console.serious() == []
    assert console.fits()
    console.page.goto(f"{console.url}/#/agents")
    expect(card(console, "clerk")).to_contain_text("Waiting for an agent")
    expect(card(console, "manager")).to_contain_text("Waiting for a person")
    [item] = console.api("GET", "/inbox")["items"]
    console.api("POST", f"/inbox/{item['id']}/answer", {"choice": item["options"][0]})
    expect(card(console, "manager")).to_contain_text("Idle")
    expect(card(console, "clerk")).to_contain_text("Idle")


@pytest.mark.slow
def test_deadlocks_are_drawn_as_cycles_with_the_cancelled_wait(
    open_console: OpenConsole, look: Look, tmp_path: Path
) -> None:
    write_deadlocks(tmp_path / "relay.db")
    console = open_console(agents_team(), at="agents?view=waits", look=look)
    expect(console.page.locator(".deadlock")).to_have_count(2)
    alone, past = console.page.locator(".deadlock").all()
    expect(alone.get_by_role("group", name="会计 waits for 会计").locator("rect")).to_have_count(1)
    expect(past).to_contain_text("Resolved")
    expect(past).to_contain_text("Victim: longest wait")
    circle = past.get_by_role("group", name=re.compile("orders waits for billing waits for stock"))
    expect(circle.locator("rect")).to_have_count(3)
    expect(circle.locator(".arrow")).to_have_count(3)
    expect(circle.locator(".box.bad")).to_contain_text("orders")
    expect(circle.locator(".arrow.bad")).to_have_count(1)
    expect(past.locator("li").nth(0)).to_contain_text("orders asked billing")
    expect(past.locator("li").nth(0)).to_contain_text(HOSTILE)
    expect(past.locator("li").nth(0)).to_contain_text("given up")
    expect(past.locator("li").nth(1)).to_contain_text("有货吗？")
    assert console.page.evaluate("window.__ran") is None
    assert console.serious() == []
    assert console.fits()


@pytest.mark.slow
def test_a_large_current_deadlock_fits_and_an_empty_page_has_a_message(
    open_console: OpenConsole,
) -> None:
    console = open_console(agents_team(), at="agents?view=waits")
    expect(console.page.get_by_text("No deadlocks.")).to_be_visible()

    def answer(route: Route) -> None:
        route.fulfill(json={"items": [present(12)], "next_cursor": None})

    console.page.route("**/api/v1/agents/deadlocks*", answer)
    console.open("agents")
    console.open("agents?view=waits")
    told = console.page.locator(".deadlock")
    expect(told).to_contain_text("Active")
    expect(told.locator(".arrow")).to_have_count(12)
    expect(told.locator(".box.bad")).to_have_count(0)
    assert console.fits()


def present(count: int) -> dict[str, Any]:
    """A circle of so many agents that is there now."""
    names = [f"智能体-{number}" for number in range(count)]
    pairs = zip(names, [*names[1:], names[0]], strict=True)
    asks = [{"from": a, "to": b, "message_id": a, "text": "?", "given_up": False} for a, b in pairs]
    return {
        "id": "",
        "cycle": [*names, names[0]],
        "message_ids": names,
        "victim": None,
        "given_up": [],
        "policy": None,
        "found_at": 1_790_000_000.0,
        "resolved": False,
        "asks": asks,
    }


FILES = {
    "helper": "{keywords: [refund, 退款, lamp], patterns: ['order #[0-9]+'], priority: 90}",
    "writer": "{keywords: [lamp, letter]}",
    "triage": "{keywords: [triage]}",
}


def write_agents(folder: Path) -> None:
    """A project whose agents are files, as the router reads them."""
    agents = folder / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    for name, triggers in FILES.items():
        text = f"---\nname: {name}\ntriggers: {triggers}\n---\nHelp.\n"
        (agents / f"{name}.md").write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_the_playground_shows_the_routed_agent_and_the_reason(
    open_console: OpenConsole, look: Look, tmp_path: Path
) -> None:
    write_agents(tmp_path)
    console = open_console(at="agents?view=route", look=look)
    page = console.page
    page.get_by_label("Strategy").select_option("rule")
    page.get_by_label("A request").fill(f"我要退款 for the LAMP of Order #42 {HOSTILE}")
    page.keyboard.press("Control+Enter")
    decision = page.get_by_role("region", name="helper gets it")
    expect(decision).to_contain_text("rules")
    scores = decision.locator(".score")
    expect(scores).to_have_count(3)
    expect(scores.nth(0).locator("code")).to_have_text(["退款", "lamp", "order #[0-9]+"])
    expect(scores.nth(0)).to_contain_text("99 %")
    expect(scores.nth(0)).to_contain_text("score 36")
    expect(scores.nth(1)).to_contain_text("writer")
    expect(scores.nth(1)).to_contain_text("score 5")
    expect(scores.nth(2)).to_contain_text("0 %")
    expect(decision.locator(".stages li")).to_have_count(1)
    assert page.evaluate("window.__ran") is None
    assert console.serious() == []
    assert console.fits()
    page.get_by_label("A request").fill("something else")
    page.get_by_role("button", name="Find the agent").click()
    expect(page.get_by_role("heading", name="No agent gets it")).to_be_visible()


@pytest.mark.slow
def test_a_read_only_key_has_no_playground(open_console: OpenConsole) -> None:
    console = open_console(agents_team())
    me = {**console.api("GET", "/me"), "scopes": ["read"]}
    console.page.route("**/api/v1/me", lambda route: route.fulfill(json=me))
    console.page.reload()
    console.open("agents?view=route")
    expect(console.page.get_by_role("link", name="Who waits for whom")).to_be_visible()
    expect(console.page.get_by_role("link", name="Try routing")).to_have_count(0)
    expect(console.page.get_by_label("A request")).to_have_count(0)
