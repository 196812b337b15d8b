"""The frame around all pages."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.console.conftest import NARROW, WIDE, OpenConsole
from tests.console.place import Look
from tests.support.relay_team import relay_team

PARTS = ["inbox", "sessions", "agents", "plans", "audit"]


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(WIDE, id="wide-light"),
        pytest.param(NARROW, id="narrow-dark", marks=pytest.mark.slow),
    ],
)
def test_each_section_is_reachable_and_accessible(open_console: OpenConsole, look: Look) -> None:
    console = open_console(relay_team(), look=look)
    for part in PARTS:
        console.page.get_by_role("navigation", name="Console").get_by_role(
            "link", name=re.compile(part, re.IGNORECASE)
        ).click()
        expect(console.page).to_have_title(re.compile(part, re.IGNORECASE))
        expect(console.page.locator("main h1")).to_be_visible()
        expect(console.role("status", "")).not_to_have_count(0)
        expect(console.page.locator(".connection")).to_have_text("Live")
        assert console.serious() == [], part
    assert console.fits()
