"""Where a run stands: what is stored of it between two steps."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ekiden.runtime.state.cursor.components import (
    NO_LIMITS,
    ConversationView,
    GuardrailChecks,
    Questions,
    RunBudget,
    TriggerSigns,
)
from ekiden.runtime.state.cursor.handoffs import Handoffs, PendingHandoff
from ekiden.sessions.progress import Progress
from ekiden.storage.base import OwnJson
from ekiden.storage.chain import AuditChain


@dataclass(slots=True)
class Cursor:
    """The runtime's part of a session's row.

    Each component knows alone how its fields are stored, carried over into the next run, saved
    before a handoff, given back by a rollback, and checked on import; what happens to several of
    them at once is said here. Two are defined below the runtime, where others read them, too.
    """

    progress: Progress = field(default_factory=Progress)
    view: ConversationView = field(default_factory=ConversationView)
    handoffs: Handoffs = field(default_factory=Handoffs)
    questions: Questions = field(default_factory=Questions)
    guardrails: GuardrailChecks = field(default_factory=GuardrailChecks)
    triggers: TriggerSigns = field(default_factory=TriggerSigns)
    budget: RunBudget = field(default_factory=RunBudget)
    audit: AuditChain = field(default_factory=AuditChain)

    def to_json(self) -> dict[str, Any]:
        """What differs from the defaults, under short names."""
        data = OwnJson()
        self.progress.to_json(data)
        self.view.to_json(data)
        self.handoffs.to_json(data)
        self.questions.to_json(data)
        self.guardrails.to_json(data)
        self.triggers.to_json(data)
        self.budget.to_json(data)
        self.audit.to_json(data)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cursor:
        """The inverse of `to_json`; an empty mapping is a session without any run."""
        if not data:
            return cls()
        return cls(
            Progress.from_json(data),
            ConversationView.from_json(data),
            Handoffs.from_json(data),
            Questions.from_json(data),
            GuardrailChecks.from_json(data),
            TriggerSigns.from_json(data),
            RunBudget.from_json(data),
            AuditChain.from_json(data),
        )

    @classmethod
    def imported(
        cls, data: dict[str, Any], place: str, *, events: int, steps: Container[str]
    ) -> Cursor:
        """That of an imported session with so many events and these steps; `SessionImportInvalid`.

        What is not taken over is removed from `data`: open questions and handoffs, with how to undo
        them; what need not be confirmed; shared budgets; limits that were given where it ran.
        """
        from ekiden.core.shapes import check, read_by

        for component in (Handoffs, Questions, RunBudget):
            for key in component.NOT_IMPORTED:
                data.pop(key, None)
        check(_stored_shape(), data, place)
        cursor: Cursor = read_by(cls.from_json, data, place)
        cursor.progress.check_import(place, events=events)
        cursor.view.check_import(place, events=events, steps=steps)
        cursor.handoffs.check_import(place, is_run_open=cursor.progress.phase != "end")
        return cursor

    def next_run(
        self,
        *,
        agent: str,
        first: int,
        is_same_task: bool = False,
        limits: Mapping[str, float] = NO_LIMITS,
    ) -> Cursor:
        """The cursor of the run that follows, which begins with event `first`.

        `is_same_task`: no new message began it.
        """
        return Cursor(
            progress=self.progress.next_run(first),
            view=self.view.next_run(),
            handoffs=self.handoffs.next_run(agent, is_same_task=is_same_task),
            questions=self.questions.next_run(),
            budget=RunBudget(limits=limits),
            audit=self.audit.copy(),
        )

    def before_run(self, stored: Mapping[str, Any]) -> Cursor:
        """While this run is not begun: the cursor as it is stored, with what was counted since."""
        standing = Cursor.from_json(stored)
        standing.handoffs.keep_counts(self.handoffs)
        standing.questions.keep_counts(self.questions)
        standing.audit = self.audit
        return standing

    def discard(self, stored: Mapping[str, Any]) -> None:
        """Take the values of a stored cursor again, but for what was used up since, and how to undo
        what was done since."""
        earlier = Cursor.from_json(stored)
        earlier.handoffs.discard(self.handoffs)
        self.progress = earlier.progress
        self.view = earlier.view
        self.handoffs = earlier.handoffs
        self.questions = earlier.questions
        self.guardrails = earlier.guardrails
        self.triggers = earlier.triggers
        self.budget.discard(earlier.budget)
        self.audit.discard(earlier.audit)

    def way_back(
        self, handoff_id: str, source: str, target: str, *, call_id: str | None, seq: int
    ) -> PendingHandoff:
        """What is needed to give control back from the target of a handoff that is made now."""
        saved: dict[str, Any] = {}
        self.handoffs.save(saved)
        self.guardrails.save(saved)
        self.triggers.save(saved)
        self.budget.save(saved)
        view, handoffs = self.view, self.handoffs
        return PendingHandoff(
            handoff_id, source, target, call_id, seq, view.base, view.after, handoffs.received,
            depth=len(handoffs.chain), since_s=handoffs.since_s, saved=saved,
        )  # fmt: skip

    def hand_on(
        self,
        source: str,
        target: str,
        *,
        received: Mapping[str, Any],
        tools: list[str] | None,
        budget: dict[str, float] | None,
        passed: str | None,
        since_s: float,
    ) -> None:
        """The source hands the run to the target.

        `received` is what the target is told, `tools` are the only ones that it may use and
        `budget` is what is left of limits, where the handoff says so. `passed` is the digest of
        what is passed along to somebody who had the task before, and `since_s` is now, in seconds
        worked on the run.
        """
        self.handoffs.hand_on(source, target, received, tools, passed, since_s)
        self.guardrails.hand_on()
        self.triggers.hand_on()
        if budget is not None:
            self.budget.narrowed = budget
        self.progress.hand_on(started=False)

    def step_back(self, pending: PendingHandoff) -> None:
        """The last open handoff is rolled back: the source has the run again."""
        self.view.step_back(pending.base, pending.after)
        self.handoffs.step_back(pending)
        self.guardrails.step_back(pending.saved)
        self.triggers.step_back(pending.saved)
        self.budget.step_back(pending.saved)
        # The failed attempt was a turn: what the target did under its keys must not pass for the
        # source's own.
        self.progress.hand_on(started=True)

    def settle(self) -> list[PendingHandoff]:
        """Nothing is open any more, and nothing is shared; gives the handoffs that were open."""
        self.questions.settle()
        self.budget.settle()
        return self.handoffs.settle()

    def used(self) -> dict[str, float]:
        """By limit, what the run used."""
        usage = self.budget.usage
        return {
            "tokens": usage.tokens,
            "money": usage.cost,
            "seconds": self.budget.spent_s,
            "turns": self.progress.turn,
        }


@cache
def _stored_shape() -> Any:
    from ekiden.core.shapes import shape

    fields: dict[str, Any] = {}
    for component in (
        Progress, ConversationView, Handoffs, GuardrailChecks, TriggerSigns, RunBudget, AuditChain
    ):  # fmt: skip
        fields |= component.shape()
    return shape("StoredCursor", fields)
