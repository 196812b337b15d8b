"""Where a run stands: what is stored of it between two steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from ekiden.core.usage import Usage
from ekiden.handoff.request_documents import TRIED
from ekiden.storage.base import OwnJson

_STAYS_SPENT = frozenset({"usage", "others", "by_agent", "spent_s"})

_NOBODY: Mapping[str, Any] = MappingProxyType({})
"""What most cursors have nothing in is shared, and replaced when there is something."""

USER = "user"
"""Who every chain begins with."""

Grant: TypeAlias = tuple[str, str, str]
"""What an "always" covers: an agent, a tool of it, and a scope of that (empty: all of it)."""


@dataclass(slots=True)
class Compensation:
    """How one thing is undone that was done while a handoff was open."""

    key: str
    function: str | None
    """``module:name``; `None` for a function that only the process that registered it has."""
    arguments: Any = None
    agent: str = ""
    attempts: int = 0
    state: Literal["open", "done", "failed"] = "open"

    def to_json(self) -> list[Any]:
        """As a list, short."""
        return [self.key, self.function, self.arguments, self.agent, self.attempts, self.state]


@dataclass(slots=True)
class PendingHandoff:
    """A transfer that is not confirmed yet: what is needed to give control back."""

    id: str
    source: str
    target: str
    call_id: str | None
    """The model's call that is to be answered; `None` if no model asked for the transfer."""
    seq: int
    """The event that made the transfer; it and all later ones are undone by a rollback."""
    base: str | None
    after: int
    received: Mapping[str, Any] | None
    depth: int = 0
    """How long the chain was before the transfer; 0 in what earlier versions stored: one less."""
    due_s: float | None = None
    """When the target's time is over, in seconds worked on the run."""
    since_s: float = 0.0
    """Since when the source had the run."""
    until_result: bool = False
    """Whether only the end of the target's work confirms it."""
    saved: dict[str, Any] = field(default_factory=dict)
    """Further fields of the cursor as they were, by name; what is not here was at its default."""
    variables: str | None = None
    """The step with the session's variables as they were, if they changed since."""
    compensations: list[Compensation] = field(default_factory=list)
    failure: list[str] | None = None
    """Code and reason, once it was decided that the transfer is undone."""
    kept: list[int] = field(default_factory=list)
    """Messages of people that came meanwhile: they stay in the conversation."""

    def to_json(self) -> list[Any]:
        """As a list, because it is stored at every handoff; what is as usual at its end is cut."""
        data: list[Any] = [
            self.id, self.source, self.target, self.call_id,
            self.seq, self.base, self.after, self.received, self.depth, self.due_s,
            self.since_s,
        ]  # fmt: skip
        if (
            self.compensations or self.saved or self.variables or self.until_result
            or self.failure or self.kept
        ):  # fmt: skip
            data += [
                int(self.until_result), self.saved, self.variables,
                [each.to_json() for each in self.compensations], self.failure,
                self.kept.copy(),
            ]  # fmt: skip
        return data

    @classmethod
    def from_json(cls, data: list[Any]) -> PendingHandoff:
        """The inverse of `to_json`; also reads what earlier versions stored."""
        pending = cls(*data)
        pending.until_result = bool(pending.until_result)
        pending.saved = dict(pending.saved)
        pending.kept = list(pending.kept)
        stored: list[Any] = list(pending.compensations)
        pending.compensations = [Compensation(*each) for each in stored]
        return pending


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


@dataclass(frozen=True, slots=True)
class TriedHandoff:
    """A handoff that is on record and not decided: somebody is asked about it."""

    step: str
    id: str
    source: str
    target: str

    def to_json(self) -> list[str]:
        """As a list, short."""
        return [self.step, self.id, self.source, self.target]

    def is_asked_of(self, session_id: str) -> bool:
        """Whether a document asks the session for it, and stays until somebody serves it."""
        return self.id.startswith(f"{session_id}.hrq_")


@dataclass(slots=True)
class Cursor:
    """The runtime's part of a session's row."""

    run: int = 0
    """1 for the first run of the session."""
    turn: int = 0
    """Turns finished in this run."""
    phase: Literal["think", "act", "answered", "end"] = "end"
    """`think`: the agent's next answer is due; `act`: its calls are; `answered`: only triggers are
    to be looked at; `end`: no run is open."""
    started: bool = False
    """Whether the active agent's start was recorded."""
    first: int = 0
    """The number of the run's first event."""
    calls: int = 0
    """In `act`: the number of the event with the calls."""
    base: str | None = None
    """Key of the step whose result the active agent's view begins with (a filter's)."""
    after: int = 0
    """The view goes on with what was said after this event."""
    chain: list[str] = field(default_factory=list)
    """Who had the task since the last message to it, beginning with `user`."""
    open: list[PendingHandoff] = field(default_factory=list)
    """Handoffs that are not confirmed yet; each but the last led to the source of the next."""
    received: Mapping[str, Any] | None = None
    """What the active agent was handed: from, reason, summary, context."""
    tried: tuple[TriedHandoff, ...] = ()
    route: Mapping[str, Any] | None = None
    """While a router has the run: why it is asked, and the options of this one request."""
    mistakes: int = 0
    """Unusable requests of the model in a row."""
    rollbacks: int = 0
    handoffs: int = 0
    """Handoffs of the whole session, for their ids."""
    tools: list[str] | None = None
    """The only tools that the active agent may use; `None`: all that it has."""
    budget: dict[str, float] = field(default_factory=dict)
    """What handoffs left of tokens, seconds and money, counted from the run's beginning."""
    limits: Mapping[str, float] = field(default_factory=lambda: _NOBODY)
    """Limits that were given for this run, by name; see `RunConfig.given`."""
    fired: Sequence[int] = ()
    """Places in the active agent's `handoffs` whose triggers fired since it has the run."""
    since_s: float = 0.0
    """Since when the active agent has the run, in seconds worked on it."""
    published: Sequence[str] = ()
    """Names of events that were published and that no trigger looked at yet."""
    slips: Sequence[str] = ()
    """Errors of tools that no trigger looked at yet."""
    errors: int = 0
    """Errors of the run."""
    work: int = 0
    """How often something came about in this run that the next agent could make use of."""
    left: Mapping[str, int] = field(default_factory=lambda: _NOBODY)
    """By agent, what `work` was when it handed the task on, if it was not 0."""
    passed: Sequence[str] = ()
    """Digests of what was passed along with returns."""
    head: str = ""
    """The hash of the session's last audited event."""
    audited: int = 0
    """How many audited events the session has."""
    asks: dict[str, OpenQuestion] = field(default_factory=dict)
    """By the key of its step: what the turn under way waits for."""
    person_us: int = 0
    """When a person last decided something for this run, or for one that it asked: the store's
    time. Time-outs of who waits for the run are counted from then."""
    always: dict[Grant, str] = field(default_factory=dict)
    """What need not be asked about in this session, and who said so."""
    checks: int = 0
    """How far the input guardrails of the active agent came since it has the run: 1, those before
    its model passed; 2, all did."""
    found: list[dict[str, Any]] = field(default_factory=list)
    """What they found and no event tells yet."""
    repairs: dict[str, int] = field(default_factory=dict)
    """By output guardrail: how often the active agent's model was asked again because of it."""
    spent_s: float = 0.0
    """Seconds worked on the run by earlier claims."""
    usage: Usage = field(default_factory=Usage)
    """Of the run, and of those that answered its questions."""
    others: Usage | None = None
    """What of it was used by those that answered."""
    purse: str | None = None
    """What it shares with those that it asks, once it does; see `purse`."""
    levels: Sequence[str] = ()
    """The limits of which there is a purse."""
    by_agent: Mapping[str, list[float]] = field(default_factory=lambda: _NOBODY)
    """Tokens, seconds and money of agents that have a budget of their own."""

    def to_json(self) -> dict[str, Any]:
        """What differs from the defaults, under short names."""
        data = OwnJson(r=self.run, t=self.turn, p=self.phase, f=self.first, ch=self.chain.copy())
        if self.started:
            data["s"] = 1
        if self.calls:
            data["c"] = self.calls
        if self.base is not None:
            data["b"] = self.base
        if self.after:
            data["a"] = self.after
        if self.open:
            data["ho"] = [each.to_json() for each in self.open]
        if self.received is not None:
            data["rc"] = self.received
        if self.tried:
            data[TRIED] = [each.to_json() for each in self.tried]
        if self.route is not None:
            data["ro"] = self.route
        if self.mistakes:
            data["m"] = self.mistakes
        if self.rollbacks:
            data["rb"] = self.rollbacks
        if self.handoffs:
            data["h"] = self.handoffs
        if self.tools is not None:
            data["to"] = self.tools.copy()
        if self.budget:
            data["bu"] = self.budget.copy()
        if self.limits:
            data["li"] = dict(self.limits)
        if self.fired:
            data["fi"] = list(self.fired)
        if self.since_s:
            data["si"] = self.since_s
        if self.published:
            data["pu"] = list(self.published)
        if self.slips:
            data["sl"] = list(self.slips)
        if self.errors:
            data["e"] = self.errors
        if self.work:
            data["w"] = self.work
        if self.left:
            data["lf"] = dict(self.left)
        if self.passed:
            data["pa"] = list(self.passed)
        if self.head:
            data["hd"] = self.head
            data["hn"] = self.audited
        if self.asks:
            data["as"] = {key: each.to_json() for key, each in self.asks.items()}
        if self.person_us:
            data["py"] = self.person_us
        if self.always:
            data["al"] = [[*grant, by] for grant, by in self.always.items()]
        if self.checks:
            data["gc"] = self.checks
            if self.found:
                data["gf"] = self.found.copy()
        if self.repairs:
            data["gr"] = self.repairs.copy()
        if self.spent_s:
            data["sp"] = round(self.spent_s, 3)
        if counts := self.usage.to_json():
            data["u"] = counts
        if self.others is not None:
            data["ou"] = self.others.to_json()
        if self.purse is not None:
            data["pz"] = [self.purse, *self.levels]
        if self.by_agent:
            data["ba"] = {name: spent.copy() for name, spent in self.by_agent.items()}
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cursor:
        """The inverse of `to_json`; an empty mapping is a session without any run."""
        if not data:
            return cls()
        old = data.get("ph")  # written before handoffs could be nested
        return cls(
            run=data["r"],
            turn=data["t"],
            phase=data["p"],
            first=data["f"],
            chain=list(data["ch"]),
            started=bool(data.get("s")),
            calls=data.get("c", 0),
            base=data.get("b"),
            after=data.get("a", 0),
            open=[PendingHandoff.from_json(each) for each in data.get("ho", [old] if old else [])],
            tools=data.get("to"),
            budget=dict(data.get("bu", {})),
            limits=data.get("li", _NOBODY),
            fired=tuple(data.get("fi", ())),
            since_s=data.get("si", 0.0),
            published=tuple(data.get("pu", ())),
            slips=tuple(data.get("sl", ())),
            errors=data.get("e", 0),
            work=data.get("w", 0),
            left=data.get("lf", _NOBODY),
            passed=tuple(data.get("pa", ())),
            head=data.get("hd", ""),
            audited=data.get("hn", 0),
            received=data.get("rc"),
            tried=tuple(TriedHandoff(*each) for each in data.get(TRIED, ())),
            route=data.get("ro"),
            mistakes=data.get("m", 0),
            rollbacks=data.get("rb", 0),
            handoffs=data.get("h", 0),
            asks={key: OpenQuestion(*each) for key, each in data.get("as", {}).items()},
            person_us=data.get("py", 0),
            always={(agent, tool, scope): by for agent, tool, scope, by in data.get("al", ())},
            checks=data.get("gc", 0),
            found=list(data.get("gf", ())),
            repairs=dict(data.get("gr", {})),
            spent_s=data.get("sp", 0.0),
            usage=Usage.from_json(data.get("u", {})),
            others=Usage.from_json(data["ou"]) if "ou" in data else None,
            purse=data["pz"][0] if "pz" in data else None,
            levels=tuple(data.get("pz", ())[1:]),
            by_agent={name: list(spent) for name, spent in data["ba"].items()}
            if "ba" in data
            else _NOBODY,
        )

    def go_back_to(self, stored: Mapping[str, Any]) -> None:
        """Take the values of a stored cursor again, but for what was used up since."""
        earlier = Cursor.from_json(stored)
        for each in fields(self):
            if each.name not in _STAYS_SPENT:
                setattr(self, each.name, getattr(earlier, each.name))

    def next_run(
        self,
        *,
        agent: str,
        first: int,
        is_same_task: bool = False,
        limits: Mapping[str, float] = _NOBODY,
    ) -> Cursor:
        """The cursor of the run that follows; the view and the session's counts go on.

        With `is_same_task` no new message began it: the chain goes on, too, with what tells whether
        anything changed since an agent had the task.
        """
        following = Cursor(
            run=self.run + 1,
            phase="think",
            first=first,
            chain=[USER, agent],
            base=self.base,
            after=self.after,
            received=self.received,
            handoffs=self.handoffs,
            always=self.always,
            tools=self.tools,
            limits=limits,
            head=self.head,
            audited=self.audited,
        )
        if is_same_task and self.chain:
            following.chain = self.chain.copy()
            if following.chain[-1] != agent:
                following.chain.append(agent)
            following.work, following.left = self.work, self.left
            following.passed = self.passed
            following.tried = self.tried
        return following

    @property
    def pending(self) -> PendingHandoff | None:
        """The handoff to the active agent, if it is not confirmed yet."""
        return self.open[-1] if self.open else None

    def used(self) -> dict[str, float]:
        """By limit, what the run used."""
        return {
            "tokens": self.usage.tokens,
            "money": self.usage.cost,
            "seconds": self.spent_s,
            "turns": self.turn,
        }

    @property
    def depth(self) -> int:
        """Handoffs of the task since the last message to it."""
        return len(self.chain) - 2
