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
from ekiden.core.handoffs.handoff import Handoff, PolicyName
from ekiden.core.handoffs.request import Actor, HandoffContext, HandoffRequest
from ekiden.core.values import dumps, loads
from ekiden.handoff.lifecycle import Lifecycle
from ekiden.handoff.records.requests import TriedHandoff
from ekiden.runtime.state.findings import GuardrailFinding
from ekiden.runtime.state.state import RunState
from ekiden.runtime.state.variables import VariablesNow
from ekiden.storage.base import DocumentWrite
from ekiden.storage.values import copy_json

MODEL = Actor(kind="model")
WORDS = ("reason", "summary", "context", "payload", "priority", "metadata")
"""What is passed along."""
MODEL_WORDS = WORDS[:3]
"""What of it a model can say."""
_TEXT_LIMIT = 20_000
"""No single text that a model passes along may be longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brings:
    """What the requester adds to the task, in the transaction of the handoff."""

    items: tuple[Item, ...] = ()
    """Appended to the conversation."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Set."""
    chain: tuple[str, ...] = ()
    """Agents that had the task, as the caller knows it."""


NOTHING_BROUGHT = Brings()


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt:
    """What the controller works on."""

    edge: Handoff[Any, Any]
    arguments: str = ""
    """The JSON text that goes along: reason, summary, context, or what the edge's schema says."""
    call: Item | None = None
    """The model's call, which is to be answered."""
    by: Actor = MODEL
    why: dict[str, Any] | None = None
    """What made a trigger fire."""
    policy: PolicyName | None = None
    """Instead of the edge's own."""
    timeout_s: float | None = None
    requested: list[str] | None = None
    """All transfers that the model asked for, if there were several."""
    request: str | None = None
    """The id of the stored request."""
    began_us: int | None = None
    """When it was asked for, if that was before now."""
    begins_run: bool = False
    """Whether a run begins with it, because no message did."""
    payload: Any = None
    """JSON that goes along to the target."""
    priority: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The caller's own."""
    brings: Brings = NOTHING_BROUGHT
    """What it adds to the task."""
    source: str = ""
    """The source that the requester named; empty: the agent that has the session."""
    writes: Sequence[DocumentWrite] = ()
    """What is written in the transaction that makes or refuses it."""
    place: int | None = None
    """The place of the trigger that fired in the source's `handoffs`."""
    capabilities: tuple[str, ...] = ()
    """What the target must be able to do, beyond what the edge requires."""
    condition: str = ""
    """What must hold, beside the edge's condition."""
    findings: Sequence[GuardrailFinding] = ()
    """What guardrails of handoffs found."""
    before: VariablesNow | None = None
    """The variables without those that it brings."""
    is_plain: bool = False
    """Whether no user code runs before the transfer, so that there is nothing to undo."""
    is_call_stored: bool = True
    """Whether the conversation has the call already."""
    prepare: Callable[[Agent[Any], dict[str, Any]], Awaitable[None]] | None = None
    """Called with the target and what goes along when everybody agreed: if it raises, the handoff
    is not made."""
    answer: str = ""
    """What the call was answered with."""
    failure: Exception | None = None
    """Why it was not made."""
    life: Lifecycle = field(default_factory=Lifecycle)
    id: str = ""

    def begin(self, run: RunState) -> None:
        """Give it an id: from here on it is recorded, whatever its result.

        An attempt that was interrupted before its decision is recorded already, and continues.
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
        if self.id:
            return tried.id == self.id
        if tried.is_asked_of(run.session_id):
            return False
        return tried.step == run.step_key(self._question(tried.id.rpartition(".")[2]))

    @property
    def question(self) -> str:
        """Which handoff of the turn it is, and what it is, in a few characters."""
        return self._question(self.id.rpartition(".")[2])

    def _question(self, name: str) -> str:
        """A model makes one in a turn, and a trigger fires once; others have a name."""
        text = f"{self.edge.tool_name} {self.arguments}".encode("utf-8", "surrogatepass")
        if self.call is not None:
            which = "h"
        elif self.place is not None:
            which = f"p{self.place}"
        else:
            which = name
        return f"{which}_{blake2b(text, digest_size=6).hexdigest()}"

    @property
    def is_asked_here(self) -> bool:
        """Whether it was requested from outside, without a stored request."""
        return self.request is not None and not self.writes

    def words(self, source: str) -> dict[str, Any]:
        """What goes along; a person who was asked may have changed it meanwhile."""
        words = received(source, self.arguments)
        if self.payload is not None:
            words["payload"] = self.payload
        if self.priority:
            words["priority"] = self.priority
        if self.metadata:
            words["metadata"] = dict(self.metadata)
        return words

    def told(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """The source's words for the event: all of them, unless a call of a model has them."""
        names = ("reason",) if self.call is not None else WORDS
        return {name: words[name] for name in names if name in words}

    def answered(self, output: Item) -> tuple[Item, ...]:
        """The items that answer the call: its output, and the call if that is not stored."""
        self.answer = output["output"]
        return (output,) if self.call is None or self.is_call_stored else (self.call, output)

    def validate(self) -> None:
        """It is checked from here on."""
        if self.life.status == "initiated":
            self.life.move("validating")

    @property
    def terms_policy(self) -> PolicyName:
        """The policy that counts."""
        return self.policy or self.edge.terms.policy

    @property
    def is_conditional(self) -> bool:
        """Whether the edge's condition must hold; no other policy gets around it."""
        return "conditional" in (self.policy, self.edge.terms.policy)

    def needs_acceptance(self, target: Agent[Any]) -> bool:
        """Whether a condition, a person or the target itself has to agree."""
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
        """The name of the target, if it is known."""
        return self.edge.agent_name

    def details(self, source: str, target: str) -> dict[str, Any]:
        """Details for the event; defaults are left out."""
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
        if self.terms_policy != "graceful":
            details["policy"] = self.terms_policy
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
        words: dict[str, Any],
        view: Sequence[Item] | None = None,
    ) -> HandoffRequest:
        """As the target's `accepts` is shown it; `view` is the conversation that guardrails see."""
        cursor = run.cursor
        now_us = run.config.clock.now_us()
        return HandoffRequest(
            id=self.id,
            source=run.agent.name,
            target=target.name,
            policy=self.terms_policy,
            reason=words.get("reason", ""),
            created_at=(self.began_us or now_us) / 1e6,
            by=self.by,
            context=HandoffContext(
                task_id=run.task_id,
                task_state=copy_json(run.variables.own),
                conversation_history=tuple(run.visible if view is None else view),
                reason=words.get("reason", ""),
                context=words.get("context"),
                summary=words.get("summary", ""),
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


GIVEN_UP = "the approval is not awaited any more: the run continued without it, or ended"


def announce(run: RunState, attempt: Attempt, words: Mapping[str, Any]) -> None:
    """Record the attempt with the next commit, whether the step waits or continues."""
    number, source, target = run.cursor.handoffs.count, run.agent.name, attempt.target_name
    tried = TriedHandoff(run.step_key(attempt.question), attempt.id, source, target)
    details = {**attempt.details(source, target), **attempt.told(words)}
    attempt.life.fresh.clear()

    def put() -> None:
        cursor = run.cursor
        cursor.handoffs.count, cursor.handoffs.tried = number, (*cursor.handoffs.tried, tried)
        run.record("handoff", step=tried.step, details=dict(details))

    run.put_message(put)


def give_up_tried(run: RunState) -> None:
    """Give up attempts that wait for approval; the caller commits it.

    Those with a stored request are still wanted.
    """
    wanted = [each for each in run.cursor.handoffs.tried if each.is_asked_of(run.session_id)]
    for each in run.cursor.handoffs.tried:
        if each not in wanted:
            end_tried(run, each)
    run.cursor.handoffs.tried = tuple(wanted)


def end_tried(run: RunState, tried: TriedHandoff) -> None:
    """Record that the handoff was not made; the caller commits it."""
    run.record("handoff", details=ended_details(tried), error=GIVEN_UP)


def ended_details(tried: TriedHandoff) -> dict[str, Any]:
    """The event details of an attempt that was given up."""
    life = Lifecycle("validating")
    life.move("failed")
    return {
        "id": tried.id,
        "from": tried.source,
        "to": tried.target,
        "status": "failed",
        "moves": list(life.fresh),
        "code": "CANCELLED",
    }


def received(source: str, arguments: str) -> dict[str, Any]:
    """What the source passed along, as far as the target is told of it."""
    words: dict[str, Any] = {"from": source}
    if arguments in ("", "{}"):
        return words
    try:
        passed = loads(arguments)
        dumps(passed)
    except (ValueError, RecursionError) as exc:
        raise ModelBehaviorError("the arguments are not valid JSON") from exc
    if isinstance(passed, dict):
        for name in MODEL_WORDS:
            value = passed.get(name)
            if value:
                text = value if isinstance(value, str) else dumps(value)
                words[name] = text[:_TEXT_LIMIT]
    return words
