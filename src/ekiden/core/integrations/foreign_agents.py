"""The contract of agents of other frameworks: the input and the output of a turn.

An adapter lets an object of another framework take a turn: it gets a `ForeignTurn` and yields
parts. The last part is a `TurnAnswer`, a `TurnHandoff`, or a `TurnQuestion`; after a question the
session waits for a person, and the adapter is called again with the answer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import field
from hashlib import blake2b
from typing import Any, Literal, Protocol, TypeAlias

from ekiden.core.conversation.model import Item, Usage, is_message, text_of
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.values import dumps

Durability: TypeAlias = Literal["call", "node", "event", "superstep", "method", "turn"]
"""The most work that is repeated after a crash: one model or tool call, one node of a graph,
everything after the last stored event, one superstep, one method of a flow, or the whole turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDelta:
    """A piece of the answer, shown during the turn and not stored.

    For example::

        TurnDelta(text="Looking it up")
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnToolCall:
    """An inner tool was called; a `TurnToolResult` with the same `call_id` follows.

    For example::

        TurnToolCall(call_id="1", name="look_up", arguments={"order": "A-42"})
    """

    call_id: str
    name: str
    arguments: Any = None
    """JSON text, or JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnToolResult:
    """The output of an inner tool. The tool call and this output are recorded together.

    For example::

        TurnToolResult(call_id="1", output="in the post")
    """

    call_id: str
    output: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUsage:
    """The usage of a model call of the framework: it counts in budgets and cost.

    For example::

        TurnUsage(usage=Usage(requests=1, input_tokens=80), model="openai:gpt-5-mini")
    """

    usage: Usage
    model: str | None = None
    """``provider:model``; the price depends on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCheckpoint:
    """The state of the turn as JSON. It is stored in one transaction with the parts before it.

    For example::

        TurnCheckpoint(data={"node": "pay", "order": "A-42"})
    """

    data: Any
    """JSON, or a `CheckpointDelta`."""


@dataclass(frozen=True, slots=True)
class CheckpointDelta:
    """A checkpoint that contains only the additions to the previous checkpoint. It saves storing a
    long conversation again in each turn.

    Both checkpoints are lists, or both are mappings. Lists in a mapping are appended; other values
    are replaced. Pass it instead of the full checkpoint::

        TurnAnswer(output="Done.", checkpoint=CheckpointDelta({"messages": new_messages}))
    """

    added: Any

    @classmethod
    def between(cls, before: Any, after: list[Any]) -> Any:
        """Return what `after` adds to `before`. If `after` does not begin with `before`, the result
        is `after` itself."""
        count = len(before or ())
        return cls(after[count:]) if count and after[:count] == before else after


def joined(before: Any, added: Any) -> Any:
    """The checkpoint `before` with the additions of a `CheckpointDelta`."""
    if isinstance(before, list) and isinstance(added, list):
        return [*before, *added]
    if isinstance(before, Mapping) and isinstance(added, Mapping):
        lists = {
            name: [*before[name], *value]
            for name, value in added.items()
            if isinstance(value, list) and isinstance(before.get(name), list)
        }
        return {**before, **added, **lists}
    return added


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnQuestion:
    """A question to people: the session is suspended until it is answered.

    You can yield several questions. The adapter is called again when all are answered::

        TurnQuestion(id="pay-1", tool="pay", arguments={"amount": 30}, checkpoint=state)
    """

    id: str
    """The key of the answer in `ForeignTurn.answers`."""
    tool: str | None = None
    """The inner tool that needs approval. `None`: a text question."""
    arguments: Any = None
    """The arguments of the tool: JSON text, or JSON."""
    subject: str = ""
    body: str = ""
    options: tuple[str, ...] = ()
    context: Any = None
    """JSON that helps to decide."""
    checkpoint: Any = None
    """The state to store before the question. The turn resumes from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnHandoff:
    """Hands the conversation to another agent of the team and ends the turn.

    For example::

        TurnHandoff(to="billing", reason="it is about an invoice")
    """

    to: str
    reason: str = ""
    summary: str = ""
    context: Any = None
    checkpoint: Any = None
    """The agent's state for its next turn; stored with the handoff."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAnswer:
    """The agent's answer, which ends the turn.

    For example::

        TurnAnswer(output="It is in the post.", checkpoint=messages)
    """

    output: Any
    checkpoint: Any = None
    """The agent's state for its next turn; stored with the answer."""


TurnPart: TypeAlias = (
    TurnDelta
    | TurnToolCall
    | TurnToolResult
    | TurnUsage
    | TurnCheckpoint
    | TurnQuestion
    | TurnHandoff
    | TurnAnswer
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonAnswer:
    """A person's decision about a `TurnQuestion`.

    For example::

        if turn.answers["pay-1"].approved: ...
    """

    approved: bool
    """For a tool: whether the person approved the call. For a text question: whether the person
    answered."""
    text: str = ""
    """The person's text. For a refused tool: the reason."""
    choice: str = ""
    """The option that the person chose."""
    arguments: str | None = None
    """If set, run the tool with these arguments instead; JSON text."""
    by: str = ""

    @property
    def words(self) -> str:
        """The chosen option; otherwise the text."""
        return self.choice or self.text


class TurnLink(Protocol):
    """The runtime, or a connection to it, as a `ForeignTurn` uses it."""

    async def emit(self, part: TurnPart) -> None:
        """Process a part; a checkpoint is stored when this returns."""
        ...

    async def step(
        self, name: str, args: Any, fn: Callable[[str], Awaitable[Any]], scope: str, is_tool: bool
    ) -> Any:
        """See `ForeignTurn.step`."""
        ...


Effect: TypeAlias = Callable[[str], Awaitable[Any]]
"""A side effect; the argument is an idempotency key."""


@dataclass(slots=True, kw_only=True, eq=False)
class ForeignTurn:
    """One turn of an agent of another framework.

    For example::

        answer = await graph.answer(turn.messages(), key=turn.key)
    """

    key: str
    """The key of the turn. A repeated turn after a crash has the same key. After a rewind and in a
    fork the key is new."""
    agent: str
    session_id: str
    items: Sequence[Item] = ()
    """The conversation since the agent's last turn. An agent without a checkpoint gets the whole
    conversation."""
    text: str = ""
    """The last message of the person."""
    briefing: str = ""
    """The content of the handoff to this agent as text for a model: data, not instructions."""
    checkpoint: Any = None
    """The state to continue from; `None` in the first turn of the agent."""
    resumes: bool = False
    """Whether `checkpoint` was stored in this turn; then it already includes `items`."""
    answers: Mapping[str, PersonAnswer] = field(default_factory=dict)
    """The answers of people to the questions that followed the checkpoint, by the id of the
    question."""
    handoffs: Mapping[str, str] = field(default_factory=dict)
    """The names of agents that the turn may hand to, each with a description."""
    is_streamed: bool = False
    """Whether a client reads the deltas. If not, the model does not have to stream."""
    traceparent: str = ""
    """The W3C trace context of the agent's span: the parent of the framework's spans."""
    link: TurnLink
    handed: TurnHandoff | None = None
    """The target passed to `hand_to`."""

    async def emit(self, part: TurnPart) -> None:
        """Emit a part from inside a callback of the framework, like yielding it."""
        await self.link.emit(part)

    async def step(
        self, name: str, args: Any, fn: Effect, *, scope: str = "", is_tool: bool = True
    ) -> Any:
        """Run the side effect `fn` once, and return its result as JSON.

        `fn` is called with an idempotency key. When the turn is repeated, the stored result of the
        same name and arguments is returned instead. Only the effect that was in progress when the
        process died is repeated, with the same key. Ekiden identifies an effect by its position
        after the last checkpoint. If a checkpoint can be stored while the effect runs, pass `scope`
        to identify the effect. With `is_tool` the effect is recorded as a tool call.
        """
        return await self.link.step(name, args, fn, scope, is_tool)

    def effect_key(self, name: str, args: Any = None) -> str:
        """An idempotency key for a side effect that the framework may repeat in this turn."""
        return f"{self.key}:{digest_of(name, args)}"

    def hand_to(self, to: str, *, reason: str = "", summary: str = "", context: Any = None) -> str:
        """Hand the conversation to this agent when the turn ends, instead of answering.

        Call this in tools of the framework. Returns a text that the tool can return to its model.
        Raises `UserError` if the target is not allowed.
        """
        if to not in self.handoffs:
            known = ", ".join(self.handoffs) or "none"
            raise UserError(f"agent {self.agent!r} may not hand to {to!r}; allowed: {known}")
        self.handed = TurnHandoff(to=to, reason=reason, summary=summary, context=context)
        return f"The conversation goes to {to}. Say nothing more."

    def messages(self) -> list[dict[str, str]]:
        """The briefing and the new messages, each as ``role`` and ``content``. Tool calls are left
        out."""
        found = [{"role": "user", "content": self.briefing}] if self.briefing else []
        for item in self.items:
            if is_message(item) and (text := text_of(item)):
                role = "assistant" if item.get("role") == "assistant" else "user"
                found.append({"role": role, "content": text})
        return found or [{"role": "user", "content": self.text}]


class ForeignAdapter(Protocol):
    """Runs the turns of an agent of another framework.

    For example::

        class Echo:
            framework, durability = "echo", "turn"

            async def take_turn(self, turn: ForeignTurn):
                yield TurnAnswer(output=turn.text)
    """

    framework: str
    """The name of the framework; it is the `kind` of the agent."""
    durability: Durability

    def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """Take a turn and yield its parts; an async generator.

        After a crash it is called again with the same `key` and the last stored checkpoint. When
        the run is cancelled, `CancelledError` is raised at its `await`: do not catch it. Any other
        exception becomes a `ForeignAgentError`.
        """
        ...


_turn: ContextVar[ForeignTurn] = ContextVar("ekiden_foreign_turn")


def current_turn() -> ForeignTurn:
    """The current turn, for tools and nodes of a framework.

    For example, in a tool of any framework::

        def transfer_to_billing(reason: str) -> str:
            return current_turn().hand_to("billing", reason=reason)
    """
    try:
        return _turn.get()
    except LookupError:
        raise UserError("no agent of another framework takes a turn here") from None


@contextmanager
def turn_entered(turn: ForeignTurn) -> Iterator[None]:
    """Make `turn` the `current_turn` of this task and its children."""
    token = _turn.set(turn)
    try:
        yield
    finally:
        _turn.reset(token)


def digest_of(name: str, args: Any) -> str:
    """A short digest of the name and the arguments."""
    if isinstance(args, str):
        with suppress(ValueError, RecursionError):
            args = json.loads(args)
    text = f"{name}\0{json.dumps(args, sort_keys=True, default=str)}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def as_json_text(arguments: Any) -> str:
    """The arguments of a call as JSON text."""
    if isinstance(arguments, str):
        return arguments or "{}"
    return dumps({} if arguments is None else arguments)
