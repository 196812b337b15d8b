"""Questions that wait for people, put beside the page as an agent would."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator

from ekiden import Inbox, InboxItem, SqliteStore
from tests.console.place import Console

HOSTILE = '<img src=x onerror="window.__ran = 1"><script>window.__ran = 1</script>'


def post(folder: Path, *items: InboxItem) -> list[str]:
    """Store the questions in the console's store, each newer than the one before; their ids."""
    # The store's clock counts milliseconds, in which several questions may come.
    begin = in_us(minutes=0) - len(items)
    dated = [
        replace(item, created_at_us=item.created_at_us or begin + number)
        for number, item in enumerate(items)
    ]

    async def store_them() -> list[str]:
        async with SqliteStore(str(folder / "relay.db")) as store:
            inbox = Inbox(store)
            return [(await inbox.post(item)).id for item in dated]

    # The driver of the browser has a loop in this thread already.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, store_them()).result()


def in_us(*, minutes: float) -> int:
    """The time that will be then, or was."""
    return int((time.time() + minutes * 60) * 1e6)


def approval(subject: str, **more: Any) -> InboxItem:
    """A question that is answered with a yes or a no, unless `more` says otherwise."""
    usual: dict[str, Any] = {"kind": "approval", "from_agent": "sales", "options": ("yes", "no")}
    return InboxItem(**(usual | {"subject": subject} | more))


def confirmation(arguments: str, **more: Any) -> InboxItem:
    """A tool that waits for a yes."""
    usual: dict[str, Any] = {"kind": "confirmation", "from_agent": "till", "tool": "pay"}
    options = {"subject": "may till run pay?", "options": ("approve", "reject")}
    return InboxItem(**(usual | options | {"arguments": arguments} | more))


def subjects(console: Console) -> Locator:
    """Those of the questions that the list shows."""
    return console.page.locator(".line strong")


def answer_of(console: Console, item_id: str) -> dict[str, Any]:
    """What was answered to a question."""
    answer: dict[str, Any] = console.api("GET", f"/inbox/{item_id}")["answer"]
    return answer
