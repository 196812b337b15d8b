"""Who may look: login with a key, kept where no script reads it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.conftest import OpenConsole
from tests.console.place import Console, Look
from tests.support.relay_team import relay_team


def key_of(console: Console, name: str, *scopes: str) -> str:
    """A new key; the first one is made on the machine of the server."""
    made = console.api("POST", "/keys", {"name": name, "scopes": list(scopes)})
    key: str = made["key"]
    return key


def log_in(console: Console, key: str) -> None:
    console.page.get_by_label("API key").fill(key)
    console.page.get_by_label("API key").press("Enter")


def test_login_with_a_key(open_console: OpenConsole, look: Look) -> None:
    console = open_console(relay_team(), look=look)
    console.expected = ["401", "WebSocket"]
    page = console.page
    expect(page.locator(".connection")).to_have_text("Live")
    key = key_of(console, "Mei 梅", "read", "run", "answer")
    page.reload()
    expect(page.get_by_label("API key")).to_be_focused()
    assert console.serious() == []
    assert console.fits()

    log_in(console, key[:-1] + ("a" if key[-1] != "a" else "b"))
    expect(page.get_by_role("alert")).to_contain_text("unknown")
    log_in(console, f"  {key} ")
    expect(page.locator(".connection")).to_have_text("Live")

    [cookie] = [each for each in page.context.cookies() if each["name"].startswith("ekiden_login")]
    assert key.rpartition("_")[2] not in cookie["value"]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert page.evaluate("document.cookie") == ""
    assert key not in page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")

    page.reload()
    expect(page.locator(".connection")).to_have_text("Live")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    assert [
        each for each in page.context.cookies() if each["name"].startswith("ekiden_login")
    ] == []


@pytest.mark.slow
def test_a_revoked_key_leads_back_to_the_login(open_console: OpenConsole) -> None:
    console = open_console(relay_team())
    console.expected = ["401", "WebSocket"]
    admin = key_of(console, "admin", "admin")
    other = console.api(
        "POST", "/keys", {"name": "gone", "scopes": ["read"]}, Authorization=f"Bearer {admin}"
    )
    console.page.reload()
    log_in(console, other["key"])
    expect(console.page.locator(".connection")).to_have_text("Live")
    console.api("DELETE", f"/keys/{other['id']}", Authorization=f"Bearer {admin}")
    console.open("sessions")
    expect(console.page.get_by_label("API key")).to_be_visible()


def test_a_cookie_alone_authorizes_no_change(open_console: OpenConsole) -> None:
    """A form or script elsewhere that makes the browser send the cookie lacks the token."""
    console = open_console(relay_team())
    console.expected = ["401", "403", "WebSocket"]
    key = key_of(console, "runner", "read", "run")
    console.page.reload()
    log_in(console, key)
    expect(console.page.locator(".connection")).to_have_text("Live")
    status = console.page.evaluate(
        """() => fetch("/api/v1/runs", {method: "POST", body: '{"input": "hi"}',
             headers: {"Content-Type": "application/json"}}).then((r) => r.json())"""
    )
    assert status["code"] == "auth.csrf"
    listed = console.api("GET", "/sessions", Authorization=f"Bearer {key}")
    assert listed["items"] == []


@pytest.mark.slow
def test_the_language_and_the_theme_are_chosen_and_stored(open_console: OpenConsole) -> None:
    console = open_console(relay_team())
    page = console.page
    before = page.evaluate("getComputedStyle(document.body).color")
    page.get_by_label("Theme").select_option("dark")
    assert page.evaluate("getComputedStyle(document.body).color") != before
    page.get_by_label("Language").select_option("zh")
    expect(page.get_by_role("link", name="收件箱")).to_be_visible()
    page.reload()
    expect(page.get_by_role("link", name="收件箱")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "zh-Hans"
    assert page.evaluate("getComputedStyle(document.body).color") != before
    page.get_by_label("语言").select_option("en")
    expect(page.get_by_role("link", name="Inbox")).to_be_visible()
    page.get_by_label("Theme").select_option("system")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") != before


@pytest.mark.slow
def test_a_chinese_browser_gets_the_chinese_interface(open_console: OpenConsole) -> None:
    look = Look(width=900, height=700, theme="light", locale="zh-CN")
    console = open_console(relay_team(), look=look)
    expect(console.page.get_by_role("link", name="会话", exact=True)).to_be_visible()
    expect(console.page.locator(".connection")).to_have_text("实时")


@pytest.mark.slow
def test_the_shortcuts_dialog_is_opened_and_closed_by_keyboard(open_console: OpenConsole) -> None:
    console = open_console(relay_team())
    expect(console.page.locator(".connection")).to_have_text("Live")
    console.page.keyboard.press("?")
    dialog = console.role("dialog", "Keyboard")
    expect(dialog).to_be_visible()
    assert console.serious() == []
    console.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


@pytest.mark.slow
def test_the_first_tab_stop_skips_to_the_content(open_console: OpenConsole) -> None:
    console = open_console(relay_team())
    expect(console.page.locator(".connection")).to_have_text("Live")
    console.page.keyboard.press("Tab")
    expect(console.role("link", re.compile("Skip"))).to_be_focused()
    console.page.keyboard.press("Enter")
    expect(console.page.locator("main")).to_be_focused()


@pytest.mark.slow
def test_the_served_pages_have_strict_security_headers(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team())
    answer = console.page.request.get(console.url + "/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert console.page.request.get(console.url + "/assets/../../../pyproject.toml").status == 404
