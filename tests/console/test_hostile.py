"""Nothing that a model, a tool or a person writes runs in the page."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Request, expect

from ekiden import Agent, Team, function_tool
from ekiden.core.conversation.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    assistant_message,
    function_call,
)
from tests.console.conftest import WIDE, as_built, new_page
from tests.console.hostile import CORPUS, WATCH
from tests.console.place import Console
from tests.support.server_thread import server_in_thread

NAME = "<img src=x onerror=window.ran()>"
TRIAGE = '"><svg/onload=window.ran()>'
ALL = "\n\n".join(CORPUS)
SENT = ALL.replace("\x00", "").replace("\ud800", "")
"""Of the corpus, what the API takes; models and tools are not asked."""
PARTS = ["", "/graph", "/graph?view=expanded", "/trace", "/plan"]


@function_tool
def look(text: str) -> str:
    """Give back what it got: <script>window.ran()</script>"""
    return f"{text}\n{ALL}"


@function_tool(confirmation=True)
def pay(text: str) -> str:
    """Pay."""
    return text


class Parrot:
    """Says the whole corpus, in every way there is."""

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One call."""
        told = {item.get("call_id") for item in request.input}
        transfers = [tool.name for tool in request.tools if tool.name.startswith("transfer")]
        if transfers:
            reason = json.dumps({"reason": ALL})
            yield ModelResponse(output=[function_call("c1", transfers[0], reason)])
        elif "c2" not in told:
            yield ModelResponse(output=[function_call("c2", "look", json.dumps({"text": ALL}))])
        elif "pay" in str(request.input[0]) and "c3" not in told:
            yield ModelResponse(output=[function_call("c3", "pay", json.dumps({"text": ALL}))])
        else:
            yield ModelResponse(output=[assistant_message(ALL)])


def hostile_team() -> Team:
    """Its names are hostile, too."""
    model = Parrot()
    desk = Agent(NAME, model=model, tools=[look, pay], description=ALL, instructions=ALL)
    triage = Agent(TRIAGE, model=model, handoffs=[desk], description=ALL)
    return Team(triage, desk)


@pytest.fixture(scope="module")
def hostile(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    root: Path = tmp_path_factory.mktemp("hostile")
    with ExitStack() as stack:
        url = stack.enter_context(
            server_in_thread(
                root, store=str(root / "relay.db"), team=hostile_team(), config=as_built(None)
            )
        )
        page = new_page(browser, stack, WIDE)
        page.add_init_script(WATCH)
        console = Console(page, url)
        console.run(SENT, "told", title=CORPUS[3], user_id=CORPUS[0])
        console.run("pay " + SENT, "asked", title=CORPUS[5])
        yield console


QUICK = ["inbox", "sessions/told", "sessions/%3Cimg%20src=x%20onerror=window.ran()%3E"]
PLACES = [
    "sessions",
    "sessions?text=%3Cimg%20src%3Dx%20onerror%3Dwindow.ran()%3E",
    "agents",
    "plans",
    "audit",
    *(f"sessions/told{part}" for part in PARTS if part),
    "sessions/asked",
    "<img src=x onerror=window.ran()>",
]


@pytest.mark.parametrize(
    "place", [*QUICK, *(pytest.param(place, marks=pytest.mark.slow) for place in PLACES)]
)
def test_hostile_content_runs_no_script(hostile: Console, place: str) -> None:
    page = hostile.page
    elsewhere: list[str] = []

    def note(request: Request) -> None:
        if not request.url.startswith(hostile.url):
            elsewhere.append(request.url)

    page.on("request", note)
    page.on("dialog", lambda dialog: dialog.dismiss())
    page.goto("about:blank")
    hostile.open(place)
    expect(page.locator(".connection")).to_have_text("Live")
    expect(page.get_by_text("Loading")).to_have_count(0)
    for summary in page.locator("main summary").all()[:30]:
        if summary.is_visible():
            summary.click()
    assert page.evaluate("window.__ran") == []
    assert elsewhere == []
    assert page.url.startswith(hostile.url)
    assert (
        page.locator("main :is(script, iframe, object, embed, base, meta, link, style)").count()
        == 0
    )
    assert page.locator("main a[href^='javascript' i], main a[href^='data' i]").count() == 0
    assert hostile.mistakes() == []


def test_hostile_content_is_shown_as_text(hostile: Console) -> None:
    hostile.open("sessions/told")
    shown = hostile.page.locator("main")
    for text in ("<script>window.ran()</script>", "<iframe src=javascript:", "[click](javascript:"):
        expect(shown).to_contain_text(text)
    expect(shown.locator(".odd", has_text="U+202E").first).to_be_visible()
    expect(shown.locator(".odd", has_text="U+0430").first).to_be_visible()
