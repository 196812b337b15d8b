"""The inbox: people decide, by keyboard or mouse, once, and for what they saw."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from ekiden import InboxItem
from tests.console.conftest import OpenConsole
from tests.console.inbox_world import (
    HOSTILE,
    answer_of,
    approval,
    confirmation,
    in_us,
    post,
    subjects,
)
from tests.console.place import Look
from tests.support.relay_team import REFUNDS, relay_team


def test_a_tool_is_approved_with_the_keyboard_and_the_run_continues(
    open_console: OpenConsole, look: Look
) -> None:
    console = open_console(relay_team(), look=look)
    REFUNDS.clear()
    console.start("a refund, please", "s1")
    expect(subjects(console)).to_have_text(["may desk run refund?"])
    keyboard = console.page.keyboard
    keyboard.press("j")
    expect(console.role("article", "Question")).to_contain_text('"order": "1042"')
    keyboard.press("a")
    expect(console.page.get_by_text("The inbox is empty")).to_be_visible()
    expect(console.page.locator(".toast")).to_contain_text("Approved")
    run = console.api("GET", "/sessions/s1/chain")
    assert run["chain"][-1] == "desk"
    [item] = console.api("GET", "/inbox?status=answered")["items"]
    assert item["answer"]["choice"] == "approve"
    assert (item["answer"]["by"], item["answer"]["via"]) == ("local", "console")


@pytest.mark.slow
def test_a_rejection_has_a_reason_and_the_next_question_follows(
    open_console: OpenConsole, look: Look, tmp_path: Path
) -> None:
    console = open_console(relay_team(), look=look)
    [first, second] = post(tmp_path, confirmation('{"amount":5}'), approval("Lunch?"))
    expect(subjects(console)).to_have_count(2)
    keyboard = console.page.keyboard
    keyboard.press("j")
    expect(console.role("heading", "may till run pay?")).to_be_focused()
    keyboard.press("r")
    expect(console.page.locator("dialog textarea")).to_be_focused()
    keyboard.type("Too much: 太贵")
    assert console.serious() == []
    assert console.fits()
    keyboard.press("Control+Enter")
    expect(console.role("heading", "Lunch?")).to_be_focused()
    answer = answer_of(console, first)
    assert (answer["choice"], answer["text"]) == ("reject", "Too much: 太贵")
    assert console.page.url.endswith(second)


@pytest.mark.slow
def test_edited_arguments_are_checked_compared_and_confirmed(
    open_console: OpenConsole, look: Look, tmp_path: Path
) -> None:
    console = open_console(relay_team(), look=look)
    [item] = post(tmp_path, confirmation('{"order":12345678901234567890,"amount":500}'))
    expect(subjects(console)).to_have_count(1)
    page, keyboard = console.page, console.page.keyboard
    keyboard.press("j")
    expect(console.role("article", "Question")).to_contain_text("12345678901234567890")
    keyboard.press("e")
    text = page.locator("dialog textarea")
    expect(text).to_be_focused()
    submit = console.role("button", "Approve with these arguments")
    expect(submit).to_be_disabled()
    keyboard.press("Control+a")
    keyboard.type('{"order": 12345678901234567890, "amount": 50')
    expect(page.locator("dialog")).to_contain_text("This is not JSON")
    expect(submit).to_be_disabled()
    keyboard.press("Control+Enter")
    keyboard.type("}")
    expect(page.locator(".diff .removed")).to_have_text('-   "amount": 500')
    expect(page.locator(".diff .added")).to_have_text('+   "amount": 50')
    assert console.serious() == []
    assert console.fits()
    keyboard.press("Tab")
    keyboard.press("Tab")
    expect(console.role("checkbox", "I have compared them")).to_be_focused()
    keyboard.press("Space")
    keyboard.press("Enter")
    expect(page.locator("dialog")).to_have_count(0)
    answer = answer_of(console, item)
    assert answer["choice"] == "approve"
    assert answer["arguments"] == '{"order": 12345678901234567890, "amount": 50}'


@pytest.mark.slow
def test_a_decision_taken_elsewhere_is_shown_and_typed_text_is_kept(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team())
    page = console.page
    [first, second] = post(tmp_path, approval("First?"), approval("Second?"))
    expect(subjects(console)).to_have_count(2)
    subjects(console).first.click()
    expect(console.role("article", "Question")).to_be_visible()
    page.keyboard.press("r")
    expect(page.locator("dialog textarea")).to_be_focused()
    page.keyboard.type("Because I say so")
    console.api("POST", f"/inbox/{first}/answer", {"choice": "yes", "by": "mira"})
    expect(page.locator("dialog [role=alert]").first).to_have_text("mira answered: yes")
    expect(subjects(console)).to_have_text(["Second?"])
    expect(page.locator("dialog textarea")).to_have_value("Because I say so")
    expect(page.locator("dialog").get_by_role("button", name="Reject")).to_be_disabled()
    page.keyboard.press("Escape")
    question = console.role("article", "Question")
    expect(question.get_by_role("alert")).to_have_text("mira answered: yes")
    expect(question.get_by_role("button")).to_have_count(0)

    subjects(console).click()
    console.api("POST", f"/inbox/{second}/cancel", {"reason": "It is settled."})
    expect(question.get_by_role("alert")).to_have_text("local withdrew the question.")
    expect(question).to_contain_text("It is settled.")


def test_a_decision_applies_only_to_the_question_as_it_was_shown(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team())
    console.expected = [r"status of 4(12|09)"]
    page = console.page
    [changed, late] = post(tmp_path, approval("Changed?"), approval("Late?"))
    expect(subjects(console)).to_have_count(2)
    subjects(console).first.click()
    expect(console.role("article", "Question")).to_be_visible()
    page.keyboard.press("r")
    expect(page.locator("dialog textarea")).to_be_focused()
    page.keyboard.type("No.")
    console.api("POST", f"/inbox/{changed}/assign", {"assignee": "mira"})
    page.keyboard.press("Control+Enter")
    expect(page.locator("dialog")).to_contain_text("has changed since you opened it")
    page.keyboard.press("Control+Enter")
    expect(page.locator("dialog")).to_have_count(0)
    assert answer_of(console, changed)["text"] == "No."

    expect(console.role("heading", "Late?")).to_be_focused()

    def somebody_was_first(route: Route) -> None:
        console.api("POST", f"/inbox/{late}/answer", {"choice": "no", "by": "安娜"})
        route.continue_()

    page.route(f"**/inbox/{late}/answer", somebody_was_first)
    console.role("button", "Yes", exact=True).click()
    expect(page.locator(".toast.bad")).to_contain_text("安娜 answered: no")
    expect(subjects(console)).to_have_count(0)
    assert answer_of(console, late)["by"] == "安娜"


@pytest.mark.slow
def test_questions_are_answered_snoozed_assigned_and_cancelled(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team())
    page = console.page
    dialog = page.locator("dialog")
    [tone, carrier, person, later, never] = post(
        tmp_path,
        InboxItem(kind="approval", from_agent="writer", subject="Which tone?"),
        approval("Carrier?", options=("DHL", "UPS", "none")),
        InboxItem(
            kind="handoff", from_agent="desk", subject="broken", options=("answer", "give back")
        ),
        approval("Later?", deadline_us=in_us(minutes=30)),
        approval("Never?"),
    )
    expect(subjects(console)).to_have_count(5)
    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(dialog.locator("textarea")).to_be_focused()
    page.keyboard.type(f"Friendly {HOSTILE}")
    page.keyboard.press("Control+Enter")
    expect(console.role("heading", "Carrier?")).to_be_visible()
    console.role("button", "UPS …").click()
    expect(dialog.get_by_role("combobox")).to_have_value("UPS")
    console.role("button", "Send the answer").click()
    expect(console.role("heading", "broken")).to_be_visible()
    expect(console.role("article", "Question")).to_contain_text(
        "If you give it back, desk continues"
    )
    console.role("button", "Give back …").click()
    page.get_by_label("Comment (optional)").fill("Send a new one.")
    console.role("button", "Send the answer").click()
    expect(console.role("heading", "Later?")).to_be_visible()
    assert answer_of(console, tone)["text"] == f"Friendly {HOSTILE}"
    assert answer_of(console, carrier)["choice"] == "UPS"
    assert answer_of(console, person)["choice"] == "give back"

    console.expected = [r"status of 4\d\d"]
    console.role("button", "Snooze …").click()
    page.get_by_label("1 hour").check()
    console.role("button", "Snooze", exact=True).click()
    expect(dialog).to_contain_text("has a deadline before that")
    page.get_by_label("15 minutes").check()
    console.role("button", "Snooze", exact=True).click()
    expect(subjects(console)).to_have_text(["Never?"])
    console.role("link", "Snoozed (1)").click()
    expect(subjects(console)).to_have_text(["Later?"])
    subjects(console).click()
    expect(console.role("article", "Question")).to_contain_text("Snoozed until")
    assert console.api("GET", f"/inbox/{later}")["snoozed_until_us"] < in_us(minutes=16)

    console.open(f"inbox/{never}")
    for who, label in [
        ("local", "To me (local)"),
        (None, "Unassigned"),
        ("安娜", "To another person"),
    ]:
        console.role("button", "Assign …").click()
        dialog.get_by_label(label).check()
        if label == "To another person":
            page.get_by_label("Name").fill("安娜")
        console.role("button", "Assign", exact=True).click()
        expect(dialog).to_have_count(0)
        assert console.api("GET", f"/inbox/{never}")["assignee"] == who
    expect(console.role("article", "Question")).to_contain_text("安娜")
    console.role("button", "Withdraw …").click()
    dialog.locator("textarea").fill("Nobody asks any more.")
    console.role("button", "Withdraw", exact=True).click()
    expect(subjects(console)).to_have_count(0)
    assert console.api("GET", f"/inbox/{never}")["reason"] == "Nobody asks any more."


@pytest.mark.slow
def test_bulk_decisions_report_the_questions_they_skipped(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team())
    page, dialog = console.page, console.page.locator("dialog")
    [one, two, words, hidden] = post(
        tmp_path,
        approval("One?"),
        approval("Two?"),
        InboxItem(kind="approval", from_agent="writer", subject="Which tone?"),
        confirmation('{"a":"\u202e"}', subject="Hides"),
    )
    expect(subjects(console)).to_have_count(4)
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.get_by_label("Select all 4").check()
    expect(page.get_by_text("4 selected")).to_be_visible()
    page.keyboard.press("a")
    expect(dialog).to_contain_text("Approve 4 questions")
    dialog.get_by_role("button", name="Approve").click()
    expect(dialog.get_by_role("alert").last).to_contain_text("2 failed:")
    expect(dialog.get_by_role("listitem").filter(has_text="not among its options")).to_contain_text(
        "Which tone?"
    )
    expect(dialog.get_by_role("listitem").filter(has_text="characters")).to_contain_text("Hides")
    assert console.serious() == []
    dialog.get_by_role("button", name="Cancel").click()
    expect(subjects(console)).to_have_text(["Which tone?", "Hides"])
    assert answer_of(console, one)["choice"] == answer_of(console, two)["choice"] == "yes"
    page.get_by_label("Select all 2").check()
    console.role("button", "Assign …").first.click()
    dialog.get_by_role("button", name="Assign").click()
    expect(dialog).to_have_count(0)
    expect(page.locator(".line").filter(has_text="local")).to_have_count(2)
    for each in (words, hidden):
        assert console.api("GET", f"/inbox/{each}")["assignee"] == "local"


@pytest.mark.slow
def test_equal_questions_are_answered_at_once_and_a_tool_for_the_session(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team())
    ids = post(tmp_path, *[confirmation('{"n":1}') for _ in range(3)], confirmation('{"n":2}'))
    expect(subjects(console)).to_have_count(4)
    subjects(console).first.click()
    console.page.get_by_label("all identical questions (3 here)").check()
    console.page.get_by_label("Do not ask again for this tool").check()
    console.role("button", "Approve", exact=True).click()
    expect(subjects(console)).to_have_count(1)
    expect(console.page.locator(".toast")).to_contain_text("3 approved")
    for each in ids[:3]:
        assert answer_of(console, each)["always"] is True
    assert console.api("GET", f"/inbox/{ids[3]}")["status"] == "open"
