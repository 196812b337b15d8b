"""The pictures of the documentation: each is taken of a page that shows what it is for.

With `EKIDEN_PICTURES=1` they are written into `docs/images`; otherwise only taken and looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ekiden.testing import call, fail, say, transfer
from tests.console.conftest import NARROW, WIDE, OpenConsole
from tests.console.graph_team import Play, graph_team
from tests.console.inbox_world import approval, confirmation, in_us, post
from tests.console.place import ROOT, Console, Look
from tests.console.plans_team import Sky, plans_team
from tests.console.trace_team import trace_team

IMAGES = ROOT / "docs/images"
ORDERS = "Where is my order 1042?"


def questions(open_console: OpenConsole, look: Look, folder: Path) -> Console:
    console = open_console(look=look)
    post(
        folder,
        approval(
            "15 % discount for 青木商店?",
            body="They have ordered every month for six years, and a competitor offers 12 %.",
            from_agent="sales",
            priority=3,
            created_at_us=in_us(minutes=-52),
            deadline_us=in_us(minutes=128),
            default="no",
            role="sales lead",
        ),
        confirmation(
            '{"order": "1042", "amount": 129.9, "to": "p\u0430ypal"}',
            subject="may billing run refund?",
            from_agent="billing",
            tool="refund",
            priority=4,
            created_at_us=in_us(minutes=-7),
        ),
        approval(
            "Which of the two addresses is right?",
            from_agent="orders",
            kind="escalation",
            options=(),
            created_at_us=in_us(minutes=-31),
        ),
        approval(
            "Publish the notice about the delay?",
            from_agent="writer",
            created_at_us=in_us(minutes=-190),
        ),
    )
    console.page.locator(".line strong", has_text="refund").click()
    expect(console.page.get_by_role("article", name="Question")).to_contain_text("U+0430")
    return console


def sessions(open_console: OpenConsole, look: Look, folder: Path) -> Console:
    console = open_console(look=look)
    console.run(ORDERS, "shop-1042", title="Order 1042", user_id="mei")
    console.run("我的订单1043呢？", "shop-1043", title="订单 1043", user_id="lin")
    console.run("I want a refund for 1042", "shop-1044", title="Refund", agent="auto")
    console.run("Please send me the invoice for 1042", "shop-1045", title="Invoice", agent="auto")
    console.open("sessions")
    expect(console.page.get_by_role("link", name="Invoice")).to_be_visible()
    return console


def conversation(open_console: OpenConsole, look: Look, folder: Path) -> Console:
    console = sessions(open_console, look, folder)
    console.run("And when will it be here?", "shop-1042")
    console.open("sessions/shop-1042")
    expect(console.page.locator(".entry").nth(3)).to_be_visible()
    return console


def trace(open_console: OpenConsole, look: Look, folder: Path) -> Console:
    console = open_console(trace_team(), look=look)
    console.run("How many lamps are in stock?", "lamps", title="Lamps")
    console.open("sessions/lamps/trace")
    expect(console.page.locator(".spans .span-row").nth(6)).to_be_visible()
    return console


def graph(open_console: OpenConsole, look: Look, folder: Path) -> Console:
    play = Play(
        transfer("desk", reason="a question about order 1042"),
        say("Which order is it?"),
        transfer("triage", reason="the customer asks for a trip now"),
        transfer("travel", reason="a trip to Kyoto"),
        call("book", seat=7),
        fail(ConnectionError("the airline is down")),
        say("The airline is down; nothing was booked."),
        transfer("archive", reason="keep it for later"),
        say("Kept."),
    )
    console = open_console(graph_team(play), look=look)
    for text in ("Where is my order?", "It is 1042. And book me a trip.", "Keep it, please."):
        console.run(text, "trip")
    console.open("sessions/trip/graph")
    arrow = console.page.locator("[data-arrow].bad, .arrow.bad").first
    arrow.focus()
    console.page.keyboard.press("Enter")
    expect(console.page.locator("main")).to_contain_text("airline is down")
    return console


def agents(open_console: OpenConsole, look: Look, folder: Path) -> Console:
    console = sessions(open_console, look, folder)
    console.open("agents")
    expect(console.page.locator(".agent-card").nth(1)).to_be_visible()
    return console


def playground(open_console: OpenConsole, look: Look, folder: Path) -> Console:
    console = open_console(look=look, at="agents?view=route")
    console.page.get_by_label("A request").fill("我想退款: the parcel of order 1042 came broken")
    console.page.keyboard.press("Control+Enter")
    expect(console.page.get_by_role("region", name=re.compile("gets it"))).to_be_visible()
    return console


def plan(open_console: OpenConsole, look: Look, folder: Path) -> Console:
    sky = Sky(odd="")
    sky.release()
    console = open_console(plans_team(sky), look=look)
    console.run("A trip to Kyoto", "kyoto")
    console.open("sessions/kyoto/plan")
    expect(console.page.locator(".progress")).to_contain_text("of 4 tasks done")
    return console


def audit(open_console: OpenConsole, look: Look, folder: Path) -> Console:
    console = sessions(open_console, look, folder)
    console.open("audit")
    console.role("button", re.compile("^Verify")).first.click()
    expect(console.page.locator("main")).to_contain_text("The chain is intact")
    return console


Scene = Callable[[OpenConsole, Look, Path], Console]
PICTURES: dict[str, tuple[Scene, Look]] = {
    "inbox": (questions, WIDE),
    "inbox-phone": (questions, NARROW),
    "sessions": (sessions, WIDE),
    "session": (conversation, WIDE),
    "session-phone": (conversation, NARROW),
    "graph": (graph, WIDE),
    "trace": (trace, WIDE),
    "agents": (agents, WIDE),
    "routing": (playground, WIDE),
    "plan": (plan, WIDE),
    "audit": (audit, WIDE),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if number else ())
        for number, name in enumerate(PICTURES)
    ],
)
def test_a_screenshot_is_taken(name: str, open_console: OpenConsole, tmp_path: Path) -> None:
    scene, look = PICTURES[name]
    console = scene(open_console, look, tmp_path)
    expect(console.page.locator(".connection")).to_have_text("Live")
    expect(console.page.get_by_text("Loading")).to_have_count(0)
    folder = IMAGES if os.environ.get("EKIDEN_PICTURES") else tmp_path
    picture = console.page.screenshot(path=folder / f"console-{name}.png", animations="disabled")
    assert picture.startswith(b"\x89PNG")
    assert (IMAGES / f"console-{name}.png").is_file(), "take it with EKIDEN_PICTURES=1"
    assert f"images/console-{name}.png" in (ROOT / "docs/console.md").read_text(encoding="utf-8")
