"""`/agents` over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from ekiden.bus.deadlocks import DEADLOCKS, Deadlock, DeadlockAsk
from ekiden.core.documents import to_json
from ekiden.core.questions import InboxItem
from ekiden.storage.base import DocumentWrite, NewSession
from tests.unit.server.counters import counter
from tests.unit.server.desks import Served, problem

AGENT = """---
name: {name}
description: 处理退款 👋
handoffs: [{to}]
---
You are {name}.
"""


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server of a team that hands over."""
    async with counter(tmp_path, monkeypatch) as found:
        yield found


async def test_agents_equal_the_output_of_the_command(desk: Served) -> None:
    listed = await desk.get("/agents")
    assert listed == {"items": await desk.command("agents", "list"), "next_cursor": None}
    for each in listed["items"]:
        shown = await desk.get(f"/agents/{quote(each['name'])}")
        for name in ("kind", "triggers", "capabilities", "available", "max_sessions"):
            assert each[name] == shown[name]
        assert shown == await desk.command("agents", "show", each["name"])
    assert (await desk.get("/agents/@陌生人"))["name"] == "陌生人"
    problem(await desk("GET", "/agents/ghost"), 404, "agent.unknown")
    problem(await desk("GET", f"/agents/{'x' * 300}"), 422)
    problem(await desk("GET", "/agents/a%00b"), 404)


async def test_agents_of_files_are_shown_with_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.unit.server.desks import serving

    folder = tmp_path / ".ekiden" / "agents"
    folder.mkdir(parents=True)
    for name, to in (("退款", "orders"), ("orders", "退款")):
        text = AGENT.format(name=name, to=to)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    async with serving(tmp_path, monkeypatch) as desk:
        assert (await desk.get("/agents"))["items"] == await desk.command("agents", "list")
        shown = await desk.get(f"/agents/{quote('退款')}")
        assert shown == await desk.command("agents", "show", "退款")


async def test_agent_activity_equals_the_output_of_the_command(desk: Served) -> None:
    store = await desk.store()
    await store.create(NewSession(id="a", agent="陌生人"))
    await store.create(NewSession(id="b", agent="who-left", status="waiting"))
    await store.claim("a", owner="somebody", lease_s=60)
    await (await desk.tenant_service()).inbox.post(
        InboxItem(kind="approval", from_agent="陌生人", subject="may I?", session_id="a")
    )
    found = await desk.get("/agents/ps")
    assert found["items"] == await desk.command("agents", "ps")
    by_name = {each["agent"]: each for each in found["items"]}
    assert by_name["陌生人"]["running"] == [{"session_id": "a", "owner": "somebody"}]
    assert by_name["陌生人"]["status"] == "user"
    assert (by_name["who-left"]["known"], by_name["who-left"]["waiting"]) == (False, 1)


async def test_the_count_of_idle_sessions_can_be_skipped(desk: Served) -> None:
    store = await desk.store()
    for number in range(3):
        await store.create(NewSession(id=f"i{number}", agent="billing"))
    await store.create(NewSession(id="w", agent="billing", status="waiting"))
    [all_, busy] = [
        next(each for each in (await desk.get(path))["items"] if each["agent"] == "billing")
        for path in ("/agents/ps", "/agents/ps?idle=false")
    ]
    assert (all_["idle"], all_["waiting"], all_["sessions"]) == (3, 1, 4)
    assert (busy["idle"], busy["waiting"], busy["sessions"]) == (0, 1, 1)


async def test_deadlocks_equal_the_output_of_the_command(desk: Served) -> None:
    store = await desk.store()
    for number in range(3):
        found = Deadlock(
            id=f"dl-{number}",
            cycle=("甲", "乙", "甲"),
            message_ids=("m1", "m2"),
            victim="甲",
            asks=(
                DeadlockAsk(source="甲", target="乙", message_id="m1", text="预算？"),
                DeadlockAsk(source="乙", target="甲", message_id="m2"),
            ),
            policy="longest",
            found_at=1_800_000_000.0,
            resolved=True,
        )
        write = DocumentWrite(
            collection=DEADLOCKS, key=found.id, body=to_json(found.with_cancelled(["m1"]))
        )
        await store.write_documents([write])
    listed = (await desk.get("/agents/deadlocks"))["items"]
    assert listed == await desk.command("agents", "deadlocks")
    assert await desk.pages("/agents/deadlocks") == listed
    for each in listed:
        assert [(ask["from"], ask["to"], ask["given_up"]) for ask in each["asks"]] == [
            ("甲", "乙", True),
            ("乙", "甲", False),
        ]
    problem(await desk("GET", "/agents/deadlocks?limit=0"), 422)
