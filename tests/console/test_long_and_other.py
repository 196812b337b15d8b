"""Long lists that change, fields that are typed in, other tabs, and words that cannot be had."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Route, expect

from tests.console.conftest import OpenConsole
from tests.console.test_login import log_in
from tests.support.relay_team import relay_team

LIST = re.compile(r"/api/v1/sessions\?")


@pytest.mark.slow
def test_a_changing_list_of_thousands_has_no_duplicates_or_gaps(
    open_console: OpenConsole,
) -> None:
    console = open_console(relay_team())
    page = console.page
    console.run("hello", "real")
    [real] = console.api("GET", "/sessions?limit=1")["items"]
    names = [f"s{n:04}" for n in range(2100)]

    def pages(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        limit = int(query["limit"][0])
        begin = names.index(query["cursor"][0]) + 1 if "cursor" in query else 0
        part = names[begin : begin + limit]
        items: list[Any] = [real | {"session_id": name, "title": name} for name in part]
        more = part[-1] if begin + limit < len(names) else None
        route.fulfill(json={"items": items, "next_cursor": more})

    page.route(LIST, pages)
    console.open("sessions")
    count = page.get_by_role("status").filter(has_text="sessions")
    for shown in (100, 250, 550, 1000, 2000):
        expect(count).to_contain_text(re.compile(f"{shown}|{shown:,}"))
        page.get_by_role("button", name="Show more").click()
    expect(page.locator(".long-list li").first).to_have_attribute("aria-setsize", "2100")
    names[:0] = ["new1", "new2", "new3"]
    console.run("again", "real")
    expect(page.get_by_role("link", name="new1")).to_be_visible()
    expect(page.locator(".long-list li").first).to_have_attribute("aria-setsize", "2103")


@pytest.mark.slow
def test_text_typed_into_a_filter_stays_while_it_is_applied(open_console: OpenConsole) -> None:
    console = open_console(relay_team(), at="sessions")
    page = console.page
    field = page.get_by_role("searchbox").first
    field.press_sequentially("a ")
    expect(page).to_have_url(re.compile("=a$"))
    field.press_sequentially("b")
    expect(page).to_have_url(re.compile(r"=a(\+|%20)b$"))
    expect(field).to_have_value("a b")
    page.goto(f"{console.url}/#/sessions")
    expect(field).to_have_value("")


@pytest.mark.slow
def test_a_login_in_another_tab_is_noticed(open_console: OpenConsole) -> None:
    console = open_console(relay_team())
    console.expected = ["401", "403", "WebSocket"]
    page = console.page
    admin = console.api("POST", "/keys", {"name": "admin", "scopes": ["admin"]})["key"]
    keys = [
        console.api(
            "POST",
            "/keys",
            {"name": name, "scopes": ["read", "run"]},
            Authorization=f"Bearer {admin}",
        )["key"]
        for name in ("anna", "bela")
    ]
    page.reload()
    log_in(console, keys[0])
    expect(page.get_by_text("anna")).to_be_visible()
    page.evaluate(
        """(key) => fetch("/api/v1/login", {method: "POST", body: JSON.stringify({key}),
             headers: {"Content-Type": "application/json"}})""",
        keys[1],
    )
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("bela")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("API key")).to_be_visible()


@pytest.mark.slow
def test_a_language_that_fails_to_load_is_not_stored(open_console: OpenConsole) -> None:
    console = open_console(relay_team())
    console.expected = ["404"]
    page = console.page
    page.route(re.compile(r"zh.*\.json"), lambda route: route.fulfill(status=404, body="{}"))
    page.get_by_label("Language").select_option("zh")
    expect(page.get_by_role("alert")).to_contain_text("404")
    page.reload()
    expect(page.get_by_role("link", name="Inbox")).to_be_visible()
