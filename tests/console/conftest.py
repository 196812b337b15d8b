"""The console in a real browser, against a real server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from ekiden.core.agent import Team
from ekiden.server import ServerConfig
from tests.console.place import Console, Look
from tests.support.server_thread import server_in_thread

expect.set_options(timeout=60_000)  # A busy machine is slow.

WIDE = Look(width=1280, height=860, theme="light")
NARROW = Look(width=360, height=740, theme="dark")


# Not longer than the tests of this folder: the driver has an event loop in the thread of the tests,
# in which no test with a loop of its own could run.
@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    """The driver of the browser."""
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """Debian's Chromium, best the one without windows; `EKIDEN_TEST_CHROMIUM` names another."""
    path = (
        os.environ.get("EKIDEN_TEST_CHROMIUM")
        or shutil.which("chromium-headless-shell")
        or shutil.which("chromium")
    )
    if path is None:
        pytest.fail("Chromium is not there: `make browser`, or set EKIDEN_TEST_CHROMIUM")
    browser = playwright.chromium.launch(
        executable_path=path,
        args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
    )
    yield browser
    browser.close()


@pytest.fixture(
    params=[
        pytest.param(WIDE, id="wide-light"),
        pytest.param(NARROW, id="narrow-dark", marks=pytest.mark.slow),
    ]
)
def look(request: pytest.FixtureRequest) -> Look:
    """How the page is looked at: a test that asks for it runs for each."""
    look: Look = request.param
    return look


OpenConsole = Callable[..., Console]


@pytest.fixture
def open_console(browser: Browser, tmp_path: Path) -> Iterator[OpenConsole]:
    """Serves a team and opens the console at it.

    At the end of the test nothing may have gone wrong in the page: no error of a script, nothing
    that its policy forbids, nothing that could not be loaded from the server.
    """
    with ExitStack() as stack:
        opened: list[Console] = []

        def open_it(
            team: Team | None = None,
            *,
            at: str = "",
            look: Look = WIDE,
            config: ServerConfig | None = None,
            **context: Any,
        ) -> Console:
            store = str(tmp_path / "relay.db")
            url = stack.enter_context(
                server_in_thread(tmp_path, store=store, team=team, config=as_built(config))
            )
            page = new_page(browser, stack, look, **context)
            console = Console(page, url)
            opened.append(console)
            console.open(at)
            return console

        yield open_it
        for console in opened:
            assert console.mistakes() == []


def as_built(config: ServerConfig | None) -> ServerConfig:
    """With the console that is part of the package, or the one that `EKIDEN_TEST_STATIC` names."""
    folder = os.environ.get("EKIDEN_TEST_STATIC")
    config = config or ServerConfig()
    return config if folder is None else replace(config, static=Path(folder))


def new_page(browser: Browser, stack: ExitStack, look: Look, **context: Any) -> Page:
    """A tab of a new visitor."""
    visitor = browser.new_context(
        viewport={"width": look.width, "height": look.height},
        color_scheme=look.theme,
        locale=look.locale,
        reduced_motion="reduce",
        **context,
    )
    stack.callback(visitor.close)
    visitor.set_default_timeout(60_000)
    return visitor.new_page()
