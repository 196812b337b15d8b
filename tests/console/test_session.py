"""The conversation of a session: what it shows, as it happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ekiden.server import ServerConfig
from tests.console.conftest import OpenConsole
from tests.console.place import Look
from tests.console.session_team import HOSTILE, release, session_team
from tests.console.session_world import entries, is_state, numbers, tell


def test_all_events_are_shown_in_order_and_in_lanes(open_console: OpenConsole, look: Look) -> None:
    console = open_console(session_team(), look=look)
    page = console.page
    told = {"session": "s1", "title": f"青木商店 {HOSTILE}", "user_id": "u\u202e1"}
    console.run(f"a lookup {HOSTILE}", **told)
    console.run("the broken one", session="s1", agent="triage")
    console.run("the missing one", session="s1", agent="desk")
    console.open("sessions/s1")

    expect(page.locator("h1")).to_have_text(f"青木商店 {HOSTILE}")
    expect(page.locator(".session-top")).to_contain_text("uU+202E1")
    is_state(console, "With errors")
    said = entries(console).nth(0)
    expect(said).to_contain_text("User")
    expect(said).to_contain_text(f"a lookup {HOSTILE}")
    handoff = entries(console).nth(1)
    expect(handoff).to_contain_text("triage")
    expect(handoff).to_contain_text(
        f"Hands over to desk ✓ Completed it is about **orders** {HOSTILE}"
    )
    tool = entries(console).nth(2)
    expect(tool).to_contain_text(re.compile(r"desk.*lookup ✓ Done \d", re.DOTALL))
    expect(tool).not_to_contain_text("on its way")
    tool.locator("summary").press("Enter")
    expect(tool).to_contain_text('"order": "1042"')
    expect(tool).to_contain_text('"status": "on its way"')
    answer = entries(console).nth(3)
    expect(answer.locator("strong", has_text="You said")).to_be_visible()

    undone = page.locator(".entry.handoff.undone")
    expect(undone).to_contain_text("Rolled back")
    expect(undone).to_contain_text("Hands over to oracle ✕ Rolled back")
    expect(undone).to_contain_text("the oracle is silent")
    failed = page.locator(".entry.tool").nth(1)
    expect(failed).to_contain_text("✕ Failed")
    expect(failed).to_contain_text(f"no such order {HOSTILE}")
    assert numbers(console) == sorted(numbers(console))

    is_wide = look.width > 900
    expect(page.get_by_role("group", name="Lanes")).to_be_visible(visible=is_wide)
    lefts = [round(entry.bounding_box()["x"]) for entry in (said, handoff, tool)]  # type: ignore[index]
    assert (lefts == sorted(set(lefts))) is is_wide
    assert page.evaluate("window.__ran") is None
    assert console.serious() == []
    assert console.fits()


@pytest.mark.slow
def test_a_streamed_answer_is_shown_live_and_once(open_console: OpenConsole, look: Look) -> None:
    console = open_console(session_team(), look=look)
    console.start(f"hold:here {HOSTILE}", "s1", agent="desk")
    console.open("sessions/s1")
    page = console.page
    is_state(console, "Working")
    writing = page.locator(".entry.writing")
    expect(writing).to_contain_text("desk")

    # A reader from the beginning sees each delta.
    release("here")
    is_state(console, "Finished")
    expect(writing).to_have_count(0)
    console.start(f"hold:again {HOSTILE}", "s1")
    expect(writing).to_contain_text(f"You said: hold:again {HOSTILE}")
    expect(writing).to_contain_text("Writing …")
    expect(page.locator(".entry.answer:not(.writing)")).to_have_count(1)
    release("again")
    expect(writing).to_have_count(0)
    expect(page.locator(".entry.answer")).to_have_count(2)
    expect(page.locator(".entry.answer").last).to_contain_text("And that is all.")
    is_state(console, "Finished")
    assert page.evaluate("window.__ran") is None
    assert console.serious() == []


@pytest.mark.slow
def test_a_long_conversation_opens_at_its_end(open_console: OpenConsole, tmp_path: Path) -> None:
    console = open_console(session_team())
    tell(tmp_path, "long", [f"word {number} of 2000" for number in range(1, 2001)])
    page = console.page
    console.open("sessions/long")
    last = page.get_by_text("word 2000 of 2000")
    expect(last).to_be_in_viewport()
    expect(entries(console)).to_have_count(200)

    # What comes is seen at the end, as long as one is there.
    console.run("and lookup", session="long", agent="desk")
    expect(page.locator(".entry.answer").last).to_be_in_viewport()

    box = page.get_by_role("log")
    box.evaluate("box => box.scrollTo(0, 0)")
    page.get_by_role("button", name="Show earlier").click()
    expect(page.get_by_text("word 1500 of 2000")).to_be_attached()
    # One reads on where one was.
    expect(page.get_by_text("word 1801 of 2000")).to_be_in_viewport()
    console.run("and more", session="long", agent="desk")
    expect(page.locator(".entry.answer").last).to_contain_text("and more")
    expect(page.get_by_text("word 1801 of 2000")).to_be_in_viewport()
    page.get_by_role("button", name="Jump to the newest").click()
    expect(page.locator(".entry.answer").last).to_be_in_viewport()


@pytest.mark.slow
def test_a_step_has_an_address(open_console: OpenConsole, tmp_path: Path) -> None:
    console = open_console(session_team())
    tell(tmp_path, "long", [f"word {number} of 500" for number in range(1, 501)])
    page = console.page
    console.open("sessions/long?seq=12")
    marked = page.locator(".entry.marked")
    expect(marked).to_contain_text("word 12 of 500")
    expect(marked).to_be_in_viewport()
    expect(marked).to_be_focused()
    # From one to another without leaving the page.
    page.get_by_role("link", name="Link to step 15", exact=True).click()
    expect(marked).to_contain_text("word 15 of 500")
    assert page.url.endswith("#/sessions/long?seq=15")
    expect(marked).to_have_attribute("aria-current", "true")


@pytest.mark.slow
def test_an_unknown_or_deleted_session_shows_a_message(open_console: OpenConsole) -> None:
    # A stream looks whether its session is still there when nothing happened for so long.
    config = ServerConfig(heartbeat_s=0.3)
    console = open_console(session_team(), at="sessions/nobody", config=config)
    console.expected = ["404"]
    page = console.page
    expect(page.get_by_role("alert")).to_contain_text("There is no session nobody")
    console.open("sessions/%3Cimg%20src=x%20onerror=window.__ran=1%3E")
    expect(page.get_by_role("alert")).to_contain_text("no session <img src=x onerror=")
    console.run("hello", session="s1", agent="desk")
    console.open("sessions/s1")
    expect(entries(console).last).to_contain_text("You said")
    console.api("DELETE", "/sessions/s1")
    expect(page.get_by_role("alert")).to_contain_text("There is no session s1")
    page.get_by_role("link", name="All sessions").click()
    expect(page.locator("h1")).to_have_text("Sessions")


@pytest.mark.slow
def test_the_session_page_is_shown_in_chinese(open_console: OpenConsole) -> None:
    console = open_console(
        session_team(), look=Look(width=1280, height=860, theme="dark", locale="zh-CN")
    )
    console.run("the broken one", session="s1")
    console.open("sessions/s1")
    expect(console.page.locator(".entry.handoff")).to_contain_text("交接给 oracle ✕ 已回滚")
    is_state(console, "已完成")
    assert console.serious() == []
