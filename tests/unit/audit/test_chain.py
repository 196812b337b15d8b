"""The hash of an event: over all of it, and over the one before."""

import hashlib
import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ekiden import Agent, Runner, Session, function_tool
from ekiden.audit import GENESIS, AuditChain, ChainHead, chained, head_of, link, verify_audit
from ekiden.audit.record import hash_of
from ekiden.core.events import AUDITED, Event
from ekiden.core.values import dumps, loads
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer
from tests.support.cases import each_case
from tests.unit.audit.written import event, handoff, story, write

FIELDS: dict[str, Any] = {
    "session_id": "s",
    "seq": 3,
    "type": "handoff",
    "at_us": 1_700_000_000_000_000,
    "agent": "triage",
    "step": "1.1.h",
    "duration_us": 12,
    "details": {"from": "triage", "to": "orders"},
    "items": ({"role": "user", "content": "hi"},),
    "error": "broken",
}
OTHERS: dict[str, Any] = {
    "session_id": "t",
    "seq": 4,
    "type": "route",
    "at_us": 1_700_000_000_000_001,
    "agent": None,
    "step": "",
    "duration_us": None,
    "details": {"from": "triage", "to": "billing"},
    "items": (),
    "error": None,
}


def test_a_hash_is_reproducible_from_the_documented_formula() -> None:
    told = {"from": "triage", "to": "orders"}
    fields = ["before", "s", 3, "handoff", 1_700_000_000_000_000, "triage", "1.1.h", 12, told]
    text = json.dumps(
        [*fields, [{"role": "user", "content": "hi"}], "broken"], separators=(",", ":")
    )
    digest = hashlib.sha256(text.encode()).digest()
    assert link("before", Event(**FIELDS)) == urlsafe_b64encode(digest).decode().rstrip("=")


def test_a_hash_is_url_safe() -> None:
    for seq in range(200):
        value = link(GENESIS, event("s", seq, "handoff"))
        assert len(value) == 43
        assert value.replace("-", "").replace("_", "").isalnum()


@each_case("field", FIELDS)
def test_every_field_changes_the_hash(field: str) -> None:
    changed = Event(**{**FIELDS, field: OTHERS[field]})
    assert link(GENESIS, changed) != link(GENESIS, Event(**FIELDS))


def test_the_previous_hash_changes_the_hash() -> None:
    assert link("a", Event(**FIELDS)) != link("b", Event(**FIELDS))


def test_the_stored_hash_itself_is_not_hashed() -> None:
    details = {**FIELDS["details"], "hash": "x"}
    assert link(GENESIS, Event(**{**FIELDS, "details": details})) == link(GENESIS, Event(**FIELDS))


def test_missing_details_hash_like_empty_ones() -> None:
    bare = event("s", 1, "handoff")
    assert link(GENESIS, bare) == link(GENESIS, event("s", 1, "handoff", details={}))
    assert link(GENESIS, bare) == link(GENESIS, event("s", 1, "handoff", details={"hash": "x"}))


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}, b"bytes"])
def test_details_that_are_not_json_have_no_hash(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        link(GENESIS, event("s", 1, "handoff", details={"value": value}))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=())), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), JSON, st.text() | st.none())
def test_an_event_read_from_json_has_the_same_hash(
    details: dict[str, Any], item: Any, error: str | None
) -> None:
    written = event("s", 1, "handoff", details=details, items=({"x": item},), error=error)
    read = event(
        "s",
        1,
        "handoff",
        details=loads(dumps(details)),
        items=tuple(loads(dumps([{"x": item}]))),
        error=loads(dumps(error)),
    )
    assert link("p", written) == link("p", read)


def test_a_surrogate_pair_hashes_like_the_joined_character() -> None:
    halves, joined = "\ud83d\udce6", "📦"
    assert loads(dumps(halves)) == joined
    assert link("", event("s", 1, "inbox", error=halves)) == link(
        "", event("s", 1, "inbox", error=joined)
    )


def test_only_audited_events_are_chained() -> None:
    linked, chain = chained(story())
    hashes = [(each.details or {}).get("hash") for each in linked if each.type in AUDITED]
    assert chain.count == len(hashes) == 4
    assert len(set(hashes)) == 4
    assert chain.head == hashes[-1]
    assert not any("hash" in (each.details or {}) for each in linked if each.type not in AUDITED)
    assert linked[1].details is not None
    assert linked[1].details["hash"] == link(GENESIS, linked[1])
    assert linked[2].details is not None
    assert linked[2].details["hash"] == link(linked[1].details["hash"], linked[2])


def test_events_chained_again_keep_all_other_fields() -> None:
    once, _ = chained([handoff("s", 1, "initiated", reason="r")])
    moved = Event(
        session_id="t", seq=1, type="handoff", at_us=5, details=once[0].details, error="e"
    )
    (again,), chain = chained([moved], AuditChain("before"))
    assert again.details is not None
    assert once[0].details is not None
    assert again.details == {**once[0].details, "hash": chain.head}
    assert (again.session_id, again.at_us, again.error, chain.count) == ("t", 5, "e", 1)
    assert chain.head == link("before", moved) != once[0].details["hash"]


async def test_the_chain_head_is_stored_in_the_session_row() -> None:
    async with MemoryStore() as store:
        await write(store, story())
        _, chain = chained(story())
        assert head_of(await store.get("s")) == ChainHead(hash=chain.head, count=4)
        await write(store, [event("t", 1)])
        assert head_of(await store.get("t")) is None


async def test_a_tool_reading_its_own_run_finds_a_complete_chain() -> None:
    store = MemoryStore()
    seen: list[object] = []

    @function_tool
    async def look() -> str:
        """Read the session while its run is under way."""
        seen.extend(hash_of(each) for each in await store.events("s") if each.type == "handoff")
        return "seen"

    model = ScriptedModel([transfer("desk"), call("look"), say("done")])
    desk = Agent("desk", model=model, tools=[look])
    triage = Agent("triage", model=model, handoffs=[desk])
    result = await Runner.run(triage, "hello", session=Session("s", store=store))
    assert len(seen) == 2
    assert all(seen)
    handoffs = [each for each in result.events if each.type == "handoff"]
    assert [hash_of(each) for each in handoffs] == seen
    assert head_of(await store.get("s")) == ChainHead(hash=str(seen[-1]), count=2)
    assert (await verify_audit(store)).ok
