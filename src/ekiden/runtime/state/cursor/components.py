"""The components of a cursor, other than handoffs: the run's budget, its questions, and what the
active agent sees, what its guardrails checked and what its triggers look at."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

from ekiden.core.conversation.model import Usage
from ekiden.core.errors.stored_data import SessionImportInvalid
from ekiden.storage.base import SessionRow

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

        from ekiden.core.shapes import Amount, Amounts, Used

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
    """The session that is to answer; `None`: somebody on the bus, or a person."""
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
        """Nobody waits for an answer any more."""
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
        from ekiden.core.shapes import Count

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
        from ekiden.core.shapes import Count, Finding

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
        from ekiden.core.shapes import Count

        return {"fi": list[Count], "pu": list[str], "sl": list[str]}
