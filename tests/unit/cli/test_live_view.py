"""Looking on: how it begins and ends, and what happens when the store is gone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ekiden.api.local.context import LocalContext
from ekiden.api.local.traces import LocalEvents
from ekiden.cli.errors import Exit
from ekiden.cli.main import main
from ekiden.cli.views.live import Spectator
from ekiden.core.errors import StoreUnavailable
from ekiden.core.events import Event
from ekiden.project.settings import Settings
from ekiden.storage.base import Batch
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore

Captured = pytest.CaptureFixture[str]


async def happen(store: MemoryStore, count: int) -> None:
    event = Event(session_id="", seq=0, type="message", at_us=0)
    await store.write(Batch(events=[event for _ in range(count)]))


async def look(spectator: Spectator, store: MemoryStore, *, follow: bool) -> list[str]:
    """The ids of what was shown."""
    stream = LocalEvents(LocalContext(store=store, settings=Settings())).subscribe(
        after="", follow=follow
    )
    async with stream:
        return [each.id async for each in spectator.read(stream, "memory:", tells=True)]


async def test_the_output_ends_with_the_command_to_continue(capsys: Captured) -> None:
    async with MemoryStore() as store:
        await happen(store, 2)
        spectator = Spectator(as_json=False, words=["--session", "日 本"])
        assert len(await look(spectator, store, follow=False)) == 2
        assert spectator.code == Exit.OK
        assert capsys.readouterr().err.splitlines() == [
            "watching memory:; Ctrl-C ends it",
            f"continue with: ekiden watch --after {await store.feed_end()} --session '日 本'",
        ]


async def test_ctrl_c_ends_watching_with_the_command_to_continue(capsys: Captured) -> None:
    async with MemoryStore() as store:
        await happen(store, 1)
        spectator = Spectator(as_json=True, command=["ekiden", "inbox", "watch"])
        looking = asyncio.create_task(look(spectator, store, follow=True))
        err = ""
        while "watching" not in err:
            await asyncio.sleep(0)
            err += capsys.readouterr().err
        for _ in range(100):
            await asyncio.sleep(0)
        looking.cancel()
        end = await store.feed_end()
        assert await looking == [end]
        assert spectator.code == Exit.INTERRUPTED
    err += capsys.readouterr().err
    assert [json.loads(line) for line in err.splitlines()] == [
        {"watching": {"store": "memory:", "after": ""}},
        {"after": end},
    ]


@pytest.mark.parametrize("as_json", [True, False])
def test_an_outage_and_its_end_are_reported(as_json: bool, capsys: Captured) -> None:
    spectator = Spectator(as_json=as_json)
    spectator.outage(StoreUnavailable("it is gone"))
    spectator.outage(None)
    first, second = capsys.readouterr().err.splitlines()
    assert "it is gone; trying again" in first
    assert "the store is reachable again" in second


async def test_an_inbox_event_without_its_item_is_printed(tmp_path: Path, capsys: Captured) -> None:
    details = {"kind": "handoff", "from": "user", "role": "support", "subject": "他很生气"}
    told = Event(session_id="", seq=0, type="inbox", at_us=1, details=details)
    path = tmp_path / "s.db"
    async with SqliteStore(path) as store:
        await store.write(Batch(events=[told]))
    for words in (["--json"], [], ["--role", "nobody"]):
        watch = ["inbox", "watch", "--once", "--store", str(path), *words]
        assert await asyncio.to_thread(main, watch) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert json.loads(first)["data"] == details
    assert "-  new  handoff  user → support:  他很生气" in second
