"""Watching the inbox: how it begins and ends, and what happens when the store is gone."""

from __future__ import annotations

import asyncio
import json

import pytest

from ekiden.cli.inbox_watching import InboxSpectator, keeping_time
from ekiden.core.errors import StoreUnavailable
from ekiden.core.events import Event
from ekiden.core.inbox_item import InboxItem
from ekiden.hub import EventHub, Subscription
from ekiden.inbox import Inbox
from ekiden.storage.base import Batch
from ekiden.storage.memory import MemoryStore


@pytest.mark.parametrize("as_json", [True, False])
async def test_ctrl_c_ends_it_with_the_way_to_go_on(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    store = MemoryStore()
    spectator = InboxSpectator(inbox=Inbox(store), as_json=as_json, words=["--role", "经理"])
    out = err = ""
    async with EventHub(store) as hub, hub.subscribe(where=Subscription(inbox=True)) as stream:
        spectator.begin(stream, "desk.db")
        showing = asyncio.create_task(spectator.show(stream))
        item = InboxItem(id="q", kind="approval", from_agent="sales", subject="折扣?")
        await Inbox(store).post(item)
        while not out:
            await asyncio.sleep(0)
            out, more = capsys.readouterr()
            err += more
        showing.cancel()
        assert await showing == 130
    err += capsys.readouterr().err
    assert "desk.db" in err
    if as_json:
        assert json.loads(out)["data"]["subject"] == "折扣?"
        assert json.loads(err.splitlines()[-1]) == {"after": stream.position}
    else:
        assert "q  new  approval  sales → operator:  折扣?" in out
        assert f"go on with: ekiden inbox watch --after {stream.position} --role '经理'" in err


async def test_a_question_of_which_only_the_event_is_left_is_still_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = MemoryStore()
    details = {"kind": "handoff", "from": "user", "role": "support", "subject": "他很生气"}
    told = Event(session_id="", seq=0, type="inbox", at_us=1, details=details)
    await store.write(Batch(events=[told]))
    async with EventHub(store) as hub:
        for as_json in (True, False):
            spectator = InboxSpectator(inbox=Inbox(store), as_json=as_json)
            await spectator.show(hub.subscribe(after="", follow=False))
    first, second = capsys.readouterr().out.splitlines()
    assert json.loads(first)["data"] == details
    assert "-  new  handoff  user → support:  他很生气" in second


@pytest.mark.parametrize("as_json", [True, False])
def test_an_outage_is_told_and_that_it_is_over(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    spectator = InboxSpectator(inbox=Inbox(MemoryStore()), as_json=as_json)
    spectator.outage(StoreUnavailable("it is gone"))
    spectator.outage(None)
    first, second = capsys.readouterr().err.splitlines()
    assert "it is gone; trying again" in first
    assert "the store is back" in second


async def test_time_is_kept_while_somebody_watches() -> None:
    store = MemoryStore()
    item = InboxItem(
        id="q", kind="approval", from_agent="sales", subject="?", deadline_us=1, default="no"
    )
    async with keeping_time(store):
        await Inbox(store).post(item)
        async with asyncio.timeout(60):
            while await store.get_document("inbox.done", "q") is None:
                await store.wait_for_change(0.1)
