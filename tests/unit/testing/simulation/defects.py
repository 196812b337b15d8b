"""Defects that are planted in the runtime and in the store, for the simulation to find."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeAlias

import pytest

from ekiden.core.events import Event
from ekiden.engine import bus_server
from ekiden.engine.store_worker import StoreWorker
from ekiden.runtime.handoff import rollback
from ekiden.runtime.questions import due
from ekiden.runtime.state.leases import LeaseKeeper
from ekiden.runtime.tools import run_tools as tool_calls
from ekiden.runtime.tools.confirmation import Decision
from ekiden.storage import chain
from ekiden.storage.memory import MemoryStore
from ekiden.storage.memory.documents import MemoryDocuments
from ekiden.testing.simulation.checker import InvariantChecker
from ekiden.testing.simulation.programs import Handle

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """Something that is wrong, and which promises are seen to be broken because of it."""

    plant: Plant
    rules: frozenset[str]
    first: int
    """The seed to begin with."""


def _no_fencing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "_owned", lambda self, claim: self._sessions.get(claim.session_id))


def _lease_is_eternal(patch: pytest.MonkeyPatch) -> None:
    take = MemoryStore._take
    patch.setattr(MemoryStore, "_take", lambda self, s, owner, _: _kept(take(self, s, owner, 1e6)))


def _lease_is_short(patch: pytest.MonkeyPatch) -> None:
    take = MemoryStore._take
    patch.setattr(MemoryStore, "_take", lambda self, s, owner, _: _kept(take(self, s, owner, 0.2)))


def _kept(taken: Any) -> Any:
    claim, row = taken
    return replace(claim, lease_s=2.0), row


def _two_owners(patch: pytest.MonkeyPatch) -> None:
    async def claim_next(self: Any, *, owner: str, lease_s: float, **_: Any) -> Any:
        for session in self._sessions.values():
            if session.status == "ready" and owner != session.owner:
                return self._take(session, owner, lease_s)
        return None

    patch.setattr(MemoryStore, "claim_next", claim_next)


def _epoch_stands_still(patch: pytest.MonkeyPatch) -> None:
    take = MemoryStore._take

    def same(self: Any, session: Any, owner: str, lease_s: float) -> Any:
        session.epoch = min(session.epoch, 1)
        return take(self, session, owner, lease_s)

    patch.setattr(MemoryStore, "_take", same)


def _memo_is_not_read(patch: pytest.MonkeyPatch) -> None:
    async def steps(self: Any, session_id: str, *, prefix: str = "") -> Any:
        return {}

    patch.setattr(Handle, "steps", steps)


def _target_stays_owner(patch: pytest.MonkeyPatch) -> None:
    restore = rollback._restore

    async def half(run: Any, pending: Any) -> None:
        await restore(run, pending)
        run.agent = run.find_agent(pending.target)

    patch.setattr(rollback, "_restore", half)


def _handoff_is_half_done(patch: pytest.MonkeyPatch) -> None:
    """The row's agent is stored, and its cursor is not."""
    apply = MemoryStore._patch

    def half(self: Any, session: Any, patched: Any, cursor: Any, *others: Any) -> None:
        moved = patched.agent is not None and session.seq > 1
        apply(self, session, patched, None if moved else cursor, *others)

    patch.setattr(MemoryStore, "_patch", half)


def _wake_is_lost(patch: pytest.MonkeyPatch) -> None:
    apply = MemoryStore._patch

    def deaf(self: Any, session: Any, patched: Any, cursor: Any, variables: Any, _: Any) -> None:
        apply(self, session, patched, cursor, variables, None)

    patch.setattr(MemoryStore, "_patch", deaf)


def _inbox_is_answered_twice(patch: pytest.MonkeyPatch) -> None:
    stage = MemoryDocuments.stage

    def careless(self: Any, writes: Any, *, now_us: int) -> Any:
        return stage(self, [replace(each, expected_version=None) for each in writes], now_us=now_us)

    patch.setattr(MemoryDocuments, "stage", careless)


def _yes_counts_for_anything(patch: pytest.MonkeyPatch) -> None:
    def call(self: Any, call: Any) -> Any:
        given = json.loads(call["arguments"])
        return {**call, "arguments": json.dumps({**given, "cents": given["cents"] + 1})}

    patch.setattr(Decision, "call", call)


def _approval_is_skipped(patch: pytest.MonkeyPatch) -> None:
    async def ask(*_: Any) -> Decision:
        return Decision(approved=True, by="nobody")

    patch.setattr(tool_calls, "ask_first", ask)


def _key_is_new_every_time(patch: pytest.MonkeyPatch) -> None:
    made, number = tool_calls.tool_context, count()

    def context(*args: Any, **options: Any) -> Any:
        ctx = made(*args, **options)
        ctx.idempotency_key = f"{ctx.idempotency_key}:{next(number)}"
        return ctx

    patch.setattr(tool_calls, "tool_context", context)


def _event_is_changed(patch: pytest.MonkeyPatch) -> None:
    commit = MemoryStore.commit

    async def forging(self: Any, claim: Any, written: Any) -> None:
        await commit(self, claim, written)
        session = self._sessions[claim.session_id]
        if session.seq > 6:
            session.events[3].error = "never happened"

    patch.setattr(MemoryStore, "commit", forging)


def _event_is_lost(patch: pytest.MonkeyPatch) -> None:
    commit = MemoryStore.commit

    async def losing(self: Any, claim: Any, written: Any) -> None:
        await commit(self, claim, written)
        session = self._sessions[claim.session_id]
        if session.seq > 6 and len(session.events) == session.seq:
            del session.events[-1]

    patch.setattr(MemoryStore, "commit", losing)


def _chain_is_broken(patch: pytest.MonkeyPatch) -> None:
    seal = chain.AuditChain.seal

    def unlinked(self: chain.AuditChain, events: Iterable[Event]) -> None:
        self.head = ""
        seal(self, events)

    patch.setattr(chain.AuditChain, "seal", unlinked)


def _submitted_into_the_void(patch: pytest.MonkeyPatch) -> None:
    async def submit(*args: Any) -> int:
        return 1

    patch.setattr(sys.modules["ekiden.engine.worker"], "store_message", submit)


def _every_delivery_is_a_session(patch: pytest.MonkeyPatch) -> None:
    number = count()
    patch.setattr(bus_server, "bus_session_id", lambda *names: f"bus_{next(number)}")


def _nothing_is_undone(patch: pytest.MonkeyPatch) -> None:
    async def compensate(*args: Any) -> list[str]:
        return []

    patch.setattr(rollback, "compensate", compensate)


def _cannot_be_taken_up(patch: pytest.MonkeyPatch) -> None:
    run_session = StoreWorker._run

    async def failing(self: Any, options: Any, claim: Any, row: Any) -> None:
        if claim.epoch % 2 == 0:
            raise KeyError("nobody expected that")
        await run_session(self, options, claim, row)

    patch.setattr(StoreWorker, "_run", failing)


def _store_dies(patch: pytest.MonkeyPatch) -> None:
    commit = MemoryStore.commit

    async def dying(self: Any, claim: Any, written: Any) -> None:
        await commit(self, claim, written)
        if self._sessions[claim.session_id].seq == 5:
            raise TypeError("nobody expected that")

    patch.setattr(MemoryStore, "commit", dying)


def _watch_dies(patch: pytest.MonkeyPatch) -> None:
    def compare(self: Any, session_id: str) -> None:
        raise KeyError(session_id)

    patch.setattr(InvariantChecker, "_compare", compare)


def _keeper_dies(patch: pytest.MonkeyPatch) -> None:
    async def look(self: Any) -> None:
        raise KeyError("nobody expected that")

    patch.setattr(LeaseKeeper, "_look_for_requests", look)


def _timers_are_not_run(patch: pytest.MonkeyPatch) -> None:
    async def nothing(store: Any) -> int:
        return 0

    patch.setattr(due, "run_timers", nothing)


def _variables_are_dropped(patch: pytest.MonkeyPatch) -> None:
    apply = MemoryStore._patch

    def without(self: Any, session: Any, patched: Any, cursor: Any, _: Any, wakes: Any) -> None:
        apply(self, session, patched, cursor, None, wakes)

    patch.setattr(MemoryStore, "_patch", without)


def _any_agent_is_run_anywhere(patch: pytest.MonkeyPatch) -> None:
    init = StoreWorker.__init__

    def careless(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        self._agents = sorted(agent.name for agent in self.team)
        self._limit = None

    patch.setattr(StoreWorker, "__init__", careless)


def _unknown_calls_are_not_settled(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> tuple[str, None]:
        return "", None

    patch.setattr(tool_calls, "settle_earlier", nothing)


DEFECTS: dict[str, Defect] = {
    "a store that ignores epochs": Defect(
        plant=_no_fencing, rules=frozenset({"fencing", "lease", "owner"}), first=3
    ),
    "a lease that never runs out": Defect(
        plant=_lease_is_eternal, rules=frozenset({"lease", "fencing", "liveness"}), first=1
    ),
    "a lease that runs out too early": Defect(
        plant=_lease_is_short, rules=frozenset({"lease", "owner"}), first=1
    ),
    "a session that is given to two": Defect(
        plant=_two_owners, rules=frozenset({"owner"}), first=1
    ),
    "an epoch that stands still": Defect(
        plant=_epoch_stands_still, rules=frozenset({"epoch"}), first=1
    ),
    "results that are not read again": Defect(
        plant=_memo_is_not_read, rules=frozenset({"memo", "answer", "step", "liveness"}), first=1
    ),
    "a rollback that leaves the target as owner": Defect(
        plant=_target_stays_owner, rules=frozenset({"handoff"}), first=1
    ),
    "a handoff that is half done": Defect(
        plant=_handoff_is_half_done, rules=frozenset({"handoff"}), first=1
    ),
    "a wake that is lost between look and suspend": Defect(
        plant=_wake_is_lost, rules=frozenset({"liveness"}), first=45
    ),
    "an inbox that takes two answers": Defect(
        plant=_inbox_is_answered_twice, rules=frozenset({"approval"}), first=10
    ),
    "a yes that counts for other arguments": Defect(
        plant=_yes_counts_for_anything, rules=frozenset({"approval"}), first=1
    ),
    "a tool that runs without its yes": Defect(
        plant=_approval_is_skipped, rules=frozenset({"approval"}), first=1
    ),
    "an idempotency key that is new every time": Defect(
        plant=_key_is_new_every_time, rules=frozenset({"effect"}), first=34
    ),
    "an event that is changed": Defect(
        plant=_event_is_changed, rules=frozenset({"events", "audit"}), first=1
    ),
    "an event that is lost": Defect(plant=_event_is_lost, rules=frozenset({"events"}), first=1),
    "an audit chain that does not hang together": Defect(
        plant=_chain_is_broken, rules=frozenset({"audit"}), first=1
    ),
    "a message that is acknowledged and not stored": Defect(
        plant=_submitted_into_the_void, rules=frozenset({"lost"}), first=1
    ),
    "a message that is worked on as often as it comes": Defect(
        plant=_every_delivery_is_a_session, rules=frozenset({"effect"}), first=1
    ),
    "a rollback that undoes nothing": Defect(
        plant=_nothing_is_undone, rules=frozenset({"effect"}), first=1
    ),
    "a session that cannot be taken up": Defect(
        plant=_cannot_be_taken_up, rules=frozenset({"crash"}), first=1
    ),
    "a store that dies of something": Defect(
        plant=_store_dies, rules=frozenset({"crash"}), first=1
    ),
    "a watch that dies of something": Defect(
        plant=_watch_dies, rules=frozenset({"crash"}), first=1
    ),
    "something that dies beside": Defect(plant=_keeper_dies, rules=frozenset({"crash"}), first=1),
    "a time that is over and nobody sees to it": Defect(
        plant=_timers_are_not_run, rules=frozenset({"liveness", "answer"}), first=1
    ),
    "variables that are dropped": Defect(
        plant=_variables_are_dropped, rules=frozenset({"variables"}), first=1
    ),
    "a tool that starts while the effect of a call is unknown": Defect(
        plant=_unknown_calls_are_not_settled, rules=frozenset({"unknown"}), first=1
    ),
    "a worker that runs what it does not serve": Defect(
        plant=_any_agent_is_run_anywhere, rules=frozenset({"place"}), first=1
    ),
}
