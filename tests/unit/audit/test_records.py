"""Audited events as records."""

from typing import Any

import pytest

from ekiden.audit import AuditActor, AuditRecord, chained, records_of
from tests.support.cases import each_case
from tests.unit.audit.written import BEGINNING, START_US, event, handoff, story


def record(type: Any, details: dict[str, Any] | None, **fields: Any) -> AuditRecord:
    """The one record of an event of `orders`."""
    (found,) = records_of(event("s", 4, type, agent="orders", details=details, **fields))
    return found


def test_each_step_of_a_handoff_is_a_record() -> None:
    records = records_of(handoff("s", 3, *BEGINNING, reason="a parcel", task="t-1"))
    assert [each.id for each in records] == ["s/3.1", "s/3.2", "s/3.3"]
    assert [each.move for each in records] == BEGINNING
    for each in records:
        assert (each.session_id, each.seq, each.type) == ("s", 3, "handoff")
        assert (each.at_us, each.reason) == (START_US + 3_000_000, "a parcel")
        assert each.agents == ("triage", "orders")
        assert (each.handoff_id, each.task_id, each.correlation_id) == ("s.h1", "t-1", "s")


def test_a_handoff_with_one_step_is_one_record() -> None:
    (found,) = records_of(handoff("s", 5, "completed", correlation="c-1"))
    assert (found.id, found.move, found.correlation_id) == ("s/5", "completed", "c-1")


def test_a_handoff_of_an_earlier_version_is_one_record_with_its_status() -> None:
    found = record("handoff", {"from": "a", "to": "b", "status": "rolled_back"}, error="it broke")
    assert (found.move, found.error, found.handoff_id) == ("rolled_back", "it broke", None)
    assert (found.hash, found.previous) == (None, None)


def test_a_handoff_event_without_steps_is_one_record() -> None:
    found = record("handoff", {"id": "h", "status": "rolled_back", "moves": [], "attempt": 2})
    assert (found.id, found.move, found.handoff_id) == ("s/4", None, "h")
    assert found.facts == {"attempt": 2}


def test_a_refused_handoff_has_its_code() -> None:
    found = record("handoff", {"status": "failed", "code": "MAX_DEPTH_EXCEEDED"}, error="too deep")
    assert (found.code, found.error, found.move) == ("MAX_DEPTH_EXCEEDED", "too deep", "failed")


@each_case(
    ("by", "actor"),
    [
        ({"kind": "model"}, AuditActor(kind="agent", name="triage")),
        ({"kind": "model", "name": "orders"}, AuditActor(kind="agent", name="orders")),
        ({"kind": "trigger", "name": "slow"}, AuditActor(kind="system", name="trigger slow")),
        ({"kind": "trigger"}, AuditActor(kind="system", name="trigger")),
        ({"kind": "person", "name": "王芳"}, AuditActor(kind="person", name="王芳")),
        ({"kind": "program", "name": "cron"}, AuditActor(kind="program", name="cron")),
        ({"kind": "system"}, AuditActor(kind="system", name="")),
        ({"kind": "something new", "name": "x"}, AuditActor(kind="system", name="x")),
        ({}, AuditActor(kind="system", name="")),
        ("ms.sato", AuditActor(kind="person", name="ms.sato")),
        ("nobody", AuditActor(kind="system", name="nobody")),
        ("", AuditActor(kind="agent", name="triage")),
        (7, AuditActor(kind="agent", name="triage")),
    ],
)
def test_the_actor_is_read_from_the_details(by: object, actor: AuditActor) -> None:
    assert record("handoff", {"from": "triage", "by": by}).actor == actor


def test_the_default_actor_is_the_agent() -> None:
    assert record("handoff", {"from": "triage"}).actor == AuditActor(kind="agent", name="triage")
    assert record("guardrail", None).actor == AuditActor(kind="agent", name="orders")
    assert str(record("guardrail", None).actor) == "agent orders"


@pytest.mark.parametrize(
    ("method", "actor", "source"),
    [
        ("rule", AuditActor(kind="agent", name="orders"), "orders"),
        (None, AuditActor(kind="agent", name="orders"), "orders"),
        ("named", AuditActor(kind="person", name=""), None),
        ("sticky", AuditActor(kind="system", name="sticky"), None),
        ("default", AuditActor(kind="system", name="default"), None),
    ],
)
def test_the_actor_of_a_route_depends_on_its_method(
    method: str | None, actor: AuditActor, source: str | None
) -> None:
    found = record("route", {"agent": "billing", "method": method})
    assert (found.actor, found.agents) == (actor, (source, "billing"))


def test_the_confirmation_of_a_tool_is_recorded_in_the_facts() -> None:
    found = record("tool_confirmation", {"tool": "refund", "approved": False, "by": "ms.sato"})
    assert found.facts == {"tool": "refund", "approved": False}
    assert (found.move, found.target) == (None, None)


def test_an_inbox_record_names_its_handoff() -> None:
    found = record("inbox", {"kind": "rollback_failed", "handoff": "s.h1", "from": "billing"})
    assert (found.handoff_id, found.source, found.facts["kind"]) == (
        "s.h1",
        "billing",
        "rollback_failed",
    )


@pytest.mark.parametrize(
    "details",
    [
        {"moves": "all", "status": 1, "from": 2, "to": [], "reason": {}, "id": None, "hash": 9},
        {"moves": [1, None], "by": []},
        ["not", "a", "dict"],
        "text",
    ],
)
def test_malformed_details_are_tolerated(details: Any) -> None:
    records = records_of(event("s", 1, "handoff", details=details))
    assert all(each.move is None and each.hash is None for each in records)
    assert all(each.to_json()["session_id"] == "s" for each in records)


def test_a_record_is_converted_to_json() -> None:
    linked, _ = chained(story()[:3])
    found = records_of(linked[2], previous="before")[2]
    assert found.to_json() == {
        "id": "s/3.3",
        "timestamp": 1_700_000_003.0,
        "session_id": "s",
        "type": "handoff",
        "move": "transferring",
        "actor": {"kind": "agent", "name": "triage"},
        "from": "triage",
        "to": "orders",
        "handoff_id": "s.h1",
        "task_id": "s",
        "correlation_id": "s",
        "reason": "包裹 📦",
        "code": None,
        "error": None,
        "facts": {},
        "hash": linked[2].details["hash"] if linked[2].details else None,
        "previous": "before",
    }
