"""The trace of a session: a waterfall of spans."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.console.conftest import WIDE, OpenConsole
from tests.console.place import Console, Look
from tests.console.trace_team import trace_team


def row(page: Page, text: str | re.Pattern[str]) -> Locator:
    """A span in the waterfall."""
    return page.locator(".spans .span-row").filter(has_text=text)


def traced(console: Console, text: str, look: Look = WIDE) -> Page:
    """The trace of a session in which this was said."""
    console.run(text, "s")
    console.open("sessions/s/trace")
    expect(row(console.page, "run 1").first).to_be_visible()
    return console.page


def test_a_trace_is_a_tree_with_times_tokens_and_cost_summed_upward(
    open_console: OpenConsole, look: Look
) -> None:
    console = open_console(trace_team(), look=look)
    page = traced(console, "stock")
    top = page.locator(".spans .span-row").first
    for told in ("360", "$0.0045"):
        expect(top).to_contain_text(told)
    expect(row(page, "desk agent")).to_contain_text("$0.003")
    expect(row(page, "desk agent")).to_contain_text("240")
    expect(page.get_by_text("360 tokens (300 in, 60 out)")).to_be_visible()
    child = console.role("link", re.compile("Open the trace of this session ask_"))
    expect(child).to_have_attribute("href", re.compile("^#/sessions/ask_[a-z0-9]+/trace$"))
    bars = page.locator(".spans .bar")
    assert bars.count() == page.locator(".spans .span-row").count()
    assert console.serious() == []
    assert console.fits()


@pytest.mark.slow
def test_errors_come_first_link_to_their_spans_and_count_retries(
    open_console: OpenConsole, look: Look
) -> None:
    console = open_console(trace_team(), look=look)
    page = traced(console, "flaky")
    wrong = console.role("region", "2 errors")
    expect(wrong.get_by_role("button")).to_have_count(2)
    tries = row(page, "flaky")
    expect(tries).to_have_count(3)
    expect(tries.nth(1)).to_contain_text("attempt 2")
    expect(tries.nth(2)).to_contain_text("attempt 3")
    wrong.get_by_role("button").nth(1).click()
    expect(tries.nth(1).get_by_role("button")).to_be_focused()
    details = console.role("region", "Details of the span")
    expect(details).to_contain_text("RuntimeError")
    details.get_by_role("button", name="Show content").click()
    expect(details).to_contain_text('<img src=x onerror="window.__ran=1">')
    expect(details.locator("mark.odd").first).to_have_text("U+202E")
    assert page.evaluate("window.__ran") is None
    assert console.serious() == []
    assert console.fits()


@pytest.mark.slow
def test_spans_are_filtered_and_shown_with_their_ancestors(
    open_console: OpenConsole,
) -> None:
    page = traced(open_console(trace_team()), "flaky")
    page.get_by_label("Filter spans").fill("error tool")
    expect(page.locator(".spans .span-row")).to_have_count(5)
    for above in ("session", "run 1", "desk agent"):
        expect(row(page, above)).to_have_count(1)
    expect(page).to_have_url(re.compile("q=error"))
    page.get_by_label("Filter spans").fill("triage → desk")
    expect(page.locator(".spans .span-row")).to_have_count(4)
    page.get_by_label("Filter spans").fill("nothing like it")
    expect(page.get_by_text("No span matches.")).to_be_visible()


@pytest.mark.slow
def test_the_waterfall_is_navigated_folded_and_opened_by_keyboard(
    open_console: OpenConsole,
) -> None:
    page = traced(open_console(trace_team()), "flaky")
    every = page.locator(".spans .span-row")
    expect(every).to_have_count(14)
    page.keyboard.press("/")
    expect(page.get_by_label("Filter spans")).to_be_focused()
    page.locator(".spans").focus()
    page.keyboard.press("End")
    expect(every.last.locator(".name")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(row(page, "desk agent").locator(".name")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(every).to_have_count(7)
    expect(row(page, "desk agent").locator(".fold")).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowUp")
    expect(row(page, "triage → desk").locator(".name")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(every).to_have_count(14)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    details = page.get_by_role("region", name="Details of the span")
    expect(details).to_contain_text("120 tokens (100 in, 20 out)")
    expect(page).to_have_url(re.compile("span=[0-9a-f]{16}"))
    page.keyboard.press("Escape")
    expect(details).to_have_count(0)


@pytest.mark.slow
def test_a_link_to_a_span_opens_scrolls_and_focuses_it(
    open_console: OpenConsole, look: Look
) -> None:
    console = open_console(trace_team(), look=look)
    console.run("many:300", "s", max_turns=10)
    span = console.api("GET", "/traces/s")["spans"][250]
    console.open(f"sessions/s/trace?span={span['span_id']}")
    chosen = console.page.locator(f".spans [data-span='{span['span_id']}'] .name")
    expect(chosen).to_be_focused()
    expect(chosen).to_be_in_viewport()
    expect(chosen).to_have_attribute("aria-pressed", "true")
    details = console.role("region", "Details of the span")
    expect(details).to_contain_text(span["span_id"])
    details.get_by_role("button", name="Show content").click()
    expect(details.get_by_role("heading", name="Arguments")).to_be_visible()
    details.get_by_role("button", name="Close").click()
    expect(chosen).to_be_focused()


@pytest.mark.slow
def test_running_spans_grow_and_their_end_is_shown_without_reload(
    open_console: OpenConsole,
) -> None:
    gate = threading.Event()
    console = open_console(trace_team(gate))
    try:
        console.start("hold", "s")
        console.open("sessions/s/trace")
        page = console.page
        expect(row(page, "desk agent").locator(".sign")).to_have_text("▶")
        expect(page.locator(".bar.agent.running")).to_have_count(1)
        time = row(page, "desk agent").locator(".number").last
        before = time.inner_text()
        expect(time).not_to_have_text(before)
    finally:
        gate.set()
    expect(row(page, "desk agent").locator(".sign")).to_have_text("✓")
    expect(page.locator(".bar.running")).to_have_count(0)


@pytest.mark.slow
def test_a_waiting_trace_shows_the_inbox_item_and_continues_after_the_answer(
    open_console: OpenConsole,
) -> None:
    console = open_console(trace_team())
    page = traced(console, "refund")
    waits = console.role("region", "Waiting for 1 item")
    waits.get_by_role("button", name="confirmation for operator").click()
    [item] = console.api("GET", "/inbox")["items"]
    way = console.role("link", "See it in the inbox")
    expect(way).to_have_attribute("href", f"#/inbox/{item['id']}")
    expect(row(page, "confirmation for operator").locator(".bar")).to_have_class(
        re.compile("waiting")
    )
    console.api("POST", f"/inbox/{item['id']}/answer", {"choice": "approve"})
    expect(waits).to_have_count(0)
    expect(row(page, "refund tool")).to_have_count(1)


def night(spans: list[dict[str, Any]], hours: float) -> None:
    """Let a person take hours to answer; all other moments are a tenth of a second apart."""
    [asked] = [span for span in spans if span["kind"] == "inbox"]
    both = ("started_at", "ended_at")
    moments = sorted({span[end] for span in spans for end in both if span[end] is not None})
    waited = {moment: hours * 3600 * (moment >= asked["ended_at"]) for moment in moments}
    fixed = {moment: moments[0] + n / 10 + waited[moment] for n, moment in enumerate(moments)}
    for span in spans:
        for end in both:
            span[end] = fixed.get(span[end])
        if span["ended_at"] is not None:
            span["duration_ms"] = (span["ended_at"] - span["started_at"]) * 1000


@pytest.mark.slow
def test_a_long_wait_does_not_squeeze_the_other_bars(open_console: OpenConsole) -> None:
    console = open_console(trace_team())
    console.run("refund", "s")
    [item] = console.api("GET", "/inbox")["items"]
    console.api("POST", f"/inbox/{item['id']}/answer", {"choice": "approve"})
    console.run("and now?", "s", on_busy="wait")
    trace = console.api("GET", "/traces/s")
    night(trace["spans"], 9)
    console.page.route(
        "**/api/v1/traces/s?*",
        lambda route: route.fulfill(json=trace, content_type="application/json"),
    )
    console.open("sessions/s/trace")
    expect(console.role("img", "9 h 0 min of waiting, shortened")).to_be_visible()
    assert 0.05 < place(console.page.locator(".bar.inbox")) < 0.9
    assert 0.1 < place(console.page.locator(".bar.tool_call")) < 0.95
    assert place(console.page.locator(".bar.llm_call").last) < 1


def place(bar: Locator) -> float:
    """Where on the axis a bar begins."""
    begins = "element => element.offsetLeft / element.parentElement.clientWidth"
    return float(bar.evaluate(begins))


@pytest.mark.slow
def test_only_the_visible_spans_of_a_thousand_are_drawn(open_console: OpenConsole) -> None:
    console = open_console(trace_team())
    console.run("many:1000", "s", max_turns=20)
    spans = console.api("GET", "/traces/s")["spans"]
    assert len(spans) > 1000
    console.open("sessions/s/trace")
    page = console.page
    every = page.locator(".spans .span-row")
    expect(every.first).to_be_visible()
    assert every.count() < 60
    page.locator(".spans").focus()
    page.keyboard.press("End")
    last = page.locator(f"[data-span='{spans[-1]['span_id']}']")
    expect(last.locator(".name")).to_be_focused()
    expect(last).to_be_in_viewport()
    assert every.count() < 60
    expect(page.locator(".spans li").last).to_have_attribute("aria-setsize", str(len(spans)))


@pytest.mark.slow
def test_a_trace_that_fails_to_load_shows_the_reason_and_is_retried(
    open_console: OpenConsole,
) -> None:
    console = open_console(trace_team())
    console.run("hello", "s")
    console.expected = ["500"]
    problem = {"code": "some.code", "detail": "the store is away", "status": 500}

    def refuse(route: Route) -> None:
        route.fulfill(status=500, body=json.dumps(problem), content_type="application/json")

    console.page.route("**/api/v1/traces/s?*", refuse)
    console.open("sessions/s/trace")
    told = console.page.get_by_role("alert").filter(has_text="the store is away")
    expect(told).to_be_visible()
    console.page.unroute("**/api/v1/traces/s?*")
    told.get_by_role("button", name="Try again").click()
    expect(row(console.page, "run 1")).to_have_count(1)
