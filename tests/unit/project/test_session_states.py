"""How sessions stand, and lists of those that stand so."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.api.local import sessions as session_states
from ekiden.api.local.sessions import find_sessions, state_of, summary_of, waiting_for
from ekiden.core.agent import Agent, Team
from ekiden.core.questions import Ask
from ekiden.runtime import CodeContext, Runner
from ekiden.runtime.questions.questions import PAUSES
from ekiden.sessions import Session
from ekiden.storage.base import (
    Commit,
    NewSession,
    SessionFilter,
    SessionPage,
    SessionPatch,
    SessionRow,
)
from ekiden.storage.memory import MemoryStore

OWNER = "worker-1"


async def put(store: MemoryStore, name: str, *, title: str | None = None, **patch: Any) -> None:
    """A session whose row is so."""
    meta = {} if title is None else {"title": title}
    await store.create(NewSession(id=name, agent=patch.pop("agent", "desk"), meta=meta))
    claim, _ = await store.claim(name, owner=OWNER, lease_s=60)
    await store.commit(claim, Commit(patch=SessionPatch(**patch), release=True))


def asks(*questions: tuple[str, str]) -> dict[str, Any]:
    """A cursor that waits for these: kind and who."""
    return {
        "r": 1,
        "as": {f"1.{n}": [kind, f"q{n}", who] for n, (kind, who) in enumerate(questions)},
    }


async def test_waiting_for_agents_and_for_people_are_distinguished() -> None:
    async def pm(ctx: CodeContext[Any]) -> str:
        asked = [Ask(agent="法务", subject="合同"), Ask(agent="sales", subject="discount")]
        return " ".join(await ctx.ask_all(asked))

    async def person(ctx: CodeContext[Any]) -> str:
        return (await ctx.request_approval("sure?", ("yes", "no"))).choice

    store = MemoryStore()
    team = Team(Agent("pm", run=pm), Agent("法务", run=person), Agent("sales", run=person))
    await Runner.run(team, "go", session=Session("s", store=store))
    found = summary_of(await store.get("s"))
    assert (found.state, found.waiting_for) == ("waiting_agent", ["法务", "sales"])
    assert (found.run_id, found.title) == ("s:1", None)
    others = [row for row in (await store.list()).sessions if row.id != "s"]
    assert {state_of(row) for row in others} == {"waiting_person"}
    assert [waiting_for(row) for row in others] == [["person:operator"]] * 2


@pytest.mark.parametrize(
    ("patch", "state", "waits"),
    [
        ({}, "idle", []),
        ({"outcome": "done"}, "idle", []),
        ({"outcome": "refused"}, "idle", []),
        ({"outcome": "failed"}, "failed", []),
        ({"outcome": "out_of_budget"}, "failed", []),
        ({"status": "ready", "outcome": "failed"}, "working", []),
        ({"status": "waiting", "outcome": "waiting"}, "waiting_person", ["person"]),
        ({"status": "waiting", "cursor": asks(("query", "b"))}, "waiting_agent", ["b"]),
        (
            {"status": "waiting", "cursor": asks(("query", "b"), ("inbox", "lead"))},
            "waiting_person",
            ["b", "person:lead"],
        ),
        ({"status": "waiting", "cursor": asks(("query", PAUSES))}, "working", []),
    ],
)
async def test_the_row_determines_the_state_of_a_session(
    patch: dict[str, Any], state: str, waits: list[str]
) -> None:
    store = MemoryStore()
    await put(store, "s", **patch)
    row = await store.get("s")
    assert (state_of(row), waiting_for(row)) == (state, waits)


async def test_a_resumed_session_is_working_whatever_its_status() -> None:
    store = MemoryStore()
    await put(store, "s")
    await store.claim("s", owner=OWNER, lease_s=60)
    assert state_of(await store.get("s")) == "working"
    assert summary_of(await store.get("s")).run_id is None


async def some(store: MemoryStore) -> list[str]:
    """Nine sessions, the newest first; every third failed, and every third waits."""
    kinds: list[dict[str, Any]] = [
        {"outcome": "done"},
        {"outcome": "failed"},
        {"status": "waiting", "cursor": asks(("query", "b"))},
    ]
    for number in range(9):
        await put(store, f"s{number}", title=f"Straße {number} 订单", **kinds[number % 3])
    return [f"s{number}" for number in range(9)][::-1]


async def all_pages(store: MemoryStore, *, limit: int, **options: Any) -> list[str]:
    """The ids of all pages."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        where = options.get("where", SessionFilter())
        chosen = {name: value for name, value in options.items() if name != "where"}
        page = await find_sessions(store, where, limit=limit, cursor=cursor, **chosen)
        assert len(page.sessions) <= limit
        found += [row.id for row in page.sessions]
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
@pytest.mark.parametrize("read", [1, 2, 4, 500])
async def test_pages_filtered_by_state_miss_no_session(
    limit: int, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_states, "_MAX_READ", read)
    store = MemoryStore()
    names = await some(store)
    for states, expected in (
        (["failed"], ["s7", "s4", "s1"]),
        (["waiting_agent"], ["s8", "s5", "s2"]),
        (["waiting_person", "working"], []),
        (["failed", "waiting_agent"], ["s8", "s7", "s5", "s4", "s2", "s1"]),
        ([], names),
    ):
        assert await all_pages(store, limit=limit, states=states) == expected
    assert await all_pages(store, limit=limit, where=SessionFilter(status="idle"), states=["idle"])
    idle = SessionFilter(status="idle")
    assert await all_pages(store, limit=limit, where=idle, states=["waiting_agent"]) == []


class Counted(MemoryStore):
    """Remembers what was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str | None, int]] = []

    async def list(
        self, where: SessionFilter = SessionFilter(), *, limit: int = 50, cursor: str | None = None
    ) -> SessionPage:
        """The page; status and size are noted."""
        self.asked.append((where.status, limit))
        return await super().list(where, limit=limit, cursor=cursor)


async def test_a_small_page_reads_few_sessions_and_more_only_if_needed() -> None:
    store = Counted()
    for number in range(400):
        await put(store, f"s{number}", agent="seldom" if number == 0 else "desk")
    assert await all_pages(store, limit=1, text="s399") == ["s399"]
    assert store.asked[0] == (None, 50)
    store.asked.clear()
    assert await all_pages(store, limit=20, text="seldom") == ["s0"]
    assert [size for _, size in store.asked] == [80, 160, 320]


async def test_failed_and_idle_sessions_are_searched_among_idle_rows() -> None:
    store = Counted()
    await some(store)
    await put(store, "spent", outcome="out_of_budget")
    expected = ["spent", "s7", "s4", "s1"]
    assert await all_pages(store, limit=5, states=["failed"]) == expected
    assert len(await all_pages(store, limit=9, states=["failed", "idle"])) == 7
    assert {status for status, _ in store.asked} == {"idle"}
    store.asked.clear()
    waiting = SessionFilter(status="waiting")
    assert await all_pages(store, limit=5, where=waiting, states=["failed"]) == []
    assert store.asked == []


async def test_a_text_finds_titles_ids_users_and_agents_in_any_script() -> None:
    store = MemoryStore()
    await some(store)
    await put(store, "other", agent="计费")
    await store.create(NewSession(id="x", agent="desk", user_id="Zoe\u0301"))
    for text, expected in (
        ("STRASSE 4", ["s4"]),
        ("2 订单", ["s2"]),
        ("S7", ["s7"]),
        ("计", ["other"]),
        ("zoé", ["x"]),
        ("nothing", []),
    ):
        assert await all_pages(store, limit=2, text=text) == expected
    assert await all_pages(store, limit=2, text="订单", states=["failed"]) == ["s7", "s4", "s1"]
    assert len(await all_pages(store, limit=4, text="  ")) == 11


async def test_a_page_with_few_matches_ends_early_and_the_next_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_states, "_MAX_READ", 2)
    monkeypatch.setattr(session_states, "_MAX_SCANNED", 4)
    store = MemoryStore()
    await some(store)
    first = await find_sessions(store, SessionFilter(), text="s1", limit=5)
    assert first.sessions == []
    assert first.next_cursor is not None
    assert await all_pages(store, limit=5, text="s1") == ["s1"]


class Restless(MemoryStore):
    """A session is begun between any two reads."""

    async def list(
        self, where: SessionFilter = SessionFilter(), *, limit: int = 50, cursor: str | None = None
    ) -> SessionPage:
        """The page before the change."""
        page = await super().list(where, limit=limit, cursor=cursor)
        await self.create(NewSession(id=f"new-{self.count}", agent="desk"))
        self.count += 1
        return page

    count = 0


async def test_a_page_read_during_changes_lists_no_session_twice() -> None:
    store = Restless()
    for number in range(6):
        await store.create(NewSession(id=f"old-{number}", agent="desk"))
    rows: list[SessionRow] = []
    cursor: str | None = None
    while True:
        page = await find_sessions(store, SessionFilter(), text="desk", limit=2, cursor=cursor)
        rows += page.sessions
        cursor = page.next_cursor
        if cursor is None:
            break
    names = [row.id for row in rows]
    assert len(set(names)) == len(names)
    assert [name for name in names if name.startswith("old")] == [f"old-{n}" for n in range(6)][
        ::-1
    ]
