"""What texts of others hide is seen, and none of them keeps the page busy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ekiden import Agent, Team
from ekiden.core.conversation.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    assistant_message,
)
from tests.console.conftest import OpenConsole
from tests.console.inbox_world import approval, post
from tests.support.relay_team import relay_team

MARKED = {
    "zero\u200b\u200b\u200bwidth": ["U+200B ×3"],
    "a\u2800b": ["U+2800"],
    "a\U0001d173b": ["U+1D173"],
    "a\ufe0fb": ["U+FE0F"],
    "a\u200cb": ["U+200C"],
    "10\u00a0000\u202f€": ["U+00A0", "U+202F"],
    "аррӏе.com": ["U+0430", "U+0440", "U+0440", "U+04CF", "U+0435"],
    "admin@хост.example": ["U+0445", "U+043E", "U+0441", "U+0442"],
    "p\u0430ypal": ["U+0430"],
    "\u0261oogle paypa\u217c \u212aey": ["U+0261", "U+217C", "U+212A"],
    "x\uff11\uff12": ["U+FF11", "U+FF12"],
    "a\u2044b\u2215c\ua789d\u2024e": ["U+2044", "U+2215", "U+A789", "U+2024"],
}
UNMARKED = [
    "Привет, мир: как дела? Всё хорошо.",
    "Καλημέρα κόσμε, τι κάνεις;",
    "IT-отдел и α-helix",
    "你好，世界！（第１条）：用Python写。\u3000完",
    "می\u200cخواهم",
    "क्\u200dष",
    "👩\u200d💻 ❤\ufe0f 1\ufe0f\u20e3 👨🏽\u200d⚕\ufe0f",
    "½ 1\u20442 naïve café Ångström",
]

BUSY = {
    "strong": "**a " * 50_000,
    "backticks": " ".join("`" * n + "a" for n in range(1, 600)),
    "table": "a|b\n" + " " * 190_000 + "x",
    "fence": "```" + "a" * 100_000 + "`",
    "tildes": "~" * 100_000 + "`",
    "heading": "# a" + " " * 190_000 + "b",
    "lines of strong": ("**a " * 450 + "\n") * 100,
    "lines of links": ("[a](" * 450 + "\n") * 100,
    "lines": "a\n" * 100_000,
    "hidden": "\u200b" * 200_000,
    "hidden by turns": "\u200b\u200c" * 100_000,
    "lookalikes": "a\u0430" * 100_000,
}
MOST_S = 8.0
"""Of a processor; what it was before is a hundred times as much, or never ends."""


class Teller:
    """Answers with the text that was asked for."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One call."""
        asked = str(request.input[-1])
        text = next(text for name, text in self._texts.items() if f"<{name}>" in asked)
        yield ModelResponse(output=[assistant_message(text)])


def teller(texts: dict[str, str]) -> Team:
    """One agent."""
    agent = Agent("teller", model=Teller(texts))
    return Team(agent)


def test_only_deceptive_characters_are_marked(open_console: OpenConsole) -> None:
    paragraphs = [*MARKED, *UNMARKED]
    console = open_console(teller({"all": "\n\n".join(paragraphs)}))
    console.run("<all>", "told")
    console.open("sessions/told")
    shown = console.page.locator(".markdown").last.locator("p")
    expect(shown).to_have_count(len(paragraphs))
    found = shown.evaluate_all(
        "list => list.map(p => [...p.querySelectorAll('.odd small')].map(s => s.textContent))"
    )
    assert dict(zip(paragraphs, found, strict=True)) == MARKED | {each: [] for each in UNMARKED}


@pytest.mark.slow
def test_a_no_break_space_is_not_called_misleading(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console(relay_team())
    post(tmp_path, approval("Pay 10\u00a0000\u202f€?"), approval("Open аррӏе.com?"))
    lines = console.page.locator(".line")
    expect(lines).to_have_count(2)
    expect(lines.filter(has_text="Open")).to_contain_text("misleading")
    expect(lines.filter(has_text="Pay")).to_contain_text("U+00A0")
    expect(lines.filter(has_text="Pay")).not_to_contain_text("misleading")


def watch_work(page: Page) -> Callable[[], float]:
    """Gives how many seconds the page has worked since, not how long it waited for a processor."""
    driver = page.context.new_cdp_session(page)  # Another session would begin at zero.
    driver.send("Performance.enable", {"timeDomain": "threadTicks"})

    def worked_s() -> float:
        metrics = driver.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    return worked_s


@pytest.mark.parametrize(
    "name",
    [
        name if number < 2 else pytest.param(name, marks=pytest.mark.slow)
        for number, name in enumerate(BUSY)
    ],
)
def test_no_text_blocks_the_page(open_console: OpenConsole, name: str) -> None:
    console = open_console(teller(BUSY))
    console.run(f"<{name}>", "told")
    page = console.page
    worked_s = watch_work(page)
    before = worked_s()
    console.open("sessions/told")
    shown = page.locator(".markdown").last
    expect(shown).not_to_be_empty(timeout=240_000)
    assert page.evaluate("document.querySelectorAll('.markdown *').length") < 60_000
    assert worked_s() - before < MOST_S
    if name == "hidden":
        expect(shown.locator(".odd")).to_have_text("U+200B ×200000")
    if name == "hidden by turns":
        expect(shown.locator(".odd").last).to_have_text("… 198000 more")
