"""A console that a test looks at, and the server behind it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from playwright.sync_api import ConsoleMessage, Locator, Page, Response, expect

ROOT: Final = Path(__file__).parents[2]
_AXE: Final = ROOT / "console/node_modules/axe-core/axe.min.js"
_WATCH_POLICY: Final = """
window.__refused = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__refused.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A size of the window, a theme and a language."""

    width: int
    height: int
    theme: Literal["light", "dark"]
    locale: str = "en-US"


class Console:
    """One tab."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.expected: list[str] = []
        """Patterns of what may go wrong in this test."""
        self._mistakes: list[str] = []
        page.add_init_script(_WATCH_POLICY)
        page.on("pageerror", lambda error: self._mistakes.append(f"error: {error}"))
        page.on("console", self._note)
        page.on("response", self._note_response)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._mistakes.append(f"{message.type}: {message.text}")

    def _note_response(self, response: Response) -> None:
        if response.status >= 500:
            self._mistakes.append(f"{response.status}: {response.url}")

    def mistakes(self) -> list[str]:
        """What went wrong in the page and was not expected."""
        refused = self.page.evaluate("window.__refused") or []
        found = self._mistakes + [f"policy: {each}" for each in refused]
        return [each for each in found if not any(re.search(p, each) for p in self.expected)]

    def open(self, at: str = "") -> None:
        """Go to a place of the console, such as ``inbox``."""
        self.page.goto(f"{self.url}/#/{at}")
        expect(self.page.locator("main")).to_be_visible()

    def role(self, role: Any, name: str | re.Pattern[str], *, exact: bool = False) -> Locator:
        """What a screen reader would find so."""
        return self.page.get_by_role(role, name=name, exact=exact)

    def api(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """What another client of the server does, beside the page."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}/api/v1{path}", data=data, method=method)
        request.add_header("Content-Type", "application/json")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urlopen(request, timeout=60) as response:
                text = response.read()
        except HTTPError as exc:
            raise AssertionError(f"{exc.code}: {exc.read().decode()}") from exc
        return json.loads(text) if text else None

    def run(self, text: str, session: str | None = None, **more: Any) -> dict[str, Any]:
        """Send a message to the team; wait for the answer, or until the run waits for a person."""
        body = {"input": text, **({"session_id": session} if session else {}), **more}
        answer: dict[str, Any] = self.api("POST", "/runs", body)
        return answer

    def start(self, text: str, session: str, **more: Any) -> None:
        """Say something, and wait for nothing."""
        self.api(
            "POST", "/runs", {"input": text, "session_id": session, "background": True, **more}
        )

    def serious(self) -> list[str]:
        """What axe finds on the page as it is, serious or worse."""
        if not self.page.evaluate("'axe' in window"):
            # As the page's own policy forbids scripts from elsewhere, it is put in by the driver.
            self.page.evaluate(_AXE.read_text(encoding="utf-8") + ";0")
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']}: {node['target']} {node['failureSummary']}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]

    def fits(self) -> bool:
        """Whether nothing must be scrolled sideways to be seen."""
        wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        return bool(self.page.evaluate(wide))
