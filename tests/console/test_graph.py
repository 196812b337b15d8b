"""The handoff graph of a session."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from ekiden.testing import call, fail, say, transfer
from tests.console.conftest import WIDE, OpenConsole
from tests.console.graph_team import Hold, Play, graph_team
from tests.console.place import Console, Look
from tests.support.relay_team import relay_team

HOSTILE = "<img src=x onerror=\"document.title='run'\">\u202eback"


def to_and_fro() -> list[Any]:
    """Two rounds between triage and desk, and a trip that is rolled back."""
    return [
        transfer("desk", reason="about an order"),
        say("Which order?"),
        transfer("triage", reason="not ours"),
        say("Let me see."),
        transfer("desk", reason="again"),
        say("fine"),
        transfer("triage", reason="back"),
        transfer("travel", reason="a trip"),
        call("book", seat=7),
        fail(ConnectionError("the airline is down")),
        say("I could not book it."),
    ]


def arrow(console: Console, name: str) -> Locator:
    """The arrow that a screen reader would name so."""
    return console.page.locator("[data-arrow]").and_(
        console.page.get_by_role("button", name=re.compile(name))
    )


def click_on(found: Locator) -> None:
    """With the mouse, on the middle of its line."""
    x, y = found.locator(".grip").evaluate(
        """(line) => {
          const middle = line.getPointAtLength(line.getTotalLength() / 2);
          const at = middle.matrixTransform(line.getScreenCTM());
          return [at.x, at.y];
        }"""
    )
    found.page.mouse.click(x, y)


def places(console: Console) -> dict[str, str]:
    """Where each box and each arrow stands."""
    found: dict[str, str] = console.page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("[data-box], [data-arrow]")].map(
          (each) => [each.dataset.box ?? each.dataset.arrow,
                     [...each.querySelectorAll("rect, .line")].map((part) =>
                       ["x", "y", "width", "d"].map((name) => part.getAttribute(name))).join(" ")]
        ))"""
    )
    return found


@pytest.mark.slow
def test_repeated_handoffs_are_folded_and_a_rollback_is_marked(
    open_console: OpenConsole, look: Look
) -> None:
    console = open_console(graph_team(Play(*to_and_fro())), look=look)
    for _ in range(4):
        console.run("go on", session="s1")
    console.open("sessions/s1/graph")
    page = console.page
    expect(page.locator("[data-box]")).to_have_count(4)
    expect(page.locator("[data-box='user']")).to_contain_text("starts")
    expect(page.locator(".box.lit")).to_contain_text("triage")
    expect(page.locator(".box.lit")).to_contain_text("✓ Finished")
    there = arrow(console, "^triage → desk, 2 handoffs$")
    expect(there).to_contain_text("×2")
    expect(arrow(console, "^desk → triage, 2 handoffs$")).to_contain_text("×2")
    undone = arrow(console, "^triage → travel, Rolled back: a trip$")
    expect(undone).to_contain_text("↩ Rolled back")
    expect(undone.locator(".back")).to_have_count(1)
    expect(there.locator(".back")).to_have_count(0)
    assert console.serious() == []
    assert console.fits()

    undone.focus()
    page.keyboard.press("Enter")
    panel = page.locator(".panel")
    expect(panel.get_by_role("heading", name="triage → travel")).to_be_focused()
    for text in ("Rolled back", "model", "graceful", "a trip", "the airline is down", "seat-7"):
        expect(panel).to_contain_text(text)
    expect(panel.locator(".moves li")).to_have_count(4)
    expect(panel.locator(".counts")).to_contain_text(re.compile(r"\d+ kept.*0 summ.*0 dropped"))
    expect(page).to_have_url(re.compile(r"graph\?handoff=s1\.h5$"))
    assert console.serious() == []
    assert console.fits()
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(undone).to_be_focused()

    page.keyboard.press("ArrowUp")
    expect(undone).not_to_be_focused()
    there.focus()
    page.keyboard.press(" ")
    expect(panel).to_contain_text("Select one of these handoffs")
    expect(panel.locator(".relay")).to_have_count(2)
    panel.get_by_role("button", name=re.compile("again")).press("Enter")
    expect(page).to_have_url(re.compile(r"handoff=s1\.h3$"))
    expect(panel.locator(".moves")).to_be_visible()
    expect(panel.locator(".counts")).to_be_visible()  # What comes later moves the link.
    panel.get_by_role("link", name="Audit records").click()
    expect(page.get_by_role("heading", name="s1.h3")).to_be_visible()
    expect(page.locator("main")).to_contain_text("again")


@pytest.mark.slow
def test_the_as_it_ran_view_has_a_box_for_each_stay(open_console: OpenConsole, look: Look) -> None:
    console = open_console(graph_team(Play(*to_and_fro())), look=look)
    for _ in range(4):
        console.run("go on", session="s1")
    console.open("sessions/s1/graph?view=expanded&handoff=s1.h2")
    page = console.page
    expect(page.locator(".panel")).to_contain_text("not ours")
    expect(page.locator(".arrow.chosen")).to_have_attribute("data-arrow", "s1.h2")
    boxes = page.locator("[data-box]")
    names = [each.split(",")[0] for each in boxes.locator("title").all_text_contents()]
    assert names == ["User", "triage", "desk", "triage", "desk", "triage", "travel"]
    tops = page.locator("[data-box] rect").evaluate_all(
        "all => all.map(each => +each.attributes.y.value)"
    )
    assert tops == sorted(set(tops))
    expect(page.locator(".box.ghost")).to_contain_text("↩ rolled back")
    expect(page.locator(".box.lit")).to_have_attribute("data-box", "to s1.h4")
    expect(page.locator("[data-arrow='s1.h5'] .back")).to_have_count(1)
    listed = page.locator(".graph-list .relay")
    expect(listed).to_have_count(5)
    expect(listed.nth(4)).to_contain_text("triage → travel")
    expect(listed.nth(4)).to_contain_text("Rolled back")
    assert console.serious() == []
    assert console.fits()
    console.role("link", "By agent").click()
    expect(page.locator("[data-box]")).to_have_count(4)


@pytest.mark.slow
def test_new_handoffs_appear_live_and_other_boxes_do_not_move(
    open_console: OpenConsole,
) -> None:
    answer, late = Hold(say("done")), Hold(transfer("desk", reason="late"))
    play = Play(transfer("desk", reason="first"), answer)
    console = open_console(graph_team(play))
    console.start("hello", session="s1")
    console.open("sessions/s1/graph")
    page = console.page
    lit = page.locator(".box.lit")
    expect(lit).to_contain_text("desk")
    expect(lit).to_contain_text("▶ Working")
    expect(arrow(console, "triage → desk")).to_have_class(re.compile("busy"))
    under_way = places(console)
    answer.release()
    expect(lit).to_contain_text("✓ Finished")
    expect(arrow(console, "triage → desk, Completed")).not_to_have_class(re.compile("busy"))
    assert places(console) == under_way
    play.add(transfer("triage", reason="back"), late, say("done"))
    console.start("more", session="s1")
    expect(lit).to_contain_text("triage")
    expect(lit).to_contain_text("▶ Working")
    folded = places(console)
    late.release()
    expect(arrow(console, "triage → desk, 2 handoffs")).to_contain_text("×2")
    expect(lit).to_contain_text("✓ Finished")
    assert places(console) == folded

    console.open("sessions/s1/graph?view=expanded")
    expect(page.locator("[data-box]")).to_have_count(5)
    before = places(console)
    play.add(transfer("triage", reason="again"), say("done"))
    console.run("more", session="s1")
    expect(page.locator("[data-box]")).to_have_count(6)
    after = places(console)
    assert {key: after[key] for key in before} == before
    page.reload()
    expect(page.locator("[data-box]")).to_have_count(6)
    assert places(console) == after


@pytest.mark.slow
def test_kept_and_dropped_context_of_a_handoff_is_shown(open_console: OpenConsole) -> None:
    play = Play(
        say(HOSTILE), transfer("archive", reason=HOSTILE, summary="**short**"), say("filed")
    )
    console = open_console(graph_team(play))
    console.run("first", session="s1")
    console.run("file it", session="s1")
    console.open("sessions/s1/graph")
    page = console.page
    click_on(arrow(console, "triage → archive"))
    panel = page.locator(".panel")
    expect(panel.locator(".counts")).to_contain_text(re.compile("2 kept.*0 summarised.*3 dropped"))
    said = panel.locator("li.dropped", has_text="<img src=x")
    expect(said).to_contain_text("assistant · triage")
    expect(said.locator(".odd")).to_contain_text("U+202E")
    expect(panel.locator("strong", has_text="short")).to_be_visible()
    expect(panel.locator("dd .odd")).to_contain_text("U+202E")
    expect(arrow(console, "triage → archive").locator("title")).to_contain_text("[U+202E]")
    assert page.title() != "run"
    assert page.locator("main img").count() == 0


@pytest.mark.slow
def test_a_failed_handoff_shows_the_reason(open_console: OpenConsole) -> None:
    console = open_console(graph_team(Play(say("hello"))))
    console.run("hello", session="s1")
    console.open("sessions/s1/graph?view=expanded")
    page = console.page
    expect(page.get_by_text("No handoffs yet")).to_be_visible()
    expect(page.locator("[data-box]")).to_have_count(2)
    body = {"to": "triage", "reason": "to itself"}
    console.api("POST", "/sessions/s1/handoff", body)
    failed = arrow(console, "triage → triage, Refused: to itself")
    expect(failed).to_contain_text("✕ Refused")
    expect(page.locator(".box.ghost")).to_contain_text("✕ refused")
    expect(page.locator(".box.lit")).to_have_attribute("data-box", "first")
    failed.press("Enter")
    panel = page.locator(".panel")
    expect(panel.locator(".notice.bad code")).to_have_text(re.compile("^[A-Z_]+$"))
    expect(panel).to_contain_text("program · local")
    expect(panel).to_contain_text("Nothing was handed over")
    console.open("sessions/s1/graph?handoff=none")
    expect(panel).to_contain_text("This handoff is not in the session")


@pytest.mark.slow
def test_an_agent_that_waits_for_a_person_is_highlighted(open_console: OpenConsole) -> None:
    console = open_console(relay_team(), look=replace(WIDE, locale="zh-CN"))
    console.start("refund 1042", session="s1")
    console.open("sessions/s1/graph")
    lit = console.page.locator(".box.lit")
    expect(lit).to_contain_text("desk")
    expect(lit).to_contain_text("◔ 待人工处理")
    expect(lit).to_have_class(re.compile("wait"))
    expect(console.role("link", "按时间")).to_be_visible()
    item = console.api("GET", "/inbox")["items"][0]
    console.api("POST", f"/inbox/{item['id']}/answer", {"choice": "approve"})
    expect(lit).to_contain_text("持有会话")


@pytest.mark.slow
def test_a_rewound_handoff_and_a_move_without_handoff_are_drawn(open_console: OpenConsole) -> None:
    play = Play(say("hi"), transfer("desk", reason="first"), say("fine"), say("filed"))
    console = open_console(graph_team(play))
    console.run("hello", session="s1")
    said = console.api("GET", "/sessions/s1")["events"]
    console.run("go on", session="s1")
    console.open("sessions/s1/graph?view=expanded")
    page = console.page
    expect(page.locator(".box.lit")).to_contain_text("desk")
    console.api("POST", "/sessions/s1/rewind", {"to": said})
    undone = arrow(console, "triage → desk, Rolled back: first")
    expect(undone.locator(".back")).to_have_count(1)
    expect(page.locator(".box.lit")).to_have_attribute("data-box", "first")
    undone.press("Enter")
    expect(page.locator(".panel")).to_contain_text("rewound to before this handoff")
    console.run("file it", session="s1", agent="archive")
    expect(page.locator(".box.lit")).to_contain_text("archive")
    expect(page.locator(".arrow.faint title")).to_have_text(
        ["User → triage, without a handoff", "triage → archive, without a handoff"]
    )


def many(count: int, agents: int) -> dict[str, Any]:
    """A page of handoffs that agents made in turn."""
    return {
        "items": [
            {
                "id": f"s1.h{at}",
                "session_id": "s1",
                "source": f"agent-{at * 7 % agents}",
                "target": f"agent-{(at + 1) * 7 % agents}",
                "status": "completed",
                "by": {"kind": "model", "name": ""},
                "policy": "graceful",
                "started_at": 1e9 + at,
                "settled_at": 1e9 + at,
                "moves": [{"status": "completed", "at": 1e9 + at, "seq": at}],
                "duration_ms": 1.0,
                "summary": None,
                "view": None,
                "rewound": False,
            }
            for at in range(count)
        ],
        "next_cursor": None,
    }


OTHER_VIEW = """() => [...document.querySelectorAll(".views a")]
  .find((each) => !each.ariaCurrent).click()"""


@pytest.mark.slow
def test_large_graphs_are_drawn(open_console: OpenConsole) -> None:
    console = open_console(relay_team())
    console.run("hello", session="s1")
    page = console.page
    page.route("**/api/v1/sessions/s1/handoffs*", lambda route: route.fulfill(json=many(500, 60)))
    console.open("sessions/s1/graph?view=expanded")
    expect(page.locator("[data-box]")).to_have_count(503)
    page.evaluate(OTHER_VIEW)
    expect(page.locator("[data-box]")).to_have_count(62)
    page.evaluate(OTHER_VIEW)
    expect(page.locator("[data-box]")).to_have_count(503)
    stops = page.locator(".drawing [tabindex='0']")
    expect(stops).to_have_count(1)
    stops.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".panel")).to_be_visible()
