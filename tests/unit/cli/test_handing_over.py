"""What is printed about handoffs that a person requested."""

from __future__ import annotations

import json

import pytest

from ekiden.api.handoffs import CancelledHandoff
from ekiden.api.local.handoffs import end_of
from ekiden.cli.errors import Exit
from ekiden.cli.run_observer import report_cancel, stopped, tell_busy
from ekiden.core.handoffs import Actor, HandoffResult
from ekiden.handoff.requests import Asked, document_of
from ekiden.storage.base import NewSession, SessionPatch, SessionRow
from ekiden.storage.memory import MemoryStore
from ekiden.testing.contracts.base import claimed, step
from tests.unit.audit.written import BEGINNING, handoff, write

ANNA = Actor(kind="person", name="anna")
UNDER_WAY = HandoffResult(request_id="s.h1", status="transferring", source="a", target="b")


async def a_store() -> MemoryStore:
    store = MemoryStore()
    await store.create(NewSession(id="s", agent="a"))
    return store


async def held(store: MemoryStore) -> SessionRow:
    await store.claim("s", owner="somebody", lease_s=30)
    return await store.get("s")


async def test_a_busy_session_names_its_owner(capsys: pytest.CaptureFixture[str]) -> None:
    store = await a_store()
    tell_busy(await store.get("s"), 5, as_json=False)
    assert capsys.readouterr().err == ""
    row = await held(store)
    tell_busy(row, 5, as_json=False)
    assert capsys.readouterr().err == (
        "session s is being run by somebody, which is asked to hand it over, at most 5 s …\n"
    )
    tell_busy(row, 5, as_json=True)
    assert json.loads(capsys.readouterr().err) == {
        "waiting": {"session_id": "s", "owner": "somebody", "at_most_s": 5}
    }


async def told(store: MemoryStore, *, hint: str = "ekiden session resume s") -> str:
    return await stopped(store, "s", to="b", by="anna", how_to_resume=hint)


async def test_interrupting_a_handoff_names_the_pending_request_or_how_to_continue() -> None:
    store = await a_store()
    assert await told(store) == (
        "stopped; the session is kept, continue with: ekiden session resume s"
    )
    assert await told(store, hint="") == "stopped; the session is kept"
    mine = Asked(id="hrq_1", to="b", by=ANNA)
    others = Asked(id="hrq_2", to="b", by=Actor(kind="person", name="bo"))
    await store.write_documents([document_of("s", each) for each in (mine, others)])
    assert (await told(store)).endswith("withdraw it with: ekiden handoff cancel hrq_1")


async def test_interrupting_after_the_end_needs_no_continuation() -> None:
    store = await a_store()
    claim = await claimed(store, "t")
    await store.commit(claim, step(patch=SessionPatch(outcome="done"), release=True))
    said = await stopped(store, "t", to="b", by="anna", how_to_resume="again")
    assert said == "stopped; the session is kept"


async def test_an_abandoned_request_has_no_output() -> None:
    store = await a_store()
    late = HandoffResult(request_id="hrq_1", status="rolled_back", source="a", target="b")
    end = await end_of(store, "s", late)
    assert (end.agent, end.speaker, end.output, end.problem) == ("a", None, None, None)


async def test_the_output_of_a_running_session_is_not_printed() -> None:
    store = MemoryStore()
    await write(store, [handoff("s", 1, *BEGINNING)])
    await held(store)
    end = await end_of(store, "s", UNDER_WAY)
    assert (end.standing, end.output, end.problem) == ("running", None, None)


async def test_a_cancellation_that_was_not_executed_exits_as_busy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = CancelledHandoff(
        id="s.h1",
        status="transferring",
        source="a",
        target="b",
        completed_at=None,
        error=None,
        rollback_performed=False,
    )
    assert report_cancel(told, as_json=True) == Exit.BUSY
    shown = capsys.readouterr()
    assert json.loads(shown.out)["status"] == "transferring"
    assert json.loads(shown.err)["error"]["code"] == "session.busy"
