"""A server that lives in a thread, for tests of what has an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ekiden.core.agent import Team
from ekiden.server import ServerConfig
from tests.support.serving import application, served


@contextmanager
def server_in_thread(
    root: Path,
    *,
    store: str = "memory:",
    team: Team | None = None,
    config: ServerConfig | None = None,
    port: int = 0,
) -> Iterator[str]:
    """The address of a server over the project in `root`, until the body is left.

    With the `port` of one that has ended, it is back there.
    """
    loop = asyncio.new_event_loop()
    ready: threading.Event = threading.Event()
    told: list[str | BaseException] = []
    over = asyncio.Event()

    async def live() -> None:
        async with (
            application(root, store=store, team=team, config=config) as app,
            served(app, port=port) as url,
        ):
            told.append(url)
            ready.set()
            await over.wait()

    def run() -> None:
        try:
            loop.run_until_complete(live())
        except BaseException as exc:
            told.append(exc)
            ready.set()
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    thread = threading.Thread(target=run, name="server", daemon=True)
    thread.start()
    assert ready.wait(60)
    url = told[0]
    assert isinstance(url, str), url
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(60)
        assert len(told) == 1, told[1:]
