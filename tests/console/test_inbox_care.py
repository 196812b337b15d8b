"""The inbox: no decision is made by mistake, and each outcome is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.console.conftest import OpenConsole
from tests.console.inbox_world import answer_of, approval, confirmation, post, subjects
from tests.support.relay_team import relay_team


@pytest.mark.slow
def test_a_question_with_hidden_characters_is_shown_and_needs_confirmation(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team())
    [item] = post(tmp_path, confirmation('{"to":"p\\u0430ypal\\u202e.com"}'))
    expect(console.page.locator(".line")).to_contain_text("misleading")
    keyboard = console.page.keyboard
    keyboard.press("j")
    question = console.role("article", "Question")
    expect(question.locator("mark")).to_have_text(["\u0430U+0430", "U+202E"])
    expect(question).to_contain_text("Hidden or misleading characters.")
    keyboard.press("a")
    expect(console.page.locator("dialog")).to_contain_text("Approve anyway?")
    keyboard.press("Escape")
    expect(console.page.locator("dialog")).to_have_count(0)
    assert console.api("GET", f"/inbox/{item}")["status"] == "open"
    keyboard.press("a")
    console.page.locator("dialog").get_by_role("button", name="Approve").click()
    expect(console.page.locator("dialog")).to_have_count(0)
    assert answer_of(console, item)["choice"] == "approve"


@pytest.mark.slow
def test_a_cancelled_bulk_decision_leaves_the_rest_open_and_says_so(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team())
    page, dialog = console.page, console.page.locator("dialog")
    ids = post(tmp_path, *[approval(f"{name}?") for name in ("One", "Two", "Three")])
    held: list[Route] = []
    page.route("**/inbox/*/answer", lambda route: held.append(route))
    page.get_by_label("Select all 3").check()
    console.role("button", "Approve …").click()
    with page.expect_request("**/inbox/*/answer"):
        dialog.get_by_role("button", name="Approve").click()
    page.keyboard.press("Escape")
    expect(dialog.get_by_role("status")).to_contain_text("Stopping after the current one")
    [under_way] = held
    under_way.continue_()
    expect(dialog.get_by_role("status")).to_have_text("Stopped. Done: 1; not done: 2.")
    assert held == [under_way]
    assert answer_of(console, ids[0])["choice"] == "yes"
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    expect(subjects(console)).to_have_text(["Two?", "Three?"])
    expect(page.get_by_text("2 selected")).to_be_visible()
    for each in ids[1:]:
        assert console.api("GET", f"/inbox/{each}")["status"] == "open"


@pytest.mark.slow
def test_a_key_pressed_twice_decides_one_question(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team())
    [first, second] = post(tmp_path, approval("First?"), approval("Second?"))
    expect(subjects(console)).to_have_count(2)
    console.page.keyboard.press("j")
    expect(console.role("heading", "First?")).to_be_focused()
    # The second press comes as soon as the next question is there.
    console.page.evaluate(
        """document.addEventListener("focusin", () => {
          const again = new KeyboardEvent("keydown", { key: "a", bubbles: true, cancelable: true });
          document.body.dispatchEvent(again);
          window.__again = again.defaultPrevented;
        }, { once: true })"""
    )
    sent: list[str] = []
    console.page.on("request", lambda each: sent.append(each.url) if each.post_data else None)
    console.page.keyboard.press("a")
    expect(console.role("heading", "Second?")).to_be_focused()
    assert console.page.evaluate("window.__again") is True
    assert [each for each in sent if second in each] == []
    assert console.api("GET", f"/inbox/{second}")["status"] == "open"
    assert answer_of(console, first)["choice"] == "yes"


@pytest.mark.slow
def test_an_open_question_updates_outside_lists_and_closing_it_moves_the_focus(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team())
    [alone, _] = post(tmp_path, approval("Alone?"), confirmation('{"n":1}'))
    console.open(f"inbox/{alone}?kind=confirmation")
    expect(subjects(console)).to_have_text(["may till run pay?"])
    question = console.role("article", "Question")
    console.api("POST", f"/inbox/{alone}/assign", {"assignee": "mira"})
    expect(question).to_contain_text("mira")
    question.get_by_role("button", name="Yes").focus()
    console.api("POST", f"/inbox/{alone}/answer", {"choice": "no", "by": "安娜"})
    expect(question.get_by_role("alert")).to_have_text("安娜 answered: no")
    expect(console.role("heading", "Alone?")).to_be_focused()


@pytest.mark.slow
def test_hidden_characters_in_options_are_shown_and_no_single_key_sends(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team())
    options = ("yes", "sey\u202e")
    [item, context] = post(
        tmp_path,
        approval("Which?", options=options),
        approval("Why?", context={"note": "\u200b"}),
    )
    expect(console.page.locator(".line").filter(has_text="misleading")).to_have_count(2)
    console.page.keyboard.press("j")
    console.page.keyboard.press("a")
    dialog = console.page.locator("dialog")
    expect(dialog).to_contain_text("Approve anyway?")
    console.page.keyboard.press("Escape")
    console.role("button", re.compile("sey")).click()
    expect(dialog.locator("option")).to_have_text(["yes", "sey[U+202E]"])
    console.role("button", "Send the answer").click()
    expect(dialog).to_have_count(0)
    assert answer_of(console, item)["choice"] == options[1]
    assert console.api("GET", f"/inbox/{context}")["status"] == "open"
