"""The contract of agents of other frameworks: the input and the output of a turn.

An adapter lets an object of another framework take a turn. The adapter gets a `ForeignTurn` and
yields the parts of the turn. The last part is a `TurnAnswer`, a `TurnHandoff`, or a `TurnQuestion`.
After a question the session waits for a person, and then the adapter is called again with the
answer.
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
"""The maximum work that is repeated after a crash. `call`: one model or tool call. `node`: one node
of a graph. `event`: everything after the last stored event. `superstep`: one superstep of a graph.
`method`: one method of a flow. `turn`: the whole turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDelta:
    """A streamed piece of the answer. It is shown during the turn, but it is not stored.

    For example::

        TurnDelta(text="Looking it up")
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnToolCall:
    """Reports that the framework called one of its own tools. A `TurnToolResult` with the same
    `call_id` must follow.

    For example::

        TurnToolCall(call_id="1", name="look_up", arguments={"order": "A-42"})
    """

    call_id: str
    name: str
    arguments: Any = None
    """The arguments of the call, as a JSON value or as JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnToolResult:
    """The output of a tool of the framework. The call and its output are recorded together.

    For example::

        TurnToolResult(call_id="1", output="in the post")
    """

    call_id: str
    output: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUsage:
    """The usage of a model call that the framework made. It counts towards budgets and cost.

    For example::

        TurnUsage(usage=Usage(requests=1, input_tokens=80), model="openai:gpt-5-mini")
    """

    usage: Usage
    model: str | None = None
    """The model as ``provider:model``, which determines the price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCheckpoint:
    """The state of the agent in the middle of a turn, as JSON. It is stored in one transaction with
    the earlier parts of the turn.

    For example::

        TurnCheckpoint(data={"node": "pay", "order": "A-42"})
    """

    data: Any
    """The state: JSON, or a `CheckpointDelta`."""


@dataclass(frozen=True, slots=True)
class CheckpointDelta:
    """A checkpoint that contains only the additions to the previous checkpoint. With deltas, a long
    conversation is not stored again in each turn.

    The previous checkpoint and the delta must both be lists, or both be mappings. The lists of a
    mapping are appended to the previous lists; other values replace the previous ones. Pass the
    delta instead of the full checkpoint::

        TurnAnswer(output="Done.", checkpoint=CheckpointDelta({"messages": new_messages}))
    """

    added: Any

    @classmethod
    def between(cls, before: Any, after: list[Any]) -> Any:
        """Return a delta with everything that `after` has in addition to `before`. If `before` is
        empty, or `after` does not begin with it, return `after` unchanged."""
        count = len(before or ())
        return cls(after[count:]) if count and after[:count] == before else after


def joined(before: Any, added: Any) -> Any:
    """Return the checkpoint `before` with the additions of a `CheckpointDelta`."""
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
    """A question to people. The session is suspended until a person answers.

    An adapter may yield several questions. Ekiden calls the adapter again when all are answered::

        TurnQuestion(id="pay-1", tool="pay", arguments={"amount": 30}, checkpoint=state)
    """

    id: str
    """The id of the question. The answer has this key in `ForeignTurn.answers`."""
    tool: str | None = None
    """The tool of the framework that needs approval. If `None`, this is a text question."""
    arguments: Any = None
    """The arguments of the tool, as a JSON value or as JSON text."""
    subject: str = ""
    body: str = ""
    options: tuple[str, ...] = ()
    context: Any = None
    """Facts that help the person to decide, as JSON."""
    checkpoint: Any = None
    """The state to store before the question. After the answer, the turn resumes from this
    state."""


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
    """The agent's state for its next turn. It is stored together with the handoff."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAnswer:
    """The agent's answer, which ends the turn.

    For example::

        TurnAnswer(output="It is in the post.", checkpoint=messages)
    """

    output: Any
    checkpoint: Any = None
    """The agent's state for its next turn. It is stored together with the answer."""


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
    """For a tool call, whether the person approved it. For a text question, whether the person
    answered."""
    text: str = ""
    """The person's text. If the person refused a tool call, the text is the reason."""
    choice: str = ""
    """The option that the person chose."""
    arguments: str | None = None
    """If set, run the tool with these arguments, which the person changed. They are JSON text."""
    by: str = ""

    @property
    def words(self) -> str:
        """The chosen option, or the text if the person chose no option."""
        return self.choice or self.text


class TurnLink(Protocol):
    """The interface through which a `ForeignTurn` calls the runtime."""

    async def emit(self, part: TurnPart) -> None:
        """Process a part. When this method returns, a checkpoint is stored."""
        ...

    async def step(
        self, name: str, args: Any, fn: Callable[[str], Awaitable[Any]], scope: str, is_tool: bool
    ) -> Any:
        """See `ForeignTurn.step`."""
        ...


Effect: TypeAlias = Callable[[str], Awaitable[Any]]
"""A side effect. The argument is an idempotency key."""


@dataclass(slots=True, kw_only=True, eq=False)
class ForeignTurn:
    """One turn of an agent of another framework.

    For example::

        answer = await graph.answer(turn.messages(), key=turn.key)
    """

    key: str
    """The unique key of the turn. If the turn is repeated after a crash, its key is the same. A
    turn after a rewind or in a fork has a new key."""
    agent: str
    session_id: str
    items: Sequence[Item] = ()
    """The conversation since the agent's last turn. An agent without a checkpoint gets the whole
    conversation."""
    text: str = ""
    """The last message of the person."""
    briefing: str = ""
    """The content of the handoff to this agent, as a text for a model. Treat it as data, not as
    instructions."""
    checkpoint: Any = None
    """The last stored state of the agent, from which the turn continues. `None` in the first
    turn."""
    resumes: bool = False
    """Whether the turn was interrupted and resumes. If so, `checkpoint` was stored in this turn,
    and already includes `items`."""
    answers: Mapping[str, PersonAnswer] = field(default_factory=dict)
    """People's answers to the questions that the agent asked after `checkpoint`, by the id of the
    question."""
    handoffs: Mapping[str, str] = field(default_factory=dict)
    """The agents that may get a handoff in this turn. The keys are names, and the values are
    descriptions."""
    is_streamed: bool = False
    """Whether a client reads the deltas. If false, the model does not have to stream."""
    traceparent: str = ""
    """The W3C trace context of the agent's span. Use it as the parent of the framework's spans."""
    link: TurnLink
    handed: TurnHandoff | None = None
    """The handoff that `hand_to` requested, or `None`."""

    async def emit(self, part: TurnPart) -> None:
        """Emit a part of the turn from a callback of the framework, where you cannot yield."""
        await self.link.emit(part)

    async def step(
        self, name: str, args: Any, fn: Effect, *, scope: str = "", is_tool: bool = True
    ) -> Any:
        """Run the side effect `fn` once, and return its result as JSON.

        `fn` is called with an idempotency key. When the turn is repeated after a crash, an effect
        with the same name and arguments is not run again. Instead, this method returns the stored
        result. Only an effect that was in progress when the process died is run again, with the
        same key. Ekiden identifies an effect by its name, its arguments and the last checkpoint
        before it. If a checkpoint can be stored while the effect runs, pass a `scope`: a text that
        identifies the effect instead of the checkpoint. If `is_tool` is true, the effect is
        recorded as a tool call.
        """
        return await self.link.step(name, args, fn, scope, is_tool)

    def effect_key(self, name: str, args: Any = None) -> str:
        """An idempotency key for a side effect. If the framework repeats the effect in this turn,
        the key is the same."""
        return f"{self.key}:{digest_of(name, args)}"

    def hand_to(self, to: str, *, reason: str = "", summary: str = "", context: Any = None) -> str:
        """Hand the conversation to the agent `to` when the turn ends. The turn then has no answer.

        Call this method in tools of the framework. It returns a text that the tool can return to
        its model. Raises `UserError` if the target is not allowed.
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
    """The name of the framework. It becomes the `kind` of the agent."""
    durability: Durability

    def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """Take one turn: an async generator that yields the parts of the turn.

        After a crash Ekiden calls this method again, with the same `turn.key` and the last stored
        checkpoint. When the run is cancelled, the current `await` raises `CancelledError`. Do not
        catch this exception. Any other exception becomes a `ForeignAgentError`.
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
    """Make `turn` the `current_turn` of this asyncio task and its child tasks."""
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
