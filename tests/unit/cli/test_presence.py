"""Which agent has which sessions, and waits for whom."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden import MemoryStore
from ekiden.api.local.agents import presences
from ekiden.core.conversation.messages import BlockingContext, BlockingName
from ekiden.core.documents import to_json
from ekiden.storage.base import NewSession


async def test_sessions_are_counted_by_agent_and_status() -> None:
    store = MemoryStore()
    for number in range(1203):
        await store.create(NewSession(id=f"i{number}", agent="orders"))
    await store.create(NewSession(id="r1", agent="orders", status="ready"))
    await store.create(NewSession(id="w1", agent="billing", status="waiting"))
    await store.create(NewSession(id="x1", agent="以前の係"))
    await store.claim("r1", owner="worker-1", lease_s=30)
    found = await presences(store, ["billing", "orders", "technical"])
    assert to_json(found) == [
        _record("billing", waiting=1),
        _record("orders", idle=1203, ready=1, running=[("r1", "worker-1")]),
        _record("technical"),
        _record("以前の係", idle=1, known=False),
    ]


async def test_the_router_is_listed_if_it_has_a_session() -> None:
    store = MemoryStore()
    assert len(await presences(store, ["a"], router="router-agent")) == 1
    await store.create(NewSession(id="s", agent="router-agent"))
    found = await presences(store, ["a"], router="router-agent")
    assert to_json(found) == [
        _record("a"),
        _record("router-agent", idle=1, router=True),
    ]


async def test_every_waiting_agent_is_listed_even_without_a_session() -> None:
    waits = [_wait("a", "internal"), _wait("stranger", "user")]
    found = await presences(MemoryStore(), ["a"], waits=waits)
    assert to_json(found) == [
        _record("a", waits=waits[:1]),
        _record("stranger", known=False, waits=waits[1:]),
    ]


async def test_waiting_for_an_agent_is_shown_before_waiting_for_a_person() -> None:
    both = [_wait("a", "user"), _wait("a", "internal")]
    [found] = await presences(MemoryStore(), ["a"], waits=both)
    assert found.status == "internal"


def _wait(agent: str, status: BlockingName) -> BlockingContext:
    return BlockingContext(agent=agent, status=status, waiting_for=("b",), started_at=1.5)


def _record(
    agent: str,
    *,
    known: bool = True,
    router: bool = False,
    idle: int = 0,
    ready: int = 0,
    waiting: int = 0,
    running: list[tuple[str, str]] | None = None,
    waits: Sequence[BlockingContext] = (),
) -> dict[str, object]:
    return {
        "agent": agent,
        "known": known,
        "router": router,
        "sessions": idle + ready + waiting,
        "idle": idle,
        "ready": ready,
        "waiting": waiting,
        "running": [{"session_id": name, "owner": owner} for name, owner in running or ()],
        "status": waits[0].status if waits else "none",
        "waits": to_json(waits),
    }
