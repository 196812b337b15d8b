"""The inbox: what waits for people is seen, found and followed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from ekiden import EscalationStep, InboxItem
from tests.console.conftest import OpenConsole
from tests.console.inbox_world import HOSTILE, approval, confirmation, in_us, post, subjects
from tests.console.place import Look
from tests.support.relay_team import relay_team


def test_urgent_and_old_questions_come_first_with_all_details(
    open_console: OpenConsole, look: Look, tmp_path: Path
) -> None:
    console = open_console(relay_team(), look=look)
    expect(console.page.get_by_text("The inbox is empty")).to_be_visible()
    post(
        tmp_path,
        approval("new", created_at_us=in_us(minutes=-1)),
        approval("old", created_at_us=in_us(minutes=-90)),
        approval(
            "15 % for 青木商店?",
            body="They have ordered for years.\nشركة قديمة",
            priority=4,
            context={"orders": 17},
            role="sales lead",
            deadline_us=in_us(minutes=60 * 5.5),
            default="no",
            chain=(EscalationStep(role="manager", after_s=3600),),
            session_id="s1",
        ),
        approval("undone", kind="rollback_failed", options=("seen",), notice=True),
    )
    expect(subjects(console)).to_have_text(["15 % for 青木商店?", "old", "new"])
    expect(console.page.locator(".line").nth(1)).to_contain_text("1 hr. ago")
    assert console.serious() == []
    assert console.fits()

    subjects(console).first.click()
    question = console.role("article", "Question")
    expect(console.role("heading", "15 % for 青木商店?")).to_be_focused()
    expect(question).to_contain_text("They have ordered for years.")
    expect(question).to_contain_text("ends in 5 hr. Default answer: no")
    expect(question).to_contain_text("manager in 59 min.")
    expect(question).to_contain_text("sales continues with your answer.")
    expect(question).to_contain_text('"orders": 17')
    expect(question.get_by_role("link", name="s1")).to_have_attribute("href", "#/sessions/s1")
    expect(question.locator("time").first).to_have_attribute("title", re.compile(r"^20\d\d-"))
    assert console.page.url.split("#")[1].startswith("/inbox/inb_")
    assert console.serious() == []
    assert console.fits()

    console.role("link", "Notifications (1)").click()
    expect(subjects(console)).to_have_text(["undone"])
    subjects(console).click()
    expect(question).to_contain_text("No answer needed")
    console.role("button", "Seen").click()
    expect(console.page.get_by_text("No notifications")).to_be_visible()


@pytest.mark.slow
def test_questions_are_filtered_and_searched(open_console: OpenConsole, tmp_path: Path) -> None:
    console = open_console(relay_team())
    page = console.page
    ids = post(
        tmp_path,
        approval("lunch", assignee="local", role="cook"),
        approval("dinner", assignee="mira", from_agent="shipping"),
        confirmation('{"order":"X-7"}'),
    )
    expect(subjects(console)).to_have_text(["lunch", "dinner", "may till run pay?"])
    page.keyboard.press("/")
    page.keyboard.type("x-7")
    expect(subjects(console)).to_have_text(["may till run pay?"])
    assert page.url.endswith("text=x-7")
    page.get_by_label("Search").fill("")
    expect(subjects(console)).to_have_count(3)
    page.keyboard.press("Escape")
    for label, choice, found in [
        ("Assigned to", "Me", ["lunch"]),
        ("Assigned to", "Unassigned", ["may till run pay?"]),
        ("Kind", "Approval of a tool", ["may till run pay?"]),
        ("Role", "cook", ["lunch"]),
        ("Agent", "shipping", ["dinner"]),
    ]:
        page.get_by_label(label).select_option(choice)
        expect(subjects(console)).to_have_text(found)
        page.get_by_label(label).select_option("All")
        expect(subjects(console)).to_have_count(3)
    page.get_by_label("Kind").select_option("Routing")
    expect(page.get_by_text("No question matches these filters")).to_be_visible()

    console.api(
        "POST", f"/inbox/{ids[0]}/answer", {"choice": "no", "text": "Not hungry", "by": "安娜"}
    )
    console.open("inbox?view=closed")
    expect(page.locator(".line")).to_contain_text("Answered · no")
    subjects(console).click()
    question = console.role("article", "Question")
    expect(question).to_contain_text("安娜 answered: no")
    expect(question).to_contain_text("Not hungry")
    expect(question.get_by_role("button")).to_have_count(0)


@pytest.mark.slow
def test_hostile_texts_are_escaped(open_console: OpenConsole, tmp_path: Path) -> None:
    console = open_console(relay_team())
    arguments = json.dumps({HOSTILE: HOSTILE})
    [item] = post(
        tmp_path,
        confirmation(
            arguments,
            subject=f"s{HOSTILE}",
            body=f"b{HOSTILE} [x](javascript:window.__ran=1)",
            from_agent="a<b>",
            role="r<img src=x>",
            assignee="p<img src=x>",
            tool="t<script>",
            context={"c": HOSTILE},
            default="reject",
            deadline_us=in_us(minutes=5),
        ),
    )
    subjects(console).click()
    question = console.role("article", "Question")
    for text in (f"s{HOSTILE}", f"b{HOSTILE}", "a<b>", "r<img src=x>", "p<img src=x>", "t<script>"):
        expect(question).to_contain_text(text)
    expect(question).to_contain_text("javascript:window.__ran=1")
    expect(question.locator("img, script, a[href^=javascript]")).to_have_count(0)
    console.api("POST", f"/inbox/{item}/answer", {"choice": "reject", "text": HOSTILE})
    expect(question.locator("blockquote")).to_have_text(HOSTILE)
    assert console.page.evaluate("window.__ran") is None


@pytest.mark.slow
def test_a_read_only_key_is_offered_no_actions(open_console: OpenConsole, tmp_path: Path) -> None:
    console = open_console(relay_team())

    def only_read(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"scopes": ["read"]})

    console.page.route("**/api/v1/me", only_read)
    console.page.reload()
    [item] = post(tmp_path, approval("one"))
    subjects(console).click()
    question = console.role("article", "Question")
    expect(question).to_be_visible()
    expect(question.get_by_role("button")).to_have_count(0)
    expect(console.page.locator(".line input")).to_have_count(0)
    console.page.keyboard.press("a")
    console.page.keyboard.press("?")
    expect(console.page.locator("dialog")).to_contain_text("Next question")
    expect(console.page.locator("dialog")).not_to_contain_text("Approve")
    assert console.api("GET", f"/inbox/{item}")["status"] == "open"


@pytest.mark.slow
def test_a_thousand_questions_stay_fast(open_console: OpenConsole, tmp_path: Path) -> None:
    console = open_console(relay_team())
    page = console.page
    ids = post(tmp_path, *[approval("Question", body=f"No. {n:04}") for n in range(1000)])
    expect(console.role("link", "Waiting (1000)")).to_be_visible()
    assert page.locator(".line").count() < 60
    page.keyboard.press("j")
    question = console.role("article", "Question")
    expect(question).to_contain_text("No. 0000")
    # What the page works, not how long it has to wait for a processor.
    driver = page.context.new_cdp_session(page)
    driver.send("Performance.enable", {"timeDomain": "threadTicks"})

    def worked_s() -> float:
        metrics = driver.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    before = worked_s()
    for number in range(1, 21):
        page.keyboard.press("j")
        expect(question).to_contain_text(f"No. {number:04}")
    assert (worked_s() - before) / 20 < 0.1
    expect(page.locator(".line.now a")).to_have_attribute("href", f"#/inbox/{ids[20]}")
    expect(page.locator(".line.now")).to_be_in_viewport()
    console.api("POST", f"/inbox/{ids[0]}/answer", {"choice": "yes"})
    expect(console.role("link", "Waiting (999)")).to_be_visible()


@pytest.mark.slow
def test_the_inbox_is_chinese_for_a_chinese_locale(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    look = Look(width=360, height=740, theme="dark", locale="zh-CN")
    console = open_console(relay_team(), look=look)
    post(
        tmp_path,
        confirmation('{"amount":5}'),
        InboxItem(kind="escalation", from_agent="a", subject="问"),
    )
    subjects(console).first.click()
    expect(console.role("button", "批准")).to_be_visible()
    expect(console.role("heading", "将会发生什么")).to_be_visible()
    assert console.page.locator("main").inner_text().count("inbox.") == 0
    assert console.fits()
