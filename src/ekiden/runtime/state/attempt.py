"""An attempt at a handoff: requester, source, target, policy and progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from hashlib import blake2b
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Item
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import ModelBehaviorError
from ekiden.core.handoffs import Actor, Handoff, HandoffContext, HandoffRequest, PolicyName
from ekiden.core.values import dumps, loads
from ekiden.handoff.requests import Lifecycle, TriedHandoff, move_details
from ekiden.runtime.state.findings import GuardrailFinding
from ekiden.runtime.state.state import RunState
from ekiden.runtime.state.variables import VariablesNow
from ekiden.storage.base import DocumentWrite
from ekiden.storage.values import copy_json

MODEL = Actor(kind="model")
PASSED = ("reason", "summary", "context", "payload", "priority", "metadata")
"""The names of the data that a handoff passes to its target."""
PASSED_BY_MODELS = PASSED[:3]
"""The names of the data that a model can pass."""
_TEXT_LIMIT = 20_000
"""The maximum number of characters of each text that a model passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """The items, variables and agents that a requester adds to the task with the handoff."""

    items: tuple[Item, ...] = ()
    """Items to append to the conversation."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Variables to set in the session."""
    chain: tuple[str, ...] = ()
    """Agents that had the task before, according to the requester."""


NO_ADDITIONS = Additions()


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt:
    """One attempt at a handoff. The controller makes or refuses the handoff, and records the
    result."""

    edge: Handoff[Any, Any]
    arguments: str = ""
    """The passed data as JSON text: reason, summary and context, or the fields of the schema of the
    declared handoff."""
    call: Item | None = None
    """The model's tool call, which needs an output; `None` if no model requested the handoff."""
    by: Actor = MODEL
    why: dict[str, Any] | None = None
    """The reason why a trigger fired; `None` if no trigger fired."""
    policy: PolicyName | None = None
    """A policy that overrides the policy of the declared handoff."""
    timeout_s: float | None = None
    requested: list[str] | None = None
    """The targets of all handoffs that the model called, if it called several."""
    request: str | None = None
    """The id of the stored request."""
    began_us: int | None = None
    """The time of the request, if the handoff was requested earlier, in microseconds."""
    begins_run: bool = False
    """Whether the handoff starts a run, because no message started one."""
    payload: Any = None
    """Further data for the target, as JSON."""
    priority: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata that the requester passed."""
    additions: Additions = NO_ADDITIONS
    source: str = ""
    """The source that the requester named. If empty, the source is the agent that has the
    session."""
    writes: Sequence[DocumentWrite] = ()
    """Document writes in the transaction that makes or refuses the handoff."""
    place: int | None = None
    """The index, in the source's `handoffs`, of the trigger that fired."""
    capabilities: tuple[str, ...] = ()
    """Capabilities that the target must have, in addition to those that the declared handoff
    requires."""
    condition: str = ""
    """A condition that must be true, in addition to the condition of the declared handoff."""
    findings: Sequence[GuardrailFinding] = ()
    """The findings of handoff guardrails."""
    before: VariablesNow | None = None
    """The variables before the additions; `None` without additions."""
    is_plain: bool = False
    """Whether no user code runs before the transfer. If so, a refusal has nothing to undo."""
    is_call_stored: bool = True
    """Whether the conversation already contains the call."""
    prepare: Callable[[Agent[Any], dict[str, Any]], Awaitable[None]] | None = None
    """A function that is called with the target and the passed data after all checks. If the
    function raises an exception, the handoff is refused."""
    answer: str = ""
    """The output of the model's call. Empty until it is known."""
    failure: Exception | None = None
    """The reason of the refusal; `None` if the handoff was not refused."""
    life: Lifecycle = field(default_factory=Lifecycle)
    id: str = ""

    def begin(self, run: RunState) -> None:
        """Give the attempt its id. From now on its result will be recorded.

        An attempt that was interrupted before its decision is already recorded. Such an attempt
        keeps its id and continues.
        """
        cursor = run.cursor
        for tried in cursor.handoffs.tried:
            if self._is_tried(run, tried):
                self.id = tried.id
                self.life = Lifecycle("validating")
                return
        cursor.handoffs.count += 1
        self.id = self.id or run.next_handoff_id
        self.life.move("initiated")

    def _is_tried(self, run: RunState, tried: TriedHandoff) -> bool:
        """Whether `tried` is the record of this attempt."""
        if self.id:
            return tried.id == self.id
        if tried.is_asked_of(run.session_id):
            return False
        return tried.step == run.step_key(self._question(tried.id.rpartition(".")[2]))

    @property
    def question(self) -> str:
        """The last part of the step key under which people are asked about the handoff.

        This part identifies the handoff within its turn. It changes with the target and the
        arguments, so an approval applies only to the handoff that the person saw.
        """
        return self._question(self.id.rpartition(".")[2])

    def _question(self, name: str) -> str:
        text = f"{self.edge.tool_name} {self.arguments}".encode("utf-8", "surrogatepass")
        # A model makes one handoff in a turn, and a trigger fires once in it. Others need a name.
        if self.call is not None:
            name = "h"
        elif self.place is not None:
            name = f"p{self.place}"
        return f"{name}_{blake2b(text, digest_size=6).hexdigest()}"

    @property
    def is_asked_here(self) -> bool:
        """Whether this process got the request directly, so that no document stores it."""
        return self.request is not None and not self.writes

    def passed_data(self, source: str) -> dict[str, Any]:
        """The data for the target. It is not cached, because a person or a callback may change the
        arguments."""
        data = received(source, self.arguments)
        if self.payload is not None:
            data["payload"] = self.payload
        if self.priority:
            data["priority"] = self.priority
        if self.metadata:
            data["metadata"] = dict(self.metadata)
        return data

    def recorded_data(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The part of the passed data that the event records. If the event of the model's call has
        all data, this is only the reason."""
        names = ("reason",) if self.call is not None else PASSED
        return {name: data[name] for name in names if name in data}

    def answered(self, output: Item) -> tuple[Item, ...]:
        """The items of the event: the call's output, preceded by the call if the call is not
        stored."""
        self.answer = output["output"]
        return (output,) if self.call is None or self.is_call_stored else (self.call, output)

    def validate(self) -> None:
        """Record that the checks begin."""
        if self.life.status == "initiated":
            self.life.move("validating")

    @property
    def effective_policy(self) -> PolicyName:
        """The policy of the request, or by default of the declared handoff."""
        return self.policy or self.edge.terms.policy

    @property
    def is_conditional(self) -> bool:
        """Whether the condition of the declared handoff must be true. A request cannot override
        this policy."""
        return "conditional" in (self.policy, self.edge.terms.policy)

    def needs_acceptance(self, target: Agent[Any]) -> bool:
        """Whether `check_acceptance` has anything to check."""
        terms = self.edge.terms
        return (
            target.accepts is not None
            or terms.confirm is not None
            or bool(terms.capabilities)
            or bool(self.capabilities)
            or self.is_conditional
            or bool(self.condition)
        )

    @property
    def target_name(self) -> str:
        """The name of the target. Empty if the declared handoff chooses the target later."""
        return self.edge.agent_name

    def details(self, source: str, target: str) -> dict[str, Any]:
        """The details for the event. Defaults are left out."""
        details: dict[str, Any] = {
            "id": self.id,
            "from": source,
            "to": target,
            "status": self.life.status,
            "moves": list(self.life.fresh),
        }
        is_new = "initiated" in self.life.fresh
        if self.by is not MODEL:
            details["by"] = self.by.to_json()
        if self.effective_policy != "graceful":
            details["policy"] = self.effective_policy
        if self.why is not None:
            details["trigger"] = self.why
        if self.requested is not None:
            details["requested"] = self.requested
        if self.request is not None:
            details["request"] = self.request
        if self.begins_run and self.life.status == "transferring":
            details["begins_run"] = True
        if self.place is not None:
            details["place"] = self.place
        if self.began_us is not None and is_new:
            details["at"] = {"initiated": self.began_us}
        return details

    def as_request(
        self,
        run: RunState,
        target: Agent[Any],
        data: dict[str, Any],
        view: Sequence[Item] | None = None,
    ) -> HandoffRequest:
        """The request for the target's `accepts` and for guardrails. `view` is the conversation in
        the request, by default the conversation that the source sees."""
        cursor = run.cursor
        now_us = run.config.clock.now_us()
        return HandoffRequest(
            id=self.id,
            source=run.agent.name,
            target=target.name,
            policy=self.effective_policy,
            reason=data.get("reason", ""),
            created_at=(self.began_us or now_us) / 1e6,
            by=self.by,
            context=HandoffContext(
                task_id=run.task_id,
                task_state=copy_json(run.variables.own),
                conversation_history=tuple(run.visible if view is None else view),
                reason=data.get("reason", ""),
                context=data.get("context"),
                summary=data.get("summary", ""),
                payload=self.payload,
                priority=self.priority,
                timeout=self.timeout_s or self.edge.terms.timeout_s,
                metadata={
                    **self.metadata,
                    "timestamp": now_us / 1e6,
                    "handoff_chain": list(cursor.handoffs.chain),
                    "chain_depth": cursor.handoffs.depth,
                    "correlation_id": run.correlation_id,
                },
            ),
        )


GIVEN_UP = "the approval is no longer needed: the run continued without it, or ended"


def announce(run: RunState, attempt: Attempt, data: Mapping[str, Any]) -> None:
    """Record the attempt with the next commit, even if the step then waits."""
    number, source, target = run.cursor.handoffs.count, run.agent.name, attempt.target_name
    tried = TriedHandoff(run.step_key(attempt.question), attempt.id, source, target)
    details = {**attempt.details(source, target), **attempt.recorded_data(data)}
    attempt.life.fresh.clear()

    def put() -> None:
        cursor = run.cursor
        cursor.handoffs.count, cursor.handoffs.tried = number, (*cursor.handoffs.tried, tried)
        run.record("handoff", step=tried.step, details=dict(details))

    run.put_message(put)


def give_up_tried(run: RunState) -> None:
    """Give up undecided attempts of models and triggers. The caller commits this.

    Attempts with a stored request stay open.
    """
    requested = [each for each in run.cursor.handoffs.tried if each.is_asked_of(run.session_id)]
    for each in run.cursor.handoffs.tried:
        if each not in requested:
            run.record("handoff", details=ended_details(each), error=GIVEN_UP)
    run.cursor.handoffs.tried = tuple(requested)


def ended_details(tried: TriedHandoff) -> dict[str, Any]:
    """The event details of an attempt that was given up."""
    moved = move_details(tried.id, tried.source, tried.target, "validating", "failed")
    return {**moved, "code": "CANCELLED"}


def received(source: str, arguments: str) -> dict[str, Any]:
    """The data from the source's arguments that the target gets. Raises `ModelBehaviorError` if
    the arguments are not JSON."""
    data: dict[str, Any] = {"from": source}
    if arguments in ("", "{}"):
        return data
    try:
        passed = loads(arguments)
        # `loads` accepts numbers that are not JSON, such as NaN.
        dumps(passed)
    except (ValueError, RecursionError) as exc:
        raise ModelBehaviorError("the arguments are not valid JSON") from exc
    if isinstance(passed, dict):
        for name in PASSED_BY_MODELS:
            value = passed.get(name)
            if value:
                text = value if isinstance(value, str) else dumps(value)
                data[name] = text[:_TEXT_LIMIT]
    return data
