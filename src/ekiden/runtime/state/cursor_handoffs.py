"""The handoffs in a cursor: the chain of agents, open handoffs with their rollback data, and
triggers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

from ekiden.core.dataclass import dataclass
from ekiden.core.errors.stored_data import SessionImportInvalid
from ekiden.handoff.requests import TRIED, TriedHandoff, tried_in
from ekiden.storage.base import SessionRow

USER = "user"
"""The first name in every chain of agents, which stands for the user."""

_LONGEST_ERROR = 200
_MOST_ERRORS = 10
_NO_WORK: Mapping[str, int] = MappingProxyType({})
_BEGINS_RUN = "begins_run"
_SHARED = "shared"
_LASTING = frozenset({"tools", _SHARED})
"""The saved fields that also apply in the runs after the run of the handoff."""


def whole_ms(seconds: float) -> float:
    """The seconds, rounded to milliseconds. `round` takes three times as long, for every commit."""
    return int(seconds * 1000 + 0.5) / 1000


@dataclass(slots=True)
class Compensation:
    """Undoes one side effect if the handoff is rolled back."""

    key: str
    function: str | None
    """The function as ``module:name``. `None` for a function that only the registering process can
    call."""
    arguments: Any = None
    agent: str = ""
    attempts: int = 0
    state: Literal["open", "done", "failed"] = "open"

    def to_json(self) -> list[Any]:
        """Return the compensation as a short list."""
        return [self.key, self.function, self.arguments, self.agent, self.attempts, self.state]


@dataclass(slots=True)
class PendingHandoff:
    """A handoff that is not confirmed yet, with the data to roll it back."""

    id: str
    source: str
    target: str
    call_id: str | None
    """The tool call of the model that requested the handoff; `None` if no model requested it."""
    seq: int
    """The number of the handoff's event. A rollback undoes this event and all later ones."""
    base: str | None
    after: int
    received: Mapping[str, Any] | None
    depth: int = 0
    """The length of the chain before the handoff. In data of earlier versions it is 0, which means
    the present length minus 1."""
    due_s: float | None = None
    """The deadline of the target, in seconds of work on the run."""
    since_s: float = 0.0
    """The time at which the source got the run, in seconds of work on the run."""
    until_result: bool = False
    """Whether the handoff is confirmed only when the target has finished its work."""
    saved: dict[str, Any] = field(default_factory=dict)
    """Other values of the cursor before the handoff. A missing value was at its default."""
    variables: str | None = None
    """The key of the step with the session's variables before the handoff, if they have changed
    since."""
    compensations: list[Compensation] = field(default_factory=list)
    failure: list[str] | None = None
    """The code and the reason of the rollback; `None` until a rollback is decided."""
    kept: list[int] = field(default_factory=list)
    """The numbers of people's messages since the handoff. A rollback keeps them in the
    conversation."""

    def to_json(self) -> list[Any]:
        """The handoff as a short JSON list, because it is stored at every handoff. Defaults at the
        end of the list are omitted."""
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
        """Read the handoff from the result of `to_json`, also of earlier versions."""
        pending = cls(*data)
        pending.until_result = bool(pending.until_result)
        pending.saved = dict(pending.saved)
        pending.kept = list(pending.kept)
        stored: list[Any] = list(pending.compensations)
        pending.compensations = [Compensation(*each) for each in stored]
        return pending

    @property
    def begins_run(self) -> bool:
        """Whether the handoff started a run. A rollback ends this run."""
        return bool(self.saved.get(_BEGINS_RUN))

    @property
    def shared_steps(self) -> Sequence[str]:
        """The keys of the steps with earlier values of variables of the user and the app."""
        steps: Sequence[str] = self.saved.get(_SHARED, ())
        return steps

    def mark(self, *, begins_run: bool = False, chain: Sequence[str] | None = None) -> None:
        """Record that the handoff starts a run, and the chain that this run replaces."""
        if begins_run:
            self.saved[_BEGINS_RUN] = True
        if chain is not None:
            self.saved["chain"] = list(chain)

    def add_shared_step(self, run: int) -> str:
        """Add a step for the earlier values of shared variables, and return its key."""
        key = f"{run}.{self.number}.{_SHARED}.{len(self.shared_steps)}"
        self.saved = {**self.saved, _SHARED: [*self.shared_steps, key]}
        return key

    @property
    def number(self) -> str:
        """The last part of the handoff's id."""
        return self.id.rpartition(".")[2]

    def carry_over(self, message: int) -> None:
        """Keep the handoff open in the next run, whose first message is event `message`. Times that
        were counted from the start of the earlier run are reset."""
        self.kept.append(message)
        self.depth = 1
        self.due_s = None
        self.since_s = 0.0
        self.saved = {name: value for name, value in self.saved.items() if name in _LASTING}


class Component:
    """A part of a cursor. The methods of the components have the contracts described here."""

    __slots__ = ()

    def to_json(self, data: dict[str, Any]) -> None:
        """Put the fields that are not at their defaults into a cursor's `data`."""
        raise NotImplementedError

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the component from a cursor's `data`."""
        raise NotImplementedError

    def save(self, saved: dict[str, Any]) -> None:
        """Put the values that a rollback restores into `saved`, unless they are defaults."""

    @staticmethod
    def shape() -> dict[str, Any]:
        """The types of the fields in an imported document, by key."""
        return {}


@dataclass(slots=True)
class HandoffState(Component):
    """The chain of agents, the open handoffs, and the limits of the active agent."""

    chain: list[str] = field(default_factory=list)
    """The agents that had the task since the last message, beginning with `user`."""
    open: list[PendingHandoff] = field(default_factory=list)
    """The handoffs that are not confirmed yet, oldest first. The target of each handoff is the
    source of the next handoff."""
    received: Mapping[str, Any] | None = None
    """The data of the last handoff to the active agent: from, reason, summary, context."""
    tried: tuple[TriedHandoff, ...] = ()
    """The handoffs that are recorded but not decided yet, for example because they wait for
    approval."""
    route: Mapping[str, Any] | None = None
    """The cause of the routing, and the router options of the request. Set while a router has the
    run."""
    rollbacks: int = 0
    count: int = 0
    """The number of handoffs in the whole session. The ids of handoffs are made from it."""
    tools: list[str] | None = None
    """The only tools that the active agent may use. `None` means all its tools."""
    since_s: float = 0.0
    """The time at which the active agent got the run, in seconds of work on the run."""
    work: int = 0
    """The number of results so far that another agent could use: successful tool calls and changed
    variables. If `work` has not grown since an agent handed over the task, a return to this agent
    needs new data."""
    left: Mapping[str, int] = _NO_WORK
    """The value of `work` when an agent last handed over the task, by agent. Values of 0 are left
    out."""
    passed: Sequence[str] = ()
    """Digests of the data that was passed with returns to earlier agents."""

    NOT_IMPORTED: ClassVar = ("ho", "ph")

    @property
    def pending(self) -> PendingHandoff | None:
        """The handoff to the active agent, if it is not confirmed yet."""
        return self.open[-1] if self.open else None

    @property
    def is_rolling_back(self) -> bool:
        """Whether a rollback has begun and is not finished."""
        return bool(self.open) and self.open[-1].failure is not None

    @property
    def depth(self) -> int:
        """The number of handoffs since the last message."""
        return len(self.chain) - 2

    def to_json(self, data: dict[str, Any]) -> None:
        data["ch"] = self.chain.copy()
        if self.open:
            self.open_to_json(data, self.open)
        if self.received is not None:
            data["rc"] = self.received
        if self.tried:
            data[TRIED] = [each.to_json() for each in self.tried]
        if self.route is not None:
            data["ro"] = self.route
        if self.rollbacks:
            data["rb"] = self.rollbacks
        if self.count:
            data["h"] = self.count
        if self.tools is not None:
            data["to"] = self.tools.copy()
        if self.since_s:
            data["si"] = self.since_s
        if self.work:
            data["w"] = self.work
        if self.left:
            data["lf"] = dict(self.left)
        if self.passed:
            data["pa"] = list(self.passed)

    @staticmethod
    def open_to_json(data: dict[str, Any], pending: Iterable[PendingHandoff]) -> None:
        """Store only these open handoffs in a cursor's `data`."""
        data["ho"] = [each.to_json() for each in pending]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        get = data.get
        handoffs = cls(
            chain=list(data["ch"]),
            received=get("rc"),
            route=get("ro"),
            rollbacks=get("rb", 0),
            count=get("h", 0),
            tools=get("to"),
            since_s=get("si", 0.0),
            work=get("w", 0),
            left=get("lf", _NO_WORK),
            passed=get("pa", ()),
        )
        if "ho" in data:
            handoffs.open = [PendingHandoff.from_json(each) for each in data["ho"]]
        elif old := get("ph"):  # written before handoffs could be nested
            handoffs.open = [PendingHandoff.from_json(old)]
        if TRIED in data:
            handoffs.tried = tried_in(data)
        return handoffs

    def next_run(self, agent: str, *, is_same_task: bool) -> HandoffState:
        """The state of the next run. The session's count of handoffs continues.

        With `is_same_task`, no new message started the run. Then the chain and the counts of work
        also continue.
        """
        following = HandoffState(
            chain=[USER, agent], received=self.received, count=self.count, tools=self.tools
        )
        if is_same_task and self.chain:
            following.chain = self.chain.copy()
            if following.chain[-1] != agent:
                following.chain.append(agent)
            following.work, following.left = self.work, self.left
            following.passed = self.passed
            following.tried = self.tried
        return following

    def still_open(self, message: int) -> list[PendingHandoff]:
        """The unconfirmed handoffs, for the next run, which begins with event `message`."""
        for pending in self.open:
            pending.carry_over(message)
        return self.open.copy()

    def keep_counts(self, counted: HandoffState) -> None:
        """Take over the counts from `counted`, for a run that has not started yet."""
        self.count, self.tried = counted.count, counted.tried

    def discard(self, discarded: HandoffState) -> None:
        """Take over the compensations that a discarded step registered. The step's side effects
        happened, so a rollback must compensate them."""
        registered = {each.id: each.compensations for each in discarded.open}
        for each in self.open:
            each.compensations = registered.get(each.id, each.compensations)

    def save(self, saved: dict[str, Any]) -> None:
        if self.tools is not None:
            saved["tools"] = self.tools
        if self.work:
            saved["work"] = self.work
            if self.left:
                saved["left"] = dict(self.left)
        if self.passed:
            saved["passed"] = list(self.passed)

    def transfer(
        self,
        source: str,
        target: str,
        received: Mapping[str, Any],
        tools: list[str] | None,
        passed: str | None,
        since_s: float,
    ) -> None:
        """See `Cursor.transfer`."""
        if self.work:
            self.left = {**self.left, source: self.work}
        if passed is not None:
            self.passed = [*self.passed, passed]
        self.chain.append(target)
        self.received = received
        self.since_s = whole_ms(since_s)
        if tools is not None:
            self.tools = tools

    def roll_back(self, pending: PendingHandoff) -> None:
        """Roll back the last open handoff, so that its source gets the task back."""
        saved = pending.saved
        self.received = pending.received
        self.tools = saved.get("tools")
        self.work = saved.get("work", 0)
        self.left = dict(saved.get("left", {}))
        self.passed = list(saved.get("passed", ()))
        self.since_s = pending.since_s
        self.open.pop()
        del self.chain[pending.depth or len(self.chain) - 1 :]
        self.chain = list(saved.get("chain", self.chain))
        if self.chain[-1] != pending.source:
            self.chain.append(pending.source)
        self.rollbacks += 1

    def settle(self) -> list[PendingHandoff]:
        """Close all open handoffs, and return them."""
        settled, self.open = self.open, []
        return settled

    def new_task(self, agent: str) -> None:
        """Start a new chain, because the agent gets a new task."""
        self.chain = [USER, agent]
        self.work, self.left, self.passed = 0, {}, ()

    def drop_tried(self, handoff_id: str | None) -> None:
        """Remove the handoff from `tried`, because it is decided."""
        self.tried = tuple(each for each in self.tried if each.id != handoff_id)

    @staticmethod
    def shape() -> dict[str, Any]:
        from typing import Annotated

        from annotated_types import Len

        from ekiden.core.conversation.shapes import Amount, Count, Received, RouteShape

        return {
            "ch": list[str],
            "rc": Received | None,
            TRIED: list[Annotated[list[str], Len(4, 4)]],
            "ro": RouteShape | None,
            **dict.fromkeys(("rb", "h", "w"), Count),
            "to": list[str] | None,
            "si": Amount,
            "lf": dict[str, Count],
            "pa": list[str],
        }

    def check_import(self, place: str, *, is_run_open: bool) -> None:
        """Raise `SessionImportInvalid` if the run is open and has no agent."""
        if is_run_open and len(self.chain) < 2:
            raise SessionImportInvalid(f"{place}.ch", "the run has no agent")


@dataclass(frozen=True, slots=True)
class TriggerSigns(Component):
    """The facts that the triggers of the active agent check."""

    fired: Sequence[int] = ()
    """The indexes, in the active agent's `handoffs`, of the triggers that have fired since the
    agent got the run."""
    published: Sequence[str] = ()
    """The names of published events that the triggers have not checked yet."""
    tool_errors: Sequence[str] = ()
    """The tool errors that the triggers have not checked yet."""

    def to_json(self, data: dict[str, Any]) -> None:
        if self.fired:
            data["fi"] = list(self.fired)
        if self.published:
            data["pu"] = list(self.published)
        if self.tool_errors:
            data["sl"] = list(self.tool_errors)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        get = data.get
        return cls(get("fi", ()), get("pu", ()), get("sl", ()))

    def save(self, saved: dict[str, Any]) -> None:
        if self.fired:
            saved["fired"] = list(self.fired)
        if self.published:
            saved["published"] = list(self.published)
        if self.tool_errors:
            saved["slips"] = list(self.tool_errors)

    @classmethod
    def from_saved(cls, saved: Mapping[str, Any]) -> Self:
        """The values that were `saved` before the handoff."""
        get = saved.get
        return cls(get("fired", ()), get("published", ()), get("slips", ()))

    def checked(self) -> TriggerSigns:
        """Without the events and errors, because the triggers have checked them."""
        return TriggerSigns(self.fired) if self.fired else NO_SIGNS

    def with_fired(self, place: int) -> TriggerSigns:
        """The trigger with this index in the active agent's `handoffs` also fired."""
        return replace(self, fired=[*self.fired, place])

    def with_published(self, name: str) -> TriggerSigns:
        """An event with this name was also published."""
        if name in self.published:
            return self
        return replace(self, published=[*self.published, name])

    def with_tool_error(self, error: str) -> TriggerSigns:
        """A tool also had this error. Only the latest errors are kept."""
        latest = self.tool_errors[1 - _MOST_ERRORS :]
        return replace(self, tool_errors=[*latest, error[:_LONGEST_ERROR]])

    @staticmethod
    def shape() -> dict[str, Any]:
        from ekiden.core.conversation.shapes import Count

        return {"fi": list[Count], "pu": list[str], "sl": list[str]}


NO_SIGNS = TriggerSigns()


def has_open_handoffs(row: SessionRow) -> bool:
    """Whether a handoff of the session is not confirmed yet."""
    return bool(row.cursor.get("ho"))


def unconfirmed_handoffs(data: Mapping[str, Any], place: str) -> list[list[str]]:
    """The id, source and target of each unconfirmed handoff in an imported cursor."""
    from ekiden.core.conversation.shapes import check

    place = f"{place}.ho"
    opened = [each[:3] for each in check(list[list[Any]], data.get("ho", []), place)]
    for each in opened:
        if len(each) != 3 or not all(isinstance(name, str) for name in each):
            raise SessionImportInvalid(place, "it is not a list of handoffs")
    return opened
