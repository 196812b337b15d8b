"""How long the console takes to draw the waterfall of a long trace, in a real browser.

    python benchmarks/console_trace.py [--spans 1000 5000] [--times 5] [--static FOLDER]

Prints one JSON object. For each length there is a session with so many tool calls. The time is
taken in the page, from the change of its address to the frame that shows the rows, with the request
to the server in it; and again without it, as the server's answer is known then. Then the list is
scrolled from its beginning to its end, and the longest frames are told.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from ekiden.server import ServerConfig
from tests.console.place import Console
from tests.console.trace_team import trace_team
from tests.support.server_thread import server_in_thread

_DRAWN = """async (address) => {
  const frame = () => new Promise(requestAnimationFrame);
  location.hash = "#/agents";
  while (document.querySelector(".spans")) await frame();
  const began = performance.now();
  location.hash = address;
  while (!document.querySelector(".spans .span-row .bar")) await frame();
  await frame();
  const all = performance.now() - began;
  const loaded = performance.getEntriesByType("resource");
  const asked = loaded.filter((each) => each.name.includes("/traces/"));
  return { all, server: asked.at(-1)?.duration ?? 0 };
}"""
_SCROLLED = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const list = document.querySelector(".spans");
  const frames = [];
  let before = await frame();
  for (let step = 1; step <= 60; step++) {
    list.scrollTop = (list.scrollHeight * step) / 60;
    const now = await frame();
    frames.push(now - before);
    before = now;
  }
  return frames;
}"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--spans", type=int, nargs="+", default=[1000, 5000])
    options.add_argument("--times", type=int, default=5)
    options.add_argument("--static", type=Path, help="a console that was built elsewhere")
    given = options.parse_args()
    config = ServerConfig(static=given.static) if given.static else ServerConfig()
    chromium = os.environ.get("EKIDEN_TEST_CHROMIUM") or shutil.which("chromium")
    with (
        tempfile.TemporaryDirectory() as folder,
        server_in_thread(Path(folder), team=trace_team(), config=config) as url,
        sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        console = Console(browser.new_page(viewport={"width": 1280, "height": 860}), url)
        console.open("agents")
        print(
            json.dumps([_measured(console, spans, given.times) for spans in given.spans], indent=2)
        )
        browser.close()


def _measured(console: Console, spans: int, times: int) -> dict[str, Any]:
    session = f"s{spans}"
    console.run(f"many:{spans}", session, max_turns=spans)
    found = len(console.api("GET", f"/traces/{session}")["spans"])
    taken = [_drawn(console.page, session) for _ in range(times)]
    frames = console.page.evaluate(_SCROLLED)
    return {
        "spans": found,
        "drawn_ms": round(statistics.median(each["all"] for each in taken), 1),
        "drawn_ms_at_most": round(max(each["all"] for each in taken), 1),
        "of_it_server_ms": round(statistics.median(each["server"] for each in taken), 1),
        "scroll_frame_ms_p95": round(statistics.quantiles(frames, n=20)[-1], 1),
    }


def _drawn(page: Page, session: str) -> dict[str, float]:
    taken: dict[str, float] = page.evaluate(_DRAWN, f"#/sessions/{session}/trace")
    return taken


if __name__ == "__main__":
    main()
