"""What must be true of a session's handoffs in the end, whoever was killed when: all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ekiden.audit import verify_audit
from ekiden.core.events import Event
from ekiden.handoff.records import records_of
from ekiden.handoff.requests import FINAL
from ekiden.sessions import conversation
from ekiden.storage.base import Store
from tests.faults.evidence import Record
from tests.faults.ledger import Ledger, digest_of
from tests.faults.scenario import Scenario


async def check_audit(store: Store, session_id: str) -> None:
    """Every hash is right, and the chain ends where the session's row says."""
    verification = await verify_audit(store, session_id=session_id)
    assert verification.ok, verification.first


def check_settled(record: Record, ledger: Ledger, scenario: Scenario) -> None:
    """Each handoff is wholly made or wholly undone, in the store and in the world."""
    handoffs = records_of(record.events)
    assert [each.id for each in handoffs if each.status not in FINAL] == []
    check_conversations(record.events, ledger)
    compensated = [key for each in handoffs for key in each.compensated]
    assert sorted(compensated) == sorted(scenario.undone)
    _check_undone(record.events, ledger, scenario)
    assert ledger.effects() == sorted(scenario.effects)
    if scenario.variables is not None:
        assert record.row.variables == scenario.variables


def check_conversations(events: Sequence[Event], ledger: Ledger) -> None:
    """A rollback leaves nothing of the target's, and models were shown what stands, no more."""
    for event in events:
        if event.details and "undoes" in event.details:
            _check_conversation_restored(events, event)
    _check_shown(events, ledger)


def check_people_asked(before: Record | None, after: Record, ledger: Ledger, rescuer: int) -> None:
    """Nobody is asked again whose answer is stored."""
    answered = {event.seq for event in after.events if event.type == "tool_confirmation"}
    known = set() if before is None else {event.seq for event in before.events}
    asked = ledger.lines("asked", session=after.row.id, pid=rescuer)
    assert len(asked) == len(answered - known)


def _check_conversation_restored(events: Sequence[Event], rollback: Event) -> None:
    """What was said is as before the handoff, but for the answer to the call that asked for it."""
    assert rollback.details is not None
    first, last = rollback.details["undoes"]
    assert last == rollback.seq - 1
    before = conversation(events[: first - 1])
    assert conversation(events[: rollback.seq]) == [*before, *rollback.items]
    assert len(rollback.items) <= 1


def _check_shown(events: Sequence[Event], ledger: Ledger) -> None:
    """Whoever got no filtered past was shown what had been said and stood, and nothing else."""
    filtered = {
        event.details["to"] for event in events if event.details and "filter" in event.details
    }
    shown = {line["step"]: line["items"] for line in ledger.lines("model")}
    for event in events:
        if event.type == "llm_call" and event.step and event.agent not in filtered:
            said = conversation(events[: event.seq - 1])
            assert shown[event.step] == [digest_of(item) for item in said], event


def _check_undone(events: Sequence[Event], ledger: Ledger, scenario: Scenario) -> None:
    """In reverse order, each once; one that was under way at a kill was begun once more."""
    made = [
        event.details["compensation"]
        for event in events
        if event.details and "compensation" in event.details and event.error is None
    ]
    assert made == list(scenario.undone)
    tried = [what for what, _ in groupby(line["what"] for line in ledger.lines("undo"))]
    assert tried == list(scenario.undone)
