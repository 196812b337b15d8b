"""What can be done in a session: say something, stop, resume, fork, answer as a person."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.console.conftest import WIDE, OpenConsole, as_built, new_page
from tests.console.place import Console, Look
from tests.console.session_team import HOSTILE, release, session_team
from tests.console.session_world import entries, is_state, numbers
from tests.support.server_thread import server_in_thread


def test_a_message_is_sent_with_the_keyboard(open_console: OpenConsole, look: Look) -> None:
    console = open_console(session_team(), look=look)
    console.run("hello", session="s1", agent="desk")
    console.open("sessions/s1")
    page = console.page
    field = page.get_by_label("Message to the team")
    field.press_sequentially("two")
    field.press("Shift+Enter")
    field.press_sequentially("lines 行")
    # The Enter that ends the composition of a word sends nothing.
    field.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    expect(field).to_have_value("two\nlines 行")
    field.press("Enter")
    expect(field).to_have_value("")
    expect(field).to_be_focused()
    expect(page.locator(".entry.answer").last).to_contain_text("lines 行")
    is_state(console, "Finished")
    assert console.serious() == []
    assert console.fits()


@pytest.mark.slow
def test_an_unsent_message_is_kept_and_sent_once(open_console: OpenConsole) -> None:
    console = open_console(session_team())
    console.expected = ["ERR_FAILED"]
    console.run("hello", session="s1", agent="desk")
    console.open("sessions/s1")
    page = console.page

    def lose_the_answer(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/api/v1/runs", lose_the_answer, times=1)
    field = page.get_by_label("Message to the team")
    field.fill("only once")
    field.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("is unreachable")
    expect(field).to_have_value("only once")
    field.press("Enter")
    expect(field).to_have_value("")
    expect(page.locator(".entry.answer").last).to_contain_text("only once")
    expect(page.locator(".entry.said", has_text="only once")).to_have_count(1)


@pytest.mark.slow
def test_a_message_to_a_busy_session_is_queued(open_console: OpenConsole) -> None:
    console = open_console(session_team())
    console.expected = ["409"]
    console.start("hold:busy", "s1", agent="desk")
    console.open("sessions/s1")
    page = console.page
    field = page.get_by_label("Message to the team")
    field.fill("and then?")
    field.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("session.busy")
    expect(field).to_have_value("and then?")
    expect(page.locator(".entry.said")).to_have_count(1)
    release("busy")
    is_state(console, "Finished")
    field.press("Enter")
    expect(page.locator(".entry.said")).to_have_count(2)
    expect(page.locator(".entry.answer").last).to_contain_text("You said: and then?")
    expect(field).to_have_value("")


@pytest.mark.slow
def test_a_run_is_stopped_and_resumed(open_console: OpenConsole) -> None:
    console = open_console(session_team())
    console.start("hold:stop", "s1", agent="desk")
    console.open("sessions/s1")
    page = console.page
    is_state(console, "Working")
    page.get_by_role("button", name="Stop").click()
    is_state(console, "Stopped")
    expect(entries(console).last).to_contain_text("Stopped")
    release("stop")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".entry.answer").last).to_contain_text("And that is all.")
    is_state(console, "Finished")
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)


@pytest.mark.slow
def test_a_failed_run_shows_the_reason_and_can_be_resumed(open_console: OpenConsole) -> None:
    console = open_console(session_team())
    console.run("crash", session="s1", agent="desk")
    console.open("sessions/s1")
    is_state(console, "Failed")
    expect(console.page.locator(".entry.error")).to_contain_text(f"the model is broken {HOSTILE}")
    console.page.get_by_role("button", name="Resume").click()
    expect(console.page.locator(".entry.error")).to_have_count(2)
    assert console.page.evaluate("window.__ran") is None


@pytest.mark.slow
def test_a_session_is_forked_at_a_step(open_console: OpenConsole) -> None:
    console = open_console(session_team())
    console.run("the first", session="s1", agent="desk")
    console.run("the second", session="s1")
    console.open("sessions/s1")
    page = console.page
    first = page.locator(".entry.answer").first
    seq = first.get_attribute("data-seq")
    forks: list[str] = []
    page.on("request", lambda each: forks.append(each.url) if "/fork" in each.url else None)
    button = first.get_by_role("button", name=f"Fork from step {seq}")
    # A double click makes one session.
    button.evaluate("(each) => { each.focus(); each.click(); each.click(); }")
    page.wait_for_url(re.compile(r"#/sessions/(?!s1)"))
    assert len(forks) == 1
    expect(page.get_by_role("link", name="s1")).to_be_visible()
    expect(page.locator(".entry.answer")).to_have_count(1)
    field = page.get_by_label("Message to the team")
    field.fill("the third")
    field.press("Enter")
    expect(page.locator(".entry.answer").last).to_contain_text("the third")
    console.open("sessions/s1")
    expect(page.locator(".entry.answer")).to_have_count(2)


@pytest.mark.slow
def test_a_question_links_to_the_inbox_and_its_answer_is_shown(open_console: OpenConsole) -> None:
    console = open_console(session_team())
    run = console.run("a refund", session="s1", agent="desk")
    console.open("sessions/s1")
    page = console.page
    is_state(console, "Waiting for a person")
    notice = page.get_by_role("region", name="Waiting for a person")
    expect(notice).to_contain_text("may desk run refund?")
    [item] = run["questions"]
    link = notice.get_by_role("link", name="Open in the inbox")
    expect(link).to_have_attribute("href", f"#/inbox/{item}")
    expect(page.locator(".entry.tool")).to_contain_text("Waiting for a person")
    console.api("POST", f"/inbox/{item}/answer", {"choice": "approve"})
    expect(page.locator(".entry.question")).to_contain_text("✓ Answered")
    expect(page.locator(".entry.tool")).to_contain_text("✓ Done")
    expect(page.locator(".entry.tool")).to_contain_text("Approved by local")
    expect(notice).to_have_count(0)
    is_state(console, "Finished")


@pytest.mark.slow
def test_a_conversation_handed_off_to_people_is_answered_and_returned(
    open_console: OpenConsole, look: Look
) -> None:
    console = open_console(session_team(), look=look)
    console.run("people, please", session="s1")
    console.open("sessions/s1")
    page = console.page
    is_state(console, "Waiting for a person")
    expect(page.locator(".session-top")).to_contain_text("people (support)")
    notice = page.get_by_role("region", name="Waiting for a person")
    [item] = console.api("GET", "/inbox")["items"]
    way = notice.get_by_role("link", name="Open in the inbox")
    expect(way).to_have_attribute("href", f"#/inbox/{item['id']}")
    assert console.serious() == []
    assert console.fits()
    answer = {"choice": "give back", "text": "We replace it 好"}
    console.api("POST", f"/inbox/{item['id']}/answer", answer)
    expect(page.locator(".entry.question")).to_contain_text("local: give back · We replace it 好")
    expect(page.locator(".entry.answer").last).to_contain_text("People have told me.")
    expect(notice).to_have_count(0)
    is_state(console, "Finished")


@pytest.mark.slow
def test_a_read_only_key_sees_no_buttons(open_console: OpenConsole) -> None:
    console = open_console(session_team())
    console.expected = ["401", "WebSocket"]
    console.run("people, please", session="s1")
    key = console.api("POST", "/keys", {"name": "eyes", "scopes": ["read"]})["key"]
    page = console.page
    page.reload()
    page.get_by_label("API key").fill(key)
    page.get_by_label("API key").press("Enter")
    expect(page.locator(".connection")).to_have_text("Live")
    console.open("sessions/s1")
    expect(page.locator(".entry.question")).to_be_visible()
    expect(page.get_by_role("region", name="Waiting for a person")).to_be_visible()
    expect(page.locator("main button")).to_have_count(0)
    expect(page.locator("main textarea")).to_have_count(0)


@pytest.mark.slow
def test_the_conversation_continues_after_a_server_restart(
    browser: Browser, tmp_path: Path
) -> None:
    store = str(tmp_path / "relay.db")
    with ExitStack() as stack:
        page = new_page(browser, stack, WIDE)
        with server_in_thread(
            tmp_path, store=store, team=session_team(), config=as_built(None)
        ) as url:
            console = Console(page, url)
            console.expected = ["WebSocket", "ERR_"]
            console.run("one", session="s1", agent="desk")
            console.open("sessions/s1")
            expect(page.locator(".entry.answer")).to_contain_text("You said: one")
            expect(page.locator(".connection")).to_have_text("Live")
            page.evaluate("window.notReloaded = true")
        expect(page.locator(".connection")).to_contain_text("lost")
        port = urlsplit(url).port or 0
        with server_in_thread(
            tmp_path, store=store, team=session_team(), config=as_built(None), port=port
        ):
            console.run("two", session="s1")
            console.start("hold:three", "s1")
            expect(page.locator(".entry.answer:not(.writing)")).to_have_count(2)
            expect(page.locator(".entry.said").last).to_contain_text("hold:three")
            release("three")
            expect(page.locator(".entry.answer").last).to_contain_text("And that is all.")
            expect(page.locator(".entry.answer")).to_have_count(3)
            assert len(numbers(console)) == len(set(numbers(console)))
            assert page.evaluate("window.notReloaded") is True
            assert console.mistakes() == []
