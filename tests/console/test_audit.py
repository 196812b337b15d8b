"""The audit: who did what is found, proved and taken along."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.console.conftest import OpenConsole
from tests.console.inbox_world import HOSTILE, approval, post
from tests.console.place import Console, Look
from tests.support.relay_team import relay_team
from tests.support.sqlite import execute


def records(console: Console) -> Locator:
    """The lines of the list."""
    return console.page.locator(".records > li")


@pytest.mark.slow
def test_audit_records_are_listed_and_searched(open_console: OpenConsole, look: Look) -> None:
    console = open_console(relay_team(), look=look, at="audit")
    expect(console.page.get_by_text("No record matches.")).to_be_visible()
    console.run("hello", "s1")
    console.run("hello", "s2")
    took = records(console).filter(has_text="took over")
    expect(took).to_have_count(2)
    expect(took.first).to_contain_text("desk took over triage → desk")
    took.first.locator("summary").click()
    details = took.first
    expect(details).to_contain_text("Previous hash")
    expect(details.locator("code").last).to_have_text(re.compile(r"^[\w-]{43}$"))
    expect(details.get_by_role("link", name="s2", exact=True)).to_have_attribute(
        "href", re.compile(r"^#/sessions/s2\?seq=\d+$")
    )
    expect(details.get_by_role("link", name="s2.h1", exact=True)).to_have_attribute(
        "href", "#/sessions/s2/graph?handoff=s2.h1"
    )
    assert console.serious() == []
    assert console.fits()

    details.get_by_role("link", name="All status changes of this handoff").click()
    expect(console.role("heading", "s2.h1")).to_be_visible()
    expect(records(console)).to_have_count(4)
    console.role("link", "All records").click()
    page = console.page
    page.get_by_label("Session").fill("s1")
    expect(took).to_have_count(1)
    page.get_by_label("Handoff status").select_option("Transferring")
    expect(records(console)).to_have_count(1)
    expect(records(console)).to_contain_text("handed over")
    assert page.url.endswith("session=s1&status=transferring")
    page.get_by_label("Handoff status").select_option("All")
    page.get_by_label("Search").fill("TRIAGE")
    expect(took).to_have_count(1)
    page.get_by_label("Search").fill("no such thing")
    expect(page.get_by_text("No record matches.")).to_be_visible()
    console.open("audit?until=2020-01-01T00:00")
    expect(page.get_by_text("No record matches.")).to_be_visible()
    console.open("audit?since=2020-01-01T00:00&agent=desk&type=handoff")
    expect(took).to_have_count(2)


@pytest.mark.slow
def test_human_decisions_are_listed_and_hostile_texts_are_escaped(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team(), at="audit?type=inbox")
    [item] = post(tmp_path, approval(f"s{HOSTILE}", from_agent="a<img src=x>"))
    console.api(
        "POST", f"/inbox/{item}/answer", {"choice": "no", "text": HOSTILE, "by": "安娜<script>"}
    )
    answered = records(console).filter(has_text="answered “no”")
    expect(answered).to_contain_text("安娜<script>")
    expect(answered).to_contain_text(f"s{HOSTILE}")
    answered.locator("summary").click()
    expect(answered.locator("pre")).to_contain_text("window.__ran = 1</script>")
    expect(answered).to_contain_text("Person 安娜<script>")
    expect(console.page.locator("main").locator("img, script")).to_have_count(0)
    assert console.page.evaluate("window.__ran") is None


@pytest.mark.slow
def test_older_records_are_loaded_on_request(open_console: OpenConsole, tmp_path: Path) -> None:
    console = open_console(relay_team(), at="audit")
    post(tmp_path, *[approval(f"Question {n:02}") for n in range(60)])
    expect(records(console)).to_have_count(50)
    expect(records(console).first).to_contain_text("Question 59")
    console.role("button", "Show more").click()
    expect(records(console)).to_have_count(60)
    expect(records(console).last).to_contain_text("Question 00")
    expect(console.role("button", "Show more")).to_have_count(0)


@pytest.mark.slow
def test_the_chain_is_verified_and_a_broken_link_is_named(
    open_console: OpenConsole, look: Look, tmp_path: Path
) -> None:
    console = open_console(relay_team(), look=look, at="audit")
    console.run("hello", "s1")
    console.run("hello", "s2")
    page = console.page
    part = console.role("region", "Verification")
    console.role("button", "Verify the chain").click()
    expect(part.get_by_role("status")).to_have_text("✓ The chain is intact.")
    expect(part.locator("dl")).to_contain_text("Sessions2")

    execute(
        tmp_path / "relay.db",
        "UPDATE events SET details = replace(details, 'triage', 'nobody') "
        "WHERE session = (SELECT num FROM sessions WHERE id = 's2')",
    )
    page.get_by_label("Session").fill("s1")
    console.role("button", "Verify this session").click()
    expect(part.get_by_role("status")).to_have_text("✓ The chain is intact.")
    expect(part.locator("dl")).to_contain_text("Sessions1")
    console.role("button", "Verify the chain").click()
    expect(part.get_by_role("alert")).to_have_text("✕ The chain is broken in one session.")
    broken = part.get_by_role("listitem")
    expect(broken).to_contain_text("Changed s2/")
    expect(broken).to_contain_text("its hash does not match the stored data")
    assert console.serious() == []
    assert console.fits()
    broken.get_by_role("link", name="Session s2").click()
    expect(records(console).filter(has_text="nobody")).not_to_have_count(0)
    expect(part.get_by_role("alert")).to_be_visible()
    broken.get_by_role("link").first.click()
    expect(console.page.locator("h2").filter(has_text="s2/")).to_be_visible()


@pytest.mark.slow
def test_an_export_is_downloaded_and_compared_with_the_store(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team(), at="audit")
    console.run("hello", "s1")
    console.run("hello", "s2")
    page = console.page
    page.get_by_label("Session").fill("s1")
    expect(page).to_have_url(re.compile("session=s1$"))
    file = tmp_path / "export.jsonl"
    with page.expect_download() as download:
        console.role("link", "Export these records").click()
    download.value.save_as(file)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert {line["session_id"] for line in lines[:-1]} == {"s1"}
    assert download.value.suggested_filename == "audit.jsonl"

    part = console.role("region", "Verification")
    page.locator("input[type=file]").set_input_files(file)
    expect(part.get_by_role("status")).to_have_text("✓ The chain is intact.")
    expect(part.locator("dl")).to_contain_text(f"Compared with the export{len(lines) - 1}")
    console.api("DELETE", "/sessions/s1")
    page.locator("input[type=file]").set_input_files(file)
    expect(part.get_by_role("alert")).to_have_text("✕ The chain is broken in one session.")
    expect(part.get_by_role("listitem")).to_contain_text("Deleted")


@pytest.mark.slow
def test_a_verification_that_times_out_says_so_and_can_be_retried(
    open_console: OpenConsole,
) -> None:
    console = open_console(relay_team(), at="audit")
    console.expected = ["status of 504", "^504"]
    problem = {"code": "server.timeout", "detail": "verify sessions one by one", "status": 504}
    console.page.route(
        "**/audit/verify", lambda route: route.fulfill(status=504, json=problem), times=1
    )
    console.role("button", "Verify the chain").click()
    part = console.role("region", "Verification")
    expect(part.get_by_role("alert")).to_contain_text("verify sessions one by one")
    part.get_by_role("button", name="Try again").click()
    expect(part.get_by_role("status")).to_have_text("✓ The chain is intact.")
