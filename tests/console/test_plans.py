"""Plans: the tab of a session, the list of all, and the preview."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.console.conftest import WIDE, OpenConsole
from tests.console.place import Look
from tests.console.plans_team import Sky, plans_team
from tests.support.relay_team import relay_team


def test_a_plan_is_shown_live_while_it_runs(open_console: OpenConsole, look: Look) -> None:
    sky = Sky()
    console = open_console(plans_team(sky), look=look)
    console.start("A trip to Kyoto", session="p1")
    console.open("sessions/p1/plan")
    page = console.page
    expect(page.locator("[data-box='sky']")).to_contain_text("▶ weather")
    expect(page.locator("[data-box='money']")).to_contain_text("✕ finance")
    expect(page.locator("[data-box='trip']")).to_contain_text("○ travel")
    expect(page.locator("[data-arrow]")).to_have_count(3)
    expect(page.locator(".progress")).to_contain_text("0 of 4 tasks done")
    expect(page.locator(".plan-facts")).to_contain_text("running")
    stands = page.locator("[data-box] rect").evaluate_all("all => all.map(each => each.outerHTML)")
    sky.release()
    expect(page.locator("[data-box='trip']")).to_contain_text("✓ travel")
    expect(page.locator(".progress")).to_contain_text("2 of 4 tasks done · 2 failed")
    expect(page.locator(".plan-facts")).to_contain_text("completed")
    expect(page.get_by_role("region", name="Answer").locator("strong")).to_have_text(
        ["weather", "travel"]
    )
    expect(page.locator(".markdown strong", has_text="weather").last).to_be_visible()
    expect(page.get_by_text("nobody sells umbrellas")).to_be_visible()
    now = page.locator("[data-box] rect").evaluate_all("all => all.map(each => each.outerHTML)")
    assert now == stands
    assert console.serious() == []
    assert console.fits()


@pytest.mark.slow
def test_a_task_is_selected_with_the_keyboard(open_console: OpenConsole, look: Look) -> None:
    sky = Sky()
    sky.release()
    console = open_console(plans_team(sky), look=look)
    console.run("A trip to Kyoto", session="p1")
    console.open("sessions/p1/plan")
    page = console.page
    box = page.get_by_role("button", name=re.compile("weather, done, Is it warm")).first
    box.focus()
    page.keyboard.press("Enter")
    panel = page.locator(".panel")
    expect(panel.get_by_role("heading", name="sky · weather")).to_be_focused()
    expect(page).to_have_url(re.compile(r"plan\?task=sky$"))
    expect(panel.locator("pre")).to_contain_text("京都")
    expect(panel.locator("em")).to_have_text("Sunny")
    expect(panel.locator(".odd")).to_contain_text("U+202E")
    assert console.serious() == []
    assert console.fits()
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(box).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press(" ")
    expect(panel).to_contain_text("no line to the exchange")
    expect(panel.locator("dd", has_text=re.compile("^2$"))).to_be_visible()
    assert page.title() != "run"
    assert page.locator("main img").count() == 0
    console.open("sessions/p1/plan?task=sky")
    panel.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"#/sessions/(?!p1/)[^/]+$"))


@pytest.mark.slow
def test_a_session_without_a_plan_shows_a_message(open_console: OpenConsole) -> None:
    console = open_console(relay_team())
    console.run("hello", session="s1")
    console.open("sessions/s1/plan")
    expect(console.page.get_by_text("This session has no plan")).to_be_visible()
    console.open("plans")
    expect(console.page.get_by_text("No plans yet")).to_be_visible()


@pytest.mark.slow
def test_a_read_only_key_is_offered_no_preview(open_console: OpenConsole) -> None:
    console = open_console(relay_team(), at="plans")
    page = console.page
    expect(page.get_by_text("Try a request")).to_be_visible()
    reader = {**console.api("GET", "/me"), "scopes": ["read"]}
    page.route("**/api/v1/me", lambda route: route.fulfill(json=reader))
    page.reload()
    expect(page.get_by_text("No plans yet")).to_be_visible()
    expect(page.get_by_text("Try a request")).to_have_count(0)


@pytest.mark.slow
def test_all_plans_are_listed_and_filtered(open_console: OpenConsole, look: Look) -> None:
    sky = Sky()
    sky.release()
    console = open_console(plans_team(sky), look=look)
    console.run("A trip to Kyoto", session="p1")
    console.open("plans")
    page = console.page
    plans = page.locator(".plan")
    expect(plans).to_have_count(1)
    expect(plans.locator(".progress")).to_have_text("2 of 4 tasks done · 2 failed")
    expect(plans.locator("li", has_text="finance").locator(".odd")).to_contain_text("U+202E")
    console.run("Another trip", session="p2")
    expect(plans).to_have_count(2)
    expect(plans.first.get_by_role("heading")).to_have_text("p2")
    console.run("Once more", session="p1")
    expect(plans).to_have_count(3)
    assert console.serious() == []
    assert console.fits()
    page.get_by_role("combobox", name="Status").select_option("failed")
    expect(page).to_have_url(re.compile(r"plans\?status=failed$"))
    expect(plans.first).to_contain_text("2 tasks match")
    page.get_by_role("combobox", name="Agent", exact=True).select_option("weather")
    expect(page.get_by_text("No task matches")).to_be_visible()
    page.get_by_role("combobox", name="Status").select_option("done")
    expect(plans).to_have_count(3)
    plans.first.get_by_role("link", name="weather").click()
    expect(page.locator(".panel h3")).to_have_text("sky · weather")
    assert page.title() != "run"


@pytest.mark.slow
def test_a_request_is_previewed_as_a_plan_without_running_it(
    open_console: OpenConsole, look: Look
) -> None:
    console = open_console(plans_team(Sky()), look=look, at="plans")
    page = console.page
    page.get_by_text("Try a request").click()
    page.get_by_label("Request").fill("A trip to Kyoto")
    page.get_by_label("Supervisor").select_option("desk")
    page.get_by_role("button", name="Split").press("Enter")
    expect(page.locator("[data-box]")).to_have_count(4)
    expect(page.get_by_text("its own code")).to_be_visible()
    expect(page.get_by_text("nobody sells umbrellas")).to_be_visible()
    page.locator("[data-box='card']").press("Enter")
    expect(page.locator(".panel")).to_contain_text("money, trip")
    assert console.serious() == []
    assert console.fits()
    assert console.api("GET", "/sessions")["items"] == []
    assert page.locator("main img").count() == 0
    page.get_by_label("Request").fill("@nobody hello")
    page.get_by_label("Supervisor").select_option("")
    console.expected.append("404")
    page.get_by_role("button", name="Split").click()
    expect(page.get_by_role("alert")).to_contain_text("nobody")


@pytest.mark.slow
def test_plans_are_shown_in_chinese(open_console: OpenConsole) -> None:
    sky = Sky()
    console = open_console(plans_team(sky), look=replace(WIDE, locale="zh-CN"))
    console.start("京都之行", session="p1")
    console.open("sessions/p1/plan")
    expect(console.page.locator(".progress")).to_contain_text("4 个任务，已完成 0 个")
    sky.release()
    expect(console.page.get_by_role("region", name="答复")).to_be_visible()
