"""Random moves by random agents, against a simple model of what may happen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ekiden.collaboration import Collaboration, CollaborationSettings
from ekiden.collaboration.record import SYSTEM
from ekiden.core.errors.collaboration import CollaborationError, MessageExpired, MessageReplayed
from ekiden.storage.records import EXECUTIONS
from tests.support.examples import examples
from tests.unit.collaboration.offices import Office, Recorder, path

AGENTS = st.sampled_from(["ann", "ann", "ann", "bob", "bob", "bob", "cy", "eve"])
BIDDERS = st.sampled_from(["bob", "bob", "cy", "eve"])
CALLED = ("bob", "cy")
SETTINGS = CollaborationSettings(
    max_rounds=3, bids_s=20, negotiation_s=60, lifetime_s=300, lease_s=5
)
OPEN = ("discovery", "negotiation", "agreement")


@dataclass
class Model:
    """What a collaboration of ``ann`` should look like."""

    kind: str
    born: float
    phase: str
    partner: str | None
    version: int = 1
    maker: str = "ann"
    accepted: set[str] = field(default_factory=set)
    rounds: int = 1
    bids: dict[str, bool] = field(default_factory=dict)
    declined: set[str] = field(default_factory=set)
    deadline: float = 0.0
    ever_accepted: set[tuple[str, int]] = field(default_factory=set)
    closed_as: Collaboration | None = None

    @property
    def members(self) -> set[str]:
        return {"ann", *CALLED} if self.kind == "call" else {"ann", "bob"}

    @property
    def sides(self) -> set[str]:
        return {"ann"} if self.partner is None else {"ann", self.partner}

    def is_turn_of(self, by: str) -> bool:
        return self.phase == "negotiation" and by in self.sides and by != self.maker

    def agree_if_both(self) -> None:
        if self.accepted == self.sides and len(self.sides) == 2:
            self.phase = "agreement"


class Machine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.office = Office(executor=Recorder(), settings=SETTINGS)
        self.now = 0.0
        self.models: dict[str, Model] = {}
        self.moves = 0

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.close()

    # What agents do

    @precondition(lambda self: len(self.models) < 2)
    @rule(kind=st.sampled_from(["request", "propose", "call"]))
    def open(self, kind: str) -> None:
        ann = self.office["ann"]
        made: Any
        if kind == "request":
            made = ann.request_handoff("bob", "x")
        elif kind == "propose":
            made = ann.propose("bob", "x")
        else:
            made = ann.call(["sql"], participants=CALLED)
        found = self.runner.run(made)
        model = Model(
            kind=kind,
            born=self.now,
            phase="discovery" if kind == "call" else "negotiation",
            partner=None if kind == "call" else "bob",
            deadline=self.now + (20 if kind == "call" else 60),
        )
        if kind == "request":
            model.accepted = {"ann"}
            model.ever_accepted = {("ann", 1)}
        self.models[found.id] = model
        self.moves += 1

    @precondition(lambda self: self.models)
    @rule(data=st.data(), by=AGENTS, off=st.sampled_from([0, 0, 0, 0, -1, 1]))
    def accept(self, data: st.DataObject, by: str, off: int) -> None:
        which, model = self.pick(data)
        version = model.version + off
        may = (
            model.phase == "negotiation"
            and by in model.sides
            and by not in model.accepted
            and version == model.version
        )
        if self.done(self.office[by].accept(which, version), may):
            model.accepted.add(by)
            model.ever_accepted.add((by, version))
            model.agree_if_both()

    @precondition(lambda self: self.models)
    @rule(data=st.data(), by=AGENTS)
    def acknowledge(self, data: st.DataObject, by: str) -> None:
        which, model = self.pick(data)
        may = (
            model.kind == "request"
            and model.phase == "negotiation"
            and by == "bob"
            and model.version == 1
            and by not in model.accepted
        )
        if self.done(self.office[by].acknowledge(which), may):
            model.accepted.add(by)
            model.ever_accepted.add((by, 1))
            model.agree_if_both()

    @precondition(lambda self: self.models)
    @rule(data=st.data(), by=AGENTS)
    def counter(self, data: st.DataObject, by: str) -> None:
        which, model = self.pick(data)
        may = model.is_turn_of(by) and model.rounds < SETTINGS.max_rounds
        if self.done(self.office[by].counter(which, self.moves), may):
            model.version += 1
            model.rounds += 1
            model.maker, model.accepted = by, set()

    @precondition(lambda self: self.models)
    @rule(data=st.data(), by=AGENTS)
    def reject(self, data: st.DataObject, by: str) -> None:
        which, model = self.pick(data)
        if self.done(self.office[by].reject(which), model.is_turn_of(by)):
            model.phase = "cancelled"

    @precondition(lambda self: self.models)
    @rule(data=st.data(), by=AGENTS)
    def cancel(self, data: st.DataObject, by: str) -> None:
        which, model = self.pick(data)
        may = model.phase in OPEN and by in model.sides
        if self.done(self.office[by].cancel(which), may):
            model.phase = "cancelled"

    @precondition(lambda self: self.models)
    @rule(data=st.data(), by=AGENTS)
    def bid(self, data: st.DataObject, by: str) -> None:
        which, model = self.pick(data)
        answered = {*model.bids, *model.declined}
        may = model.phase == "discovery" and by in CALLED and by not in answered
        if self.done(self.office[by].bid(which, 0.5), may):
            model.bids[by] = self.now < model.deadline

    @precondition(lambda self: self.models)
    @rule(data=st.data(), by=AGENTS)
    def decline(self, data: st.DataObject, by: str) -> None:
        which, model = self.pick(data)
        may = model.phase == "discovery" and by in CALLED and by not in model.declined
        if self.done(self.office[by].decline(which), may):
            model.declined.add(by)
            model.bids.pop(by, None)

    @precondition(lambda self: self.models)
    @rule(
        data=st.data(),
        by=AGENTS,
        bidder=BIDDERS,
        final=st.booleans(),
    )
    def choose(self, data: st.DataObject, by: str, bidder: str, final: bool) -> None:
        which, model = self.pick(data)
        may = model.phase == "discovery" and by == "ann" and model.bids.get(bidder, False)
        party = self.office[by]
        attempt = party.award(which, bidder) if final else party.select(which, bidder)
        if not self.done(attempt, may):
            return
        model.partner, model.maker, model.version = bidder, bidder, 2
        if final:
            model.accepted = {"ann", bidder}
            model.ever_accepted |= {("ann", 2), (bidder, 2)}
            model.agree_if_both()
        else:
            model.phase, model.deadline = "negotiation", self.now + 60

    # What the world does

    @rule(seconds=st.sampled_from([1.0, 1.0, 1.0, 25.0, 45.0, 200.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.office.store.advance(seconds)
        for which, model in self.models.items():
            due = model.born + 300
            if model.phase == "negotiation":
                due = min(due, model.deadline)
            if model.phase in OPEN and self.now >= due:
                self.runner.run(self.office.collaborations.get(which))
                model.phase = "expired"
                self.moves += 1

    @rule()
    def resume(self) -> None:
        ended = self.runner.run(self.office.collaborations.resume())
        agreed = {which for which, model in self.models.items() if model.phase == "agreement"}
        assert {each.id for each in ended} == agreed
        for which in agreed:
            self.models[which].phase = "completion"
            self.moves += 2

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(["ann", "bob", "cy"]))
        mail = self.runner.run(self.office.mail(name))
        if not mail:
            return
        message = data.draw(st.sampled_from(mail))
        # What the system said, and what is too old, is not let in either.
        with pytest.raises((MessageReplayed, MessageExpired)):
            self.runner.run(self.office.collaborations.submit(message))

    # What holds

    @invariant()
    def every_collaboration_is_as_the_model_says(self) -> None:
        for which, model in self.models.items():
            found = self.runner.run(self.office.collaborations.get(which))
            assert found.phase == model.phase
            path(found)
            assert {each.by for each in found.messages} <= model.members | {SYSTEM}
            if found.is_closed:
                model.closed_as = model.closed_as or found
                assert found == model.closed_as, "a closed collaboration changed"
            if model.phase in ("agreement", "execution", "completion"):
                assert found.agreed is not None
            if found.agreed is not None:
                version = found.agreed.terms.version
                assert set(found.agreed.by) == model.sides
                assert {(side, version) for side in model.sides} <= model.ever_accepted
            agreements = [phase for phase, _ in found.phases if phase == "agreement"]
            assert len(agreements) <= 1

    @invariant()
    def open_ones_have_a_timer_and_agreed_ones_wait_for_execution(self) -> None:
        if not hasattr(self, "runner"):
            return
        timers = self.runner.run(self.office.timers())
        open_ones = [which for which, model in self.models.items() if model.phase in OPEN]
        assert sorted(key.rpartition("/")[2] for key in timers) == sorted(open_ones)
        waiting = self.runner.run(self.office.store.list_documents(EXECUTIONS))
        agreed = [which for which, model in self.models.items() if model.phase == "agreement"]
        assert [each.key for each in waiting] == sorted(agreed)

    @invariant()
    def every_move_is_one_event(self) -> None:
        if not hasattr(self, "runner"):
            return
        told = self.runner.run(self.office.told())
        assert len([each for each in told if each["move"] != "refused"]) == self.moves

    # Within

    def pick(self, data: st.DataObject) -> tuple[str, Model]:
        which = data.draw(st.sampled_from(sorted(self.models)))
        return which, self.models[which]

    def done(self, attempt: Awaitable[Any], may: bool) -> bool:
        """Whether the move was made; it is if and only if the model says that it may be."""

        async def tried() -> bool:
            try:
                await attempt
            except CollaborationError:
                return False
            return True

        made = self.runner.run(tried())
        assert made == may
        self.moves += made
        return made


class ManyMachines(Machine):
    """The same, for longer."""


TestCollaborations = Machine.TestCase
TestManyCollaborations = pytest.mark.slow(ManyMachines.TestCase)
TestManyCollaborations.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
TestCollaborations.settings = settings(
    max_examples=examples(60), stateful_step_count=25, deadline=None
)
