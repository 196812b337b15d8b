"""What programs give with a handoff is checked before anything happens, and arrives."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.core.handoffs import HandoffContext, HandoffRequest
from ekiden.storage.base import NewSession
from ekiden.storage.memory import MemoryStore
from ekiden.testing import hang
from tests.unit.runtime.offices import Office, ended


def task(state: Any = None, *, source: str = "a", **fields: Any) -> HandoffRequest:
    past = [{"role": "user", "content": "the past"}]
    context = {"task_id": "t", "task_state": state or {}, "conversation_history": past, **fields}
    return HandoffRequest(source=source, target="b", context=HandoffContext(**context))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"state": {"x": object()}}, "`task_state`"),
        ({"conversation_history": [{"role": "user", "content": {1, 2}}]}, "conversation_history"),
        ({"metadata": {"correlation_id": object()}}, "`correlation_id`"),
        ({"payload": float("nan")}, "`payload`"),
        ({"task_id": "a/b"}, "task id"),
        ({"task_id": 7}, "`task_id` must be text"),
        ({"source": None}, "`source` must be an agent"),
    ],
)
async def test_a_task_with_invalid_fields_stores_no_session(fields: Any, told: str) -> None:
    office = Office(MemoryStore())
    with pytest.raises(UserError, match=told):
        await office.controller.initiate(task(**fields))
    assert not (await office.store.list()).sessions


async def test_a_new_session_gets_the_history_of_the_handoff_request() -> None:
    office = Office(MemoryStore())
    await office.store.create(NewSession(id="t", agent="a"))
    result = await office.controller.initiate(task({"x": 1}))
    assert (result.request_id, *ended(result)) == ("t.h1", "completed", None)
    assert office.model.calls[-1].input[0]["content"] == "the past"
    assert (await office.store.get("t")).variables == {"x": 1}


async def test_a_handoff_waits_for_a_session_that_is_being_created() -> None:
    office = Office(MemoryStore())
    new = NewSession(id="t", agent="a")
    claim, _ = await office.store.claim("t", owner="dead", lease_s=60, create=new)
    late = await office.controller.initiate(task({"x": 1}, timeout=0.01))
    assert ended(late) == ("failed", "TIMEOUT")
    starting = asyncio.create_task(office.controller.initiate(task({"x": 1})))
    await asyncio.sleep(0)
    await office.store.release(claim)
    assert ended(await starting) == ("completed", None)
    assert (await office.store.get("t")).variables == {"x": 1}


async def test_a_source_that_does_not_hold_the_task_cannot_hand_it_off() -> None:
    office = Office(MemoryStore())
    await office.store.create(NewSession(id="t", agent="c"))
    result = await office.controller.initiate(task({"x": 1}))
    assert ended(result) == ("failed", "PERMISSION_DENIED")
    assert result.error is not None
    assert "the active agent is 'c', not 'a'" in result.error.message
    assert (await office.store.get("t")).variables == {}
    unknown = await office.controller.initiate(task(source="nobody"))
    assert (unknown.source, *ended(unknown)) == ("nobody", "failed", "AGENT_NOT_FOUND")


@pytest.mark.parametrize(
    ("terms", "options"), [({"timeout_s": 0.02}, {}), ({}, {"timeout_s": 0.02})]
)
async def test_the_handoff_timeout_comes_from_the_edge_or_the_caller(
    terms: Any, options: Any
) -> None:
    class Late(Office):
        def respond(self, request: Any) -> Any:
            return hang()

    office = Late(MemoryStore(), **terms)
    office.let_go.set()
    await (await office.at_work())
    assert ended(await office.start(**options)) == ("rolled_back", "TIMEOUT")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"to": None}, "`to` must be an agent or its name, not None"),
        ({"reason": None}, "`reason` must be text, not None"),
        ({"summary": b"x"}, "`summary` must be text, not bytes"),
        ({"context": object()}, "`context` must be JSON"),
        ({"payload": float("inf")}, "`payload` must be JSON"),
        ({"policy": "nope"}, "`policy` must be one of immediate, graceful, conditional"),
        ({"capabilities": "sql"}, "`capabilities` must be names"),
        ({"capabilities": (1,)}, "`capabilities` must be names"),
        ({"timeout_s": 0}, "above 0"),
        ({"timeout_s": "5"}, "above 0"),
        ({"timeout_s": float("nan")}, "above 0"),
        ({"timeout_s": 10**400}, "above 0"),
        ({"timeout_s": True}, "above 0"),
        ({"by": "ada"}, "`by` must be an Actor"),
    ],
)
async def test_invalid_handoff_options_are_refused_before_anything_happens(
    wrong: Any, told: str
) -> None:
    office = Office(MemoryStore())
    await office.store.create(NewSession(id="s", agent="a"))
    with pytest.raises(UserError, match=told):
        await office.start(**wrong)
    row = await office.session.row()
    assert (row.seq, row.epoch) == (0, 0)


async def test_an_agent_can_receive_its_own_task_with_a_payload() -> None:
    seen: list[Any] = []

    def accepts(ctx: Any, request: HandoffRequest) -> bool:
        seen.append(request.context.payload)
        return True

    office = Office(MemoryStore(), b={"accepts": accepts})
    office.let_go.set()
    await (await office.at_work())
    result = await office.start(to=office.b, payload={"order": ("A-42", 7)}, context={1: "残り"})
    assert ended(result) == ("completed", None)
    assert seen == [{"order": ["A-42", 7]}]
    [told, *_] = [e.details for e in await office.session.events() if e.type == "handoff"]
    assert told is not None
    assert told["payload"] == {"order": ["A-42", 7]}
    assert told["context"] == '{"1":"残り"}'
