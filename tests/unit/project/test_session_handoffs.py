"""The handoffs of one session: what is read for them, and where it is looked through."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ekiden.api.local import handoff_views as records
from ekiden.api.local.handoff_views import MAX_WITH_VIEWS, session_handoffs
from ekiden.core.agent import Agent
from ekiden.core.events import Event
from ekiden.handoff import handoff, keep_last
from ekiden.handoff.views import view_before
from ekiden.runtime import Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, say, transfer
from tests.unit.audit import written


class Counted(MemoryStore):
    """Remembers which steps were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def steps(self, session_id: str, *, prefix: str = "") -> Mapping[str, Any]:
        """The steps; the prefix is noted."""
        self.asked.append(prefix)
        return await super().steps(session_id, prefix=prefix)


async def handed_on(store: MemoryStore) -> None:
    """A session that goes from a to b to c, the last items each time."""
    c = Agent("c", model=ScriptedModel([say("End.")]))
    edge = handoff(c, input_filter=keep_last(2))
    b = Agent("b", model=ScriptedModel([transfer("c", reason="b")]), handoffs=[edge])
    edge = handoff(b, input_filter=keep_last(2))
    a = Agent("a", model=ScriptedModel([transfer("b", summary="from a")]), handoffs=[edge])
    await Runner.run(a, "在吗？", session=Session("s", store=store))


async def test_computed_handoff_views_are_cached() -> None:
    store = Counted()
    await handed_on(store)
    store.asked.clear()
    found, end = await session_handoffs(store, "s")
    assert [each["summary"] for each in found] == ["from a", None]
    assert all(each["view"]["entries"] for each in found)
    assert end is None
    assert len(store.asked) == len(set(store.asked)) == 2
    store.asked.clear()
    light, _ = await session_handoffs(store, "s", views=False)
    assert light == [{**each, "view": None} for each in found]
    assert store.asked == []


async def test_a_page_of_one_equals_its_part_of_the_full_page() -> None:
    store = MemoryStore()
    await handed_on(store)
    every, _ = await session_handoffs(store, "s")
    pages = [await session_handoffs(store, "s", start=start, limit=1) for start in (0, 1)]
    assert [(found, end) for found, end in pages] == [([every[0]], 1), ([every[1]], None)]


async def test_events_are_searched_outside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: set[int] = set()

    def noted(events: Sequence[Event], transfer: int) -> tuple[str | None, int]:
        threads.add(threading.get_ident())
        assert all(event.type == "handoff" for event in events)
        return view_before(events, transfer)

    monkeypatch.setattr(records, "view_before", noted)
    store = MemoryStore()
    await handed_on(store)
    await session_handoffs(store, "s")
    assert threads
    assert threading.get_ident() not in threads


async def test_pages_with_views_are_limited() -> None:
    store = MemoryStore()
    many = MAX_WITH_VIEWS + 3
    events = [
        written.handoff("s", n, *written.BEGINNING, "completed", id=f"s.h{n}", reason=f"第{n}")
        for n in range(1, many + 1)
    ]
    await written.write(store, events)
    first, end = await session_handoffs(store, "s", limit=1000)
    assert (len(first), end) == (MAX_WITH_VIEWS, MAX_WITH_VIEWS)
    rest, end = await session_handoffs(store, "s", start=MAX_WITH_VIEWS, limit=1000)
    assert end is None
    assert [each["id"] for each in [*first, *rest]] == [f"s.h{n}" for n in range(1, many + 1)]
    light, end = await session_handoffs(store, "s", limit=1000, views=False)
    assert (len(light), end) == (many, None)
