"""The cursor, which is the position of a run between two steps. It consists of components."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import field
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

from ekiden.core.conversation.model import Usage
from ekiden.core.dataclass import dataclass
from ekiden.core.documents import to_json
from ekiden.core.errors.stored_data import SessionImportInvalid
from ekiden.runtime.state.cursor_handoffs import (
    NO_SIGNS,
    Component,
    HandoffState,
    PendingHandoff,
    TriggerSigns,
    whole_ms,
)
from ekiden.sessions.session import RunProgress
from ekiden.storage.base import OwnJson, SessionRow
from ekiden.storage.chain import AuditChain

NO_LIMITS: Mapping[str, Any] = MappingProxyType({})
"""The shared empty default of several fields. Never changed in place."""
_NO_REPAIRS: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True)
class RunBudget(Component):
    """The usage and the limits of a run."""

    narrowed: Mapping[str, float] = NO_LIMITS
    """The limits of tokens, seconds and money after handoffs, counted from the start of the run."""
    limits: Mapping[str, float] = NO_LIMITS
    """The limits given for this run, by name. See `RunConfig.given`."""
    spent_s: float = 0.0
    """Seconds of work on the run before the current claim."""
    usage: Usage = field(default_factory=Usage)
    """The usage of the run, including the usage of agents that answered its questions."""
    others: Usage | None = None
    """The part of the usage that belongs to agents that answered questions."""
    shared_budget: str | None = None
    """The id of the budget that the run shares with the agents that it asks. See
    `runtime.state.budget`."""
    levels: Sequence[str] = ()
    """The limits that the shared budget contains."""
    by_agent: Mapping[str, list[float]] = NO_LIMITS
    """The used tokens, seconds and money of each agent that has its own budget."""

    NOT_IMPORTED: ClassVar = ("pz", "li")

    def to_json(self, data: dict[str, Any]) -> None:
        if self.narrowed:
            data["bu"] = dict(self.narrowed)
        if self.limits:
            data["li"] = dict(self.limits)
        if self.spent_s:
            data["sp"] = whole_ms(self.spent_s)
        if counts := self.usage.to_json():
            data["u"] = counts
        if self.others is not None:
            data["ou"] = self.others.to_json()
        if self.shared_budget is not None:
            data["pz"] = [self.shared_budget, *self.levels]
        if self.by_agent:
            data["ba"] = {name: spent.copy() for name, spent in self.by_agent.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        get = data.get
        budget = cls(
            get("bu", NO_LIMITS), get("li", NO_LIMITS), get("sp", 0.0),
            Usage.from_json(data["u"]) if "u" in data else Usage(),
        )  # fmt: skip
        if "ou" in data:
            budget.others = Usage.from_json(data["ou"])
        if "pz" in data:
            budget.shared_budget, *budget.levels = data["pz"]
        if "ba" in data:
            budget.by_agent = {name: list(spent) for name, spent in data["ba"].items()}
        return budget

    def discard(self, stored: RunBudget) -> None:
        """Restore the `stored` limits. The usage since then is kept."""
        self.narrowed, self.limits = stored.narrowed, stored.limits
        self.shared_budget, self.levels = stored.shared_budget, stored.levels

    def save(self, saved: dict[str, Any]) -> None:
        if self.narrowed:
            saved["budget"] = self.narrowed

    def roll_back(self, saved: Mapping[str, Any]) -> None:
        """Restore the values that were `saved` before the handoff."""
        self.narrowed = dict(saved.get("budget", {}))

    def settle(self) -> None:
        """Stop sharing a budget with other sessions."""
        self.shared_budget, self.levels = None, ()

    def spend(self, agent: str, tokens: float, seconds: float, money: float) -> None:
        """Add the usage of an agent that has its own budget."""
        spent = self.by_agent.get(agent, (0, 0.0, 0.0))
        more = (tokens, seconds, money)
        now = [round(before + added, 9) for before, added in zip(spent, more, strict=True)]
        self.by_agent = {**self.by_agent, agent: now}

    @staticmethod
    def shape() -> dict[str, Any]:
        from typing import Annotated

        from annotated_types import Len

        from ekiden.core.conversation.shapes import Amount, Amounts, Used

        spent = Annotated[list[Amount], Len(3, 3)]
        return {"bu": Amounts, "sp": Amount, "u": Used, "ou": Used, "ba": dict[str, spent]}


ALWAYS = "al"
"""The key of "always" approvals in a stored cursor."""

_MOST_GRANTS = 100
"""The maximum number of "always" approvals of a session. The oldest are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """An "always" approval of a tool of an agent."""

    agent: str
    tool: str
    version: str
    """The version of the tool that the person approved."""
    limits: Mapping[str, Any] | None
    """The limits of all arguments, see `ekiden.core.approvals`. `None` means any arguments."""
    within: str
    """The result of the tool's `confirmation_scope`; empty for a tool without one."""
    by: str
    until_us: int | None
    """The end of the approval, in the store's time."""
    step: str
    """The key of the step with the decision, which has the definition of the tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCall:
    """A tool call that was started and whose effect is unknown."""

    key: str
    """The step key of the call, which is also in its idempotency key."""
    tool: str
    arguments: str
    """The arguments as JSON text."""
    version: str | None = None
    """The signature of the tool that was called; `None` if it is not known."""
    agent: str
    """The agent that made the call."""
    is_stopped: bool = False
    """Whether the run was stopped on request. Then only the same call is reason enough to repeat
    it."""

    def to_json(self) -> list[Any]:
        """Return the call as a short list."""
        data = [self.key, self.tool, self.arguments, self.version, self.agent]
        return [*data, True] if self.is_stopped else data

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Self:
        """Create the call from the result of `to_json`."""
        key, tool, arguments, version, agent, *stopped = data
        return cls(
            key=key,
            tool=tool,
            arguments=arguments,
            version=version,
            agent=agent,
            is_stopped=bool(stopped),
        )


@dataclass(slots=True)
class OpenQuestion:
    """A question of the run that is not answered yet."""

    kind: Literal["query", "inbox"]
    id: str
    """The id of the message, or of the inbox item."""
    recipient: str
    """The name of the agent, or the role of the people."""
    session: str | None = None
    """The session that answers. `None` if an agent on the bus or a person answers."""
    group: str | None = None
    """The group of the question: one answer to a question of a group is enough."""
    due_us: int = 0
    """The deadline of a query; 0 while the run is out of budget."""
    at_s: float = 0.0
    """The time of the question, in seconds of work on the run."""
    counted: Mapping[str, Any] | None = None
    """The part of the other session's usage that the run has already counted."""
    of: str | None = None
    """The digest of the command that asked. See `runtime.state.journal`."""

    def to_json(self) -> list[Any]:
        """Return the question as a short list."""
        data = [
            self.kind, self.id, self.recipient, self.session, self.group, self.due_us, self.at_s
        ]  # fmt: skip
        if self.of is not None:
            return [*data, dict(self.counted) if self.counted else None, self.of]
        return [*data, dict(self.counted)] if self.counted else data


@dataclass(slots=True)
class QuestionState(Component):
    """The open questions of the run, and the "always" approvals of the session."""

    open: dict[str, OpenQuestion] = field(default_factory=dict)
    """The unanswered questions of the current turn, by the key of their step."""
    person_us: int = 0
    """The store's time of the last decision of a person for this run, or for a run that it asked.
    The timeouts of runs that wait for this run start again at this time."""
    always: list[Grant] = field(default_factory=list)
    """The "always" approvals of the session, the oldest first."""
    unknown: Sequence[UnknownCall] = ()
    """Calls of earlier turns and runs whose effects are unknown. No call of the same tool starts
    before a person has decided about them."""

    NOT_IMPORTED: ClassVar = ("as", "py", ALWAYS, "uc")

    def to_json(self, data: dict[str, Any]) -> None:
        if self.open:
            data["as"] = {key: each.to_json() for key, each in self.open.items()}
        if self.person_us:
            data["py"] = self.person_us
        if self.always:
            data[ALWAYS] = [to_json(grant) for grant in self.always]
        if self.unknown:
            data["uc"] = [each.to_json() for each in self.unknown]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        # Format 8 stored lists, without a version and without arguments: these are asked again.
        always = [Grant(**each) for each in data.get(ALWAYS, ()) if isinstance(each, Mapping)]
        unknown: Sequence[UnknownCall] = ()
        if "uc" in data:
            unknown = tuple(map(UnknownCall.from_json, data["uc"]))
        return cls(_open_in(data), data.get("py", 0), always, unknown)

    def next_run(self) -> QuestionState:
        """The state for the next run. It keeps the "always" approvals and the calls with unknown
        effects, which apply to the whole session."""
        return QuestionState(always=self.always.copy(), unknown=self.unknown)

    def keep_counts(self, counted: QuestionState) -> None:
        """Take over what applies to the whole session from `counted`, for a run that has not
        started yet."""
        self.always, self.unknown = counted.always, counted.unknown

    def grant(self, grant: Grant) -> None:
        """Add an "always" approval. Those of other versions of the tool are dropped."""
        kept = [
            each
            for each in self.always
            if (each.agent, each.tool) != (grant.agent, grant.tool) or each.version == grant.version
        ]
        self.always = [*kept[1 - _MOST_GRANTS :], grant]

    def settle(self) -> None:
        """Close all open questions."""
        self.open = {}


def _open_in(data: Mapping[str, Any]) -> dict[str, OpenQuestion]:
    if "as" not in data:
        return {}
    return {key: OpenQuestion(*each) for key, each in data["as"].items()}


def open_questions(row: SessionRow) -> dict[str, OpenQuestion]:
    """The unanswered questions of the session's run, by the key of their step."""
    return _open_in(row.cursor)


@dataclass(frozen=True, slots=True)
class ConversationView(Component):
    """The part of the conversation that the active agent sees."""

    base: str | None = None
    """The key of the step with the result of an input filter. The view begins with these items."""
    after: int = 0
    """The view continues with the items after the event with this number."""

    def to_json(self, data: dict[str, Any]) -> None:
        if self.base is not None:
            data["b"] = self.base
        if self.after:
            data["a"] = self.after

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(data.get("b"), data.get("a", 0))

    @staticmethod
    def shape() -> dict[str, Any]:
        from ekiden.core.conversation.shapes import Count

        return {"b": str | None, "a": Count}

    def check_import(self, place: str, *, events: int, steps: Container[str]) -> None:
        """Raise `SessionImportInvalid` if the imported view does not match the session's events and
        steps."""
        if self.after > events:
            raise SessionImportInvalid(place, "it names events that do not exist")
        if self.base is not None and self.base not in steps:
            raise SessionImportInvalid(f"{place}.b", "it names a step that does not exist")


_WHOLE = ConversationView()


@dataclass(frozen=True, slots=True)
class GuardrailChecks(Component):
    """The guardrail results of the active agent since this agent got the run."""

    checks: int = 0
    """The progress of the input guardrails. With 1, all guardrails that run before the model have
    passed. With 2, all input guardrails have passed."""
    found: Sequence[dict[str, Any]] = ()
    """Findings that are not in an event yet."""
    repairs: Mapping[str, int] = _NO_REPAIRS
    """How often the model had to repair its answer, by output guardrail."""

    def to_json(self, data: dict[str, Any]) -> None:
        if self.checks:
            data["gc"] = self.checks
            if self.found:
                data["gf"] = list(self.found)
        if self.repairs:
            data["gr"] = dict(self.repairs)

    def input_to_json(self, data: dict[str, Any]) -> None:
        """Store only the progress of the input guardrails in a cursor's `data`."""
        data["gc"] = self.checks
        data["gf"] = list(self.found)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        get = data.get
        return cls(get("gc", 0), get("gf", ()), get("gr", _NO_REPAIRS))

    def save(self, saved: dict[str, Any]) -> None:
        if self.checks:
            saved["checks"] = self.checks
        if self.repairs:
            saved["repairs"] = dict(self.repairs)

    @classmethod
    def from_saved(cls, saved: Mapping[str, Any]) -> Self:
        """The values that were `saved` before the handoff."""
        return cls(saved.get("checks", 0), (), saved.get("repairs", _NO_REPAIRS))

    @staticmethod
    def shape() -> dict[str, Any]:
        from ekiden.core.conversation.shapes import Count, FindingShape

        return {"gc": Count, "gf": list[FindingShape], "gr": dict[str, Count]}


NO_CHECKS = GuardrailChecks()


@dataclass(slots=True)
class Cursor:
    """The runtime's part of a session's row.

    Each component defines how its fields are stored, carried over into the next run, saved before a
    handoff, restored by a rollback, and checked on import. This class defines the operations on
    several components. Two components are defined in lower packages, because code in these packages
    also reads them. Frozen components are replaced, and runs share their defaults.
    """

    progress: RunProgress = field(default_factory=RunProgress)
    view: ConversationView = _WHOLE
    handoffs: HandoffState = field(default_factory=HandoffState)
    questions: QuestionState = field(default_factory=QuestionState)
    guardrails: GuardrailChecks = NO_CHECKS
    triggers: TriggerSigns = NO_SIGNS
    budget: RunBudget = field(default_factory=RunBudget)
    audit: AuditChain = field(default_factory=AuditChain)

    def to_json(self) -> dict[str, Any]:
        """The fields that are not at their defaults, under short names."""
        data = OwnJson()
        self.progress.to_json(data)
        if self.view is not _WHOLE:
            self.view.to_json(data)
        self.handoffs.to_json(data)
        self.questions.to_json(data)
        if self.guardrails is not NO_CHECKS:
            self.guardrails.to_json(data)
        if self.triggers is not NO_SIGNS:
            self.triggers.to_json(data)
        self.budget.to_json(data)
        if self.audit.count:
            self.audit.to_json(data)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cursor:
        """Create the cursor from the result of `to_json`. An empty mapping means a session without
        a run."""
        if not data:
            return cls()
        return cls(
            RunProgress.from_json(data),
            ConversationView.from_json(data),
            HandoffState.from_json(data),
            QuestionState.from_json(data),
            GuardrailChecks.from_json(data),
            TriggerSigns.from_json(data),
            RunBudget.from_json(data),
            AuditChain.from_json(data),
        )

    @classmethod
    def imported(
        cls, data: dict[str, Any], place: str, *, events: int, steps: Container[str]
    ) -> Cursor:
        """The cursor of an imported session with this number of events and these steps. Raises
        `SessionImportInvalid`.

        Some fields are not imported, and are removed from `data`: open questions, open handoffs
        with their compensations, "always" approvals, shared budgets, and the limits given for the
        run.
        """
        from ekiden.core.conversation.shapes import check, read_by

        for component in (HandoffState, QuestionState, RunBudget):
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
        """The cursor of the next run, which begins with event number `first`.

        With `is_same_task`, the run continues the same task, because no new message started the
        run.
        """
        return Cursor(
            progress=self.progress.next_run(first),
            view=self.view,
            handoffs=self.handoffs.next_run(agent, is_same_task=is_same_task),
            questions=self.questions.next_run(),
            budget=RunBudget(limits=limits),
            audit=self.audit.copy() if self.audit.count else AuditChain(),
        )

    def before_run(self, stored: Mapping[str, Any]) -> Cursor:
        """The stored cursor with the current counters, for a run that has not started yet."""
        cursor = Cursor.from_json(stored)
        cursor.handoffs.keep_counts(self.handoffs)
        cursor.questions.keep_counts(self.questions)
        cursor.audit = self.audit
        return cursor

    def discard(self, stored: Mapping[str, Any]) -> None:
        """Restore the values of a stored cursor. The usage and the compensations since then are
        kept."""
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
        """The data that a rollback of the new handoff will need."""
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

    def transfer(
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
        """Move the run from the source to the target.

        `received` is the data for the target. `tools` are the only tools that the target may use.
        `budget` has the remaining limits, if the handoff declares limits. `passed` is the digest of
        the data for an agent that had the task before. `since_s` is the present time, in seconds of
        work on the run.
        """
        self.handoffs.transfer(source, target, received, tools, passed, since_s)
        self.guardrails, self.triggers = NO_CHECKS, NO_SIGNS
        if budget is not None:
            self.budget.narrowed = budget
        self.progress.next_agent(started=False)

    def roll_back(self, pending: PendingHandoff) -> None:
        """Roll back the last open handoff, so that its source gets the run back."""
        self.view = ConversationView(pending.base, pending.after)
        self.handoffs.roll_back(pending)
        self.guardrails = GuardrailChecks.from_saved(pending.saved)
        self.triggers = TriggerSigns.from_saved(pending.saved)
        self.budget.roll_back(pending.saved)
        # The failed attempt counts as a turn. Otherwise the source would reuse the step keys of the
        # target, and take the target's stored results for its own.
        self.progress.next_agent(started=True)

    def settle(self) -> list[PendingHandoff]:
        """Close open questions, handoffs and shared budgets, and return the handoffs that were
        open."""
        self.questions.settle()
        self.budget.settle()
        return self.handoffs.settle()

    def used(self) -> dict[str, float]:
        """The usage of the run, by limit."""
        usage = self.budget.usage
        return {
            "tokens": usage.tokens,
            "money": usage.cost,
            "seconds": self.budget.spent_s,
            "turns": self.progress.turn,
        }


@cache
def _stored_shape() -> Any:
    from ekiden.core.conversation.shapes import shape

    fields: dict[str, Any] = {}
    for component in (
        RunProgress, ConversationView, HandoffState, GuardrailChecks, TriggerSigns, RunBudget,
        AuditChain,
    ):  # fmt: skip
        fields |= component.shape()
    return shape("StoredCursor", fields)
