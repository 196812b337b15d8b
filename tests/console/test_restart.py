"""The page goes on by itself when the server was gone for a while."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.console.conftest import WIDE, new_page
from tests.console.place import Console
from tests.support.forked import ForkedPopen


@contextmanager
def server(folder: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`ekiden serve` as a process of its own, once it listens; and its address."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith("EKIDEN_")}
    command = [sys.executable, "-m", "ekiden.cli", "serve", "--port", str(port), "--log", "none"]
    process = ForkedPopen(
        [*command, "--store", "desk.db", "--json"],
        cwd=folder,
        env={**clean, "HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())["url"]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_the_console_reconnects_after_a_server_restart_without_reload(
    browser: Browser, tmp_path: Path, how: signal.Signals
) -> None:
    with ExitStack() as stack:
        page = new_page(browser, stack, WIDE)
        with server(tmp_path) as (process, url):
            console = Console(page, url)
            console.expected = ["WebSocket", "ERR_", "EventSource"]
            console.run("Where is my order 1042?", "before")
            console.open("sessions")
            expect(page.get_by_role("link", name="before")).to_be_visible()
            expect(page.locator(".connection")).to_have_text("Live")
            page.evaluate("window.notReloaded = true")
            process.send_signal(how)
            process.wait()
            expect(page.locator(".connection")).to_contain_text("lost")
        with server(tmp_path, int(url.rpartition(":")[2])):
            console.run("Where is my order 1043?", "meanwhile")
            expect(page.locator(".connection")).to_have_text("Live")
            expect(page.get_by_role("link", name="meanwhile")).to_be_visible()
            console.run("And 1044?", "afterwards")
            expect(page.get_by_role("link", name="afterwards")).to_be_visible()
            assert page.evaluate("window.notReloaded") is True
            assert console.mistakes() == []
