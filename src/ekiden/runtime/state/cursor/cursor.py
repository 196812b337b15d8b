"""The cursor of a run, stored between two steps, and its components other than handoffs."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import field
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

from ekiden.core.conversation.model import Usage
from ekiden.core.dataclass import dataclass
from ekiden.core.errors.stored_data import SessionImportInvalid
from ekiden.runtime.state.cursor.handoffs import Handoffs, PendingHandoff
from ekiden.sessions.progress import Progress
from ekiden.storage.base import OwnJson, SessionRow
from ekiden.storage.chain import AuditChain

NO_LIMITS: Mapping[str, Any] = MappingProxyType({})
"""Shared by most cursors, and replaced when there is something."""
_NO_REPAIRS: Mapping[str, int] = MappingProxyType({})
_LONGEST_ERROR = 200
_MOST_ERRORS = 10


@dataclass(slots=True)
class RunBudget:
    """What the run used, and what it may use."""

    narrowed: dict[str, float] = field(default_factory=dict)
    """What handoffs left of tokens, seconds and money, counted from the run's beginning."""
    limits: Mapping[str, float] = field(default_factory=lambda: NO_LIMITS)
    """Limits that were given for this run, by name; see `RunConfig.given`."""
    spent_s: float = 0.0
    """Seconds worked on the run by earlier claims."""
    usage: Usage = field(default_factory=Usage)
    """Of the run, and of those that answered its questions."""
    others: Usage | None = None
    """What of it was used by those that answered."""
    shared_budget: str | None = None
    """What it shares with those that it asks, once it does; see `runtime.state.budget`."""
    levels: Sequence[str] = ()
    """The limits of which there is a shared budget."""
    by_agent: Mapping[str, list[float]] = field(default_factory=lambda: NO_LIMITS)
    """Tokens, seconds and money of agents that have a budget of their own."""

    NOT_IMPORTED: ClassVar = ("pz", "li")

    def to_json(self, data: dict[str, Any]) -> None:
        """Store it in a cursor's `data`."""
        if self.narrowed:
            data["bu"] = self.narrowed.copy()
        if self.limits:
            data["li"] = dict(self.limits)
        if self.spent_s:
            data["sp"] = round(self.spent_s, 3)
        if counts := self.usage.to_json():
            data["u"] = counts
        if self.others is not None:
            data["ou"] = self.others.to_json()
        if self.shared_budget is not None:
            data["pz"] = [self.shared_budget, *self.levels]
        if self.by_agent:
            data["ba"] = {name: spent.copy() for name, spent in self.by_agent.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunBudget:
        """The inverse of `to_json`."""
        get = data.get
        budget = cls(
            dict(data["bu"]) if "bu" in data else {}, get("li", NO_LIMITS), get("sp", 0.0),
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
        """Take what was `stored` again, but for what was used up since."""
        self.narrowed, self.limits = stored.narrowed, stored.limits
        self.shared_budget, self.levels = stored.shared_budget, stored.levels

    def save(self, saved: dict[str, Any]) -> None:
        """Keep in `saved` what a rollback gives back, as far as it is not at its default."""
        if self.narrowed:
            saved["budget"] = self.narrowed

    def step_back(self, saved: Mapping[str, Any]) -> None:
        """A handoff is rolled back before which this was `saved`."""
        self.narrowed = dict(saved.get("budget", {}))

    def settle(self) -> None:
        """Nothing is shared with other sessions any more."""
        self.shared_budget, self.levels = None, ()

    def spend(self, agent: str, tokens: float, seconds: float, money: float) -> None:
        """Count what an agent used that has a budget of its own."""
        spent = self.by_agent.get(agent, (0, 0.0, 0.0))
        more = (tokens, seconds, money)
        now = [round(before + added, 9) for before, added in zip(spent, more, strict=True)]
        self.by_agent = {**self.by_agent, agent: now}

    @staticmethod
    def shape() -> dict[str, Any]:
        """By key: the types of an imported one's fields."""
        from typing import Annotated

        from annotated_types import Len

        from ekiden.core.conversation.shapes import Amount, Amounts, Used

        spent = Annotated[list[Amount], Len(3, 3)]
        return {"bu": Amounts, "sp": Amount, "u": Used, "ou": Used, "ba": dict[str, spent]}


def had_before(saved: Mapping[str, Any], limit: str) -> float | None:
    """What handoffs had left of a limit before the one that this was `saved` for."""
    had: float | None = saved.get("budget", {}).get(limit)
    return had


Grant: TypeAlias = tuple[str, str, str]
"""What an "always" covers: an agent, a tool of it, and a scope of that (empty: all of it)."""


@dataclass(slots=True)
class OpenQuestion:
    """Something that the run asked and that is not answered yet."""

    kind: Literal["query", "inbox"]
    id: str
    """Of the message, or of the inbox item."""
    who: str
    """The agent, or the role of the people."""
    session: str | None = None
    """The session that has to answer; `None`: an agent on the bus, or a person."""
    group: str | None = None
    """Of which one answer is enough."""
    due_us: int = 0
    """When the time of a query is over; 0 while the run is out of budget."""
    at_s: float = 0.0
    """When it was asked, in seconds worked on the run."""
    counted: Mapping[str, Any] | None = None
    """What the run counted already of what that session used."""

    def to_json(self) -> list[Any]:
        """As a list, short."""
        data = [self.kind, self.id, self.who, self.session, self.group, self.due_us, self.at_s]
        return [*data, dict(self.counted)] if self.counted else data


@dataclass(slots=True)
class Questions:
    """What the run asked, and what people decided for the session."""

    open: dict[str, OpenQuestion] = field(default_factory=dict)
    """By the key of its step: what the turn under way waits for."""
    person_us: int = 0
    """When a person last decided something for this run, or for one that it asked: the store's
    time. Time-outs of who waits for the run are counted from then."""
    always: dict[Grant, str] = field(default_factory=dict)
    """What need not be asked about in this session, and who said so."""

    NOT_IMPORTED: ClassVar = ("as", "py", "al")

    def to_json(self, data: dict[str, Any]) -> None:
        """Store it in a cursor's `data`."""
        if self.open:
            data["as"] = {key: each.to_json() for key, each in self.open.items()}
        if self.person_us:
            data["py"] = self.person_us
        if self.always:
            data["al"] = [[*grant, by] for grant, by in self.always.items()]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Questions:
        """The inverse of `to_json`."""
        always: dict[Grant, str] = {}
        if "al" in data:
            always = {(agent, tool, scope): by for agent, tool, scope, by in data["al"]}
        return cls(_open_in(data), data.get("py", 0), always)

    def next_run(self) -> Questions:
        """That of the run that follows: what was decided for the session goes on."""
        return Questions(always=self.always)

    def keep_counts(self, counted: Questions) -> None:
        """Take what was `counted` for a run that is not begun yet."""
        self.always = counted.always

    def settle(self) -> None:
        """The run does not wait for answers any more."""
        self.open = {}


def _open_in(data: Mapping[str, Any]) -> dict[str, OpenQuestion]:
    if "as" not in data:
        return {}
    return {key: OpenQuestion(*each) for key, each in data["as"].items()}


def open_questions(row: SessionRow) -> dict[str, OpenQuestion]:
    """By the key of its step: what the session's run asked and is not answered yet."""
    return _open_in(row.cursor)


def without_grants(cursor: Mapping[str, Any]) -> dict[str, Any]:
    """A stored cursor without what people said need not be asked about again."""
    return {key: value for key, value in cursor.items() if key != "al"}


@dataclass(slots=True)
class ConversationView:
    """What the active agent sees of the conversation."""

    base: str | None = None
    """Key of the step whose result the view begins with (a filter's)."""
    after: int = 0
    """The view goes on with what was said after this event."""

    def to_json(self, data: dict[str, Any]) -> None:
        """Store it in a cursor's `data`."""
        if self.base is not None:
            data["b"] = self.base
        if self.after:
            data["a"] = self.after

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ConversationView:
        """The inverse of `to_json`."""
        return cls(data.get("b"), data.get("a", 0))

    def next_run(self) -> ConversationView:
        """That of the run that follows: the view goes on."""
        return ConversationView(self.base, self.after)

    def step_back(self, base: str | None, after: int) -> None:
        """A handoff is rolled back that began with this view."""
        self.base, self.after = base, after

    @staticmethod
    def shape() -> dict[str, Any]:
        """By key: the types of an imported one's fields."""
        from ekiden.core.conversation.shapes import Count

        return {"b": str | None, "a": Count}

    def check_import(self, place: str, *, events: int, steps: Container[str]) -> None:
        """Refuse an imported one that does not fit a session with these steps and events."""
        if self.after > events:
            raise SessionImportInvalid(place, "it speaks of events that there are not")
        if self.base is not None and self.base not in steps:
            raise SessionImportInvalid(f"{place}.b", "what it names is not among the steps")


@dataclass(slots=True)
class GuardrailChecks:
    """What guardrails of the active agent checked since it has the run; nothing here is changed in
    place."""

    checks: int = 0
    """How far the input guardrails came: 1, those before its model passed; 2, all did."""
    found: Sequence[dict[str, Any]] = ()
    """What they found and no event tells yet."""
    repairs: Mapping[str, int] = field(default_factory=lambda: _NO_REPAIRS)
    """By output guardrail: how often the agent's model was asked again because of it."""

    def to_json(self, data: dict[str, Any]) -> None:
        """Store it in a cursor's `data`."""
        if self.checks:
            data["gc"] = self.checks
            if self.found:
                data["gf"] = list(self.found)
        if self.repairs:
            data["gr"] = dict(self.repairs)

    def input_to_json(self, data: dict[str, Any]) -> None:
        """Store in a cursor's `data` how far input guardrails came, and nothing else."""
        data["gc"] = self.checks
        data["gf"] = list(self.found)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GuardrailChecks:
        """The inverse of `to_json`."""
        get = data.get
        return cls(get("gc", 0), get("gf", ()), get("gr", _NO_REPAIRS))

    def save(self, saved: dict[str, Any]) -> None:
        """Keep in `saved` what a rollback gives back, as far as it is not at its default."""
        if self.checks:
            saved["checks"] = self.checks
        if self.repairs:
            saved["repairs"] = dict(self.repairs)

    def step_back(self, saved: Mapping[str, Any]) -> None:
        """A handoff is rolled back before which this was `saved`."""
        self.checks, self.found = saved.get("checks", 0), ()
        self.repairs = saved.get("repairs", _NO_REPAIRS)

    def hand_on(self) -> None:
        """Another agent gets the conversation: nothing was checked for it."""
        self.checks, self.found, self.repairs = 0, (), _NO_REPAIRS

    @staticmethod
    def shape() -> dict[str, Any]:
        """By key: the types of an imported one's fields."""
        from ekiden.core.conversation.shapes import Count, Finding

        return {"gc": Count, "gf": list[Finding], "gr": dict[str, Count]}


@dataclass(slots=True)
class TriggerSigns:
    """What triggers of the active agent look at; nothing here is changed in place."""

    fired: Sequence[int] = ()
    """Places in the active agent's `handoffs` whose triggers fired since it has the run."""
    published: Sequence[str] = ()
    """Names of events that were published and that no trigger looked at yet."""
    tool_errors: Sequence[str] = ()
    """Errors of tools that no trigger looked at yet."""

    def to_json(self, data: dict[str, Any]) -> None:
        """Store it in a cursor's `data`."""
        if self.fired:
            data["fi"] = list(self.fired)
        if self.published:
            data["pu"] = list(self.published)
        if self.tool_errors:
            data["sl"] = list(self.tool_errors)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TriggerSigns:
        """The inverse of `to_json`."""
        get = data.get
        return cls(get("fi", ()), get("pu", ()), get("sl", ()))

    def save(self, saved: dict[str, Any]) -> None:
        """Keep in `saved` what a rollback gives back, as far as it is not at its default."""
        if self.fired:
            saved["fired"] = list(self.fired)
        if self.published:
            saved["published"] = list(self.published)
        if self.tool_errors:
            saved["slips"] = list(self.tool_errors)

    def step_back(self, saved: Mapping[str, Any]) -> None:
        """A handoff is rolled back before which this was `saved`."""
        self.fired = list(saved.get("fired", ()))
        self.published = list(saved.get("published", ()))
        self.tool_errors = list(saved.get("slips", ()))

    def hand_on(self) -> None:
        """Another agent has the run: what triggers of the one before looked at is nothing to it."""
        self.fired = self.published = self.tool_errors = ()

    def forget_signs(self) -> None:
        """Everything was looked at."""
        self.published = self.tool_errors = ()

    def note_fired(self, place: int) -> None:
        """The trigger at this place of the active agent's `handoffs` fired."""
        self.fired = [*self.fired, place]

    def note_published(self, name: str) -> None:
        """An event of this name was published."""
        if name not in self.published:
            self.published = [*self.published, name]

    def note_tool_error(self, error: str) -> None:
        """A tool failed; the oldest errors are forgotten."""
        self.tool_errors = [*self.tool_errors[1 - _MOST_ERRORS :], error[:_LONGEST_ERROR]]

    @staticmethod
    def shape() -> dict[str, Any]:
        """By key: the types of an imported one's fields."""
        from ekiden.core.conversation.shapes import Count

        return {"fi": list[Count], "pu": list[str], "sl": list[str]}


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
        from ekiden.core.conversation.shapes import check, read_by

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

        `received` is what the target is told, `tools` are the only ones that it may use, and
        `budget` is what is left of limits, if the handoff declares them. `passed` is the digest of
        what is passed to an agent that had the task before, and `since_s` is now, in seconds worked
        on the run.
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
    from ekiden.core.conversation.shapes import shape

    fields: dict[str, Any] = {}
    for component in (
        Progress, ConversationView, Handoffs, GuardrailChecks, TriggerSigns, RunBudget, AuditChain
    ):  # fmt: skip
        fields |= component.shape()
    return shape("StoredCursor", fields)
