"""How quickly the console answers while many sessions are at work: prints JSON.

    python benchmarks/console.py [--sessions 1000] [--thinks 10] [--rounds 20]

Starts `ekiden serve` as a process with so many sessions under way, each of which does something
every `--thinks` seconds or so, and one in ten of which waits for a person. A real Chromium has the
console open, and somebody types, clicks and moves about in it. What is told is the time from each
of these to the next picture on the screen, as the browser itself measures it (Event Timing, in
steps of 8 ms), page by page.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from playwright.sync_api import Page, sync_playwright

_WATCH = """
window.took = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries())
    if (entry.interactionId) window.took.push(entry.duration);
}).observe({type: "event", durationThreshold: 16, buffered: true});
"""


@contextmanager
def server(thinks_s: float) -> Iterator[str]:
    """`ekiden serve` with the restless team; its address."""
    command = [
        sys.executable,
        "-m",
        "ekiden.cli",
        "serve",
        "--port",
        "0",
        "--json",
        "--log",
        "none",
    ]
    command += ["--team", "console_team:team", "--workers", "5000"]
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "CONSOLE_THINKS_S": str(thinks_s),
            "PYTHONPATH": str(Path(__file__).parent),
            "EKIDEN_STORE": f"{folder}/relay.db",
        }
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=folder)
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()
            process.wait()


def call(url: str, path: str, body: Any = None) -> Any:
    """What the API says."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(
        f"{url}/api/v1{path}", data=data, headers={"Content-Type": "application/json"}
    )
    with urlopen(request, timeout=120) as response:
        return json.load(response)


def begin(url: str, number: int) -> None:
    """Start one session."""
    said = "pay somebody" if number % 10 == 0 else "go on and on"
    body = {
        "input": said,
        "session_id": f"s-{number:04}",
        "background": True,
        "max_turns": 10_000,
        "title": f"Work number {number}",
    }
    call(url, "/runs", body)


def measured(page: Page, act: Callable[[int], None], rounds: int) -> dict[str, Any]:
    """How long it takes until something is seen of each thing done."""
    page.evaluate("window.took = []")
    for number in range(rounds):
        act(number)
        page.wait_for_timeout(60)  # A person is not quicker; and what came late is seen as such.
    took = sorted(page.evaluate("window.took"))
    return {
        "interactions": len(took),
        "median_ms": statistics.median(took) if took else None,
        "p95_ms": took[int(0.95 * (len(took) - 1))] if took else None,
        "worst_ms": took[-1] if took else None,
    }


def look_around(page: Page, url: str, rounds: int) -> dict[str, Any]:
    """Use each page as somebody would."""
    keyboard = page.keyboard
    figures: dict[str, Any] = {}
    page.goto(f"{url}/#/sessions")
    page.get_by_role("link", name="Work number").first.wait_for()
    search = page.get_by_role("searchbox").first
    search.click()
    figures["sessions: type"] = measured(page, lambda n: keyboard.press("number"[n % 6]), rounds)
    search.fill("")
    page.get_by_role("link", name="Work number").first.wait_for()
    figures["sessions: keys"] = measured(page, lambda _: keyboard.press("Tab"), rounds)
    page.goto(f"{url}/#/inbox")
    page.get_by_text("pay").first.wait_for()
    figures["inbox: move"] = measured(page, lambda n: keyboard.press("jk"[n // 10 % 2]), rounds)
    parts = page.get_by_role("navigation", name="Console").get_by_role("link")
    names = ["Sessions", "Agents", "Inbox", "Audit"]
    figures["parts: change"] = measured(
        page, lambda n: parts.filter(has_text=names[n % 4]).click(), rounds
    )
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="How quickly the console answers.")
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--thinks", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    wanted = parser.parse_args()
    with server(wanted.thinks) as url, sync_playwright() as driver:
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda number: begin(url, number), range(wanted.sessions)))
        browser = driver.chromium.launch(
            executable_path=wanted.chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.add_init_script(_WATCH)
        figures = look_around(page, url, wanted.rounds)
        states = [
            len(call(url, f"/sessions?limit=1000&state={state}")["items"])
            for state in ("working", "waiting_person")
        ]
        browser.close()
    told = {"sessions": wanted.sessions, "working": states[0], "waiting": states[1], **figures}
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
