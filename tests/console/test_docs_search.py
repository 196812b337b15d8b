"""The documentation site, opened as files: its search does without workers and network."""

from __future__ import annotations

import tomllib
from pathlib import Path

from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
ECHO = "self.onmessage = event => self.postMessage({found: `${event.data.text}s`})"
ASK = """() => new Promise((found, failed) => {
  const worker = new Worker("worker.js")
  worker.onmessage = event => found(event.data.found)
  worker.onerror = failed
  worker.postMessage({text: "handoff"})
})"""


def test_a_worker_runs_in_a_page_that_is_opened_as_a_file(browser: Browser, tmp_path: Path) -> None:
    settings = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    [shim] = settings["project"]["extra"]["polyfills"]
    (tmp_path / "shim.js").write_bytes((ROOT / "docs" / shim).read_bytes())
    (tmp_path / "worker.js").write_text(ECHO)
    (tmp_path / "index.html").write_text('<!doctype html><body><script src="shim.js"></script>')
    page = browser.new_page(offline=True)
    page.goto((tmp_path / "index.html").as_uri())
    assert page.evaluate(ASK) == "handoffs"
    page.close()
