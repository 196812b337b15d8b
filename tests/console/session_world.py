"""Sessions that are there before anybody looks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from playwright.sync_api import Locator, expect

from ekiden import Session, SqliteStore
from tests.console.place import Console

T = TypeVar("T")


def aside(work: Coroutine[Any, Any, T]) -> T:
    """Do it in a thread of its own: the driver of the browser has a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def tell(folder: Path, session_id: str, texts: list[str]) -> None:
    """Say these things in a session of the console's store, each as an event of its own."""

    async def store_them() -> None:
        async with SqliteStore(str(folder / "relay.db")) as store:
            session = Session(session_id, store=store)
            for text in texts:
                await session.add_items([text])

    aside(store_them())


def begin(folder: Path, ids: list[str]) -> None:
    """Make these sessions, in each of which something was said."""

    async def store_them() -> None:
        async with SqliteStore(str(folder / "relay.db")) as store:
            for each in ids:
                await Session(each, store=store, user_id=f"user of {each}").add_items(["Hello"])

    aside(store_them())


def entries(console: Console) -> Locator:
    """What the conversation shows, without an answer that is being made."""
    return console.page.locator(".entry:not(.writing)")


def is_state(console: Console, state: str) -> None:
    """Wait until the page says that the session stands so."""
    expect(console.page.locator(".session-top .badge")).to_contain_text(state)


def numbers(console: Console) -> list[int]:
    """The events that the entries were made of, as they are shown."""
    return [int(entry.get_attribute("data-seq") or 0) for entry in entries(console).all()]
