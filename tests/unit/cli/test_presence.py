"""Which agent has which sessions."""

from __future__ import annotations

from ekiden import MemoryStore
from ekiden.cli.presence import presences
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
    assert [each.to_json() for each in found] == [
        _record("billing", waiting=1),
        _record("orders", idle=1203, ready=1, running=[("r1", "worker-1")]),
        _record("technical"),
        _record("以前の係", idle=1, known=False),
    ]


async def test_the_router_is_known_where_it_has_a_session() -> None:
    store = MemoryStore()
    assert len(await presences(store, ["a"], router="router-agent")) == 1
    await store.create(NewSession(id="s", agent="router-agent"))
    found = await presences(store, ["a"], router="router-agent")
    assert [each.to_json() for each in found] == [
        _record("a"),
        _record("router-agent", idle=1, router=True),
    ]


async def test_without_a_store_nobody_has_a_session() -> None:
    assert [each.to_json() for each in await presences(None, ["a"])] == [_record("a")]


def _record(
    agent: str,
    *,
    known: bool = True,
    router: bool = False,
    idle: int = 0,
    ready: int = 0,
    waiting: int = 0,
    running: list[tuple[str, str]] | None = None,
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
    }
