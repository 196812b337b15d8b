"""Interfaces that lower layers use and higher layers implement: clock, router, approver, memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias

from ekiden.core.approvals import AlwaysScope, Limits, check_always
from ekiden.core.conversation.model import Item, Usage
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.profile import Confirmation
from ekiden.core.questions import InboxAnswer, InboxItem


class Clock(Protocol):
    """The source of time. Tests replace the clock to control the time."""

    def now_us(self) -> int:
        """The current wall-clock time, in microseconds since 1970. The value may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start, for measuring durations. The value never decreases."""
        ...


class EventSink(Protocol):
    """Receives events after they are stored."""

    def emit(self, event: Event) -> None:
        """Receive an event. Must return quickly and must not raise."""
        ...


RouteCause: TypeAlias = Literal["new", "asked", "named", "gave_up", "switched", "kept"]
"""Why an agent was chosen. `new`: the conversation is new. `asked`: the person wrote ``@auto``.
`named`: the person wrote ``@name``. `gave_up`: the previous agent gave up. `switched`: the message
clearly was for another agent. `kept`: the agent kept the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A router's decision."""

    agent: str | None
    """The chosen agent. If `None`, the person gets `reply`; without a reply the run fails."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """The whole decision as JSON, in the form of the `route` event."""
    reply: str | None = None
    """The answer to the person if no agent is chosen."""
    usage: Usage | None = None
    """The usage of the router's model calls. Ekiden adds it to the usage of the run."""


class Assigner(Protocol):
    """The interface of objects that choose the agent for a request. `ekiden.routing.Router`
    implements it."""

    async def assign(
        self,
        text: str,
        *,
        cause: RouteCause,
        excluded: Collection[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Assignment:
        """Choose among all candidates except `excluded`.

        `options` apply only to this request, such as ``{"strategy": "rule"}``. This method accepts
        every text and every model output without raising an exception.
        """
        ...

    async def keep(self, text: str, *, agent: str) -> Assignment:
        """Decide whether the active agent `agent` also gets this message."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationRequest:
    """A request for approval of a tool call."""

    session_id: str
    agent: str
    tool: str
    arguments: str
    """The model's arguments as JSON text."""
    prompt: str
    """The question. It contains text from the model, so show it as plain text."""
    timeout_s: float
    scope: str = ""
    """The calls that an "always" approval can cover at most, such as all calls of one program or of
    one host. The text comes from the model. It is empty for a tool without `confirmation_scope`."""
    call_id: str = ""
    """The id of the tool call."""
    tool_version: str = ""
    """The version of the tool. The approval is valid only for this version."""
    changes: Sequence[str] = ()
    """If an earlier approval is no longer valid: the reasons, such as a changed tool. `prompt`
    shows them as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(Confirmation):
    """An approval of a tool call: the question to a person, or the person's answer.

    As the `confirmation` of a tool, an `Approval` describes the question. As the result of an
    `Approver`, it has the person's answer in `approved` and `by`::

        @function_tool(confirmation=Approval(title="Refund {amount} {currency}"))
        def refund(amount: float, currency: str) -> str: ...

        Approval(approved=True, by="ms.sato")
    """

    approved: bool = False
    by: str = ""
    """The person who answered; empty before the answer."""
    reason: str = ""
    arguments: str | None = None
    """The arguments of the call after the person changed them, as JSON text. If `None`, the tool
    runs with the arguments of the model."""
    always: bool = False
    """If true, the approval also covers later calls of this tool by this agent in this session, as
    `scope` says, while the tool does not change."""
    scope: AlwaysScope = "call"
    """For `always`: ``call`` covers calls with the same arguments, ``limits`` calls within
    `limits`, and ``session`` all calls. If the tool has a `confirmation_scope`, `limits` and
    `session` cover only calls for which that function returns the same text."""
    limits: Limits | None = None
    """For the scope ``limits``: the limit of each argument, such as ``{"cents": {"max": 500}}``,
    ``{"to": {"any_of": ["a", "b"]}}`` or ``{"to": {"equal": "a"}}``. Other arguments must be the
    same as in this call. With `None`, the `confirmation_scope` of the tool is the limit."""

    def __post_init__(self) -> None:
        Confirmation.__post_init__(self)
        check_always(self.always, self.scope, self.limits)
        is_answer = bool(self.by)
        if not is_answer and (self.approved or self.always or self.arguments or self.reason):
            raise UserError("an Approval that answers needs `by`: the person's name")
        if is_answer and self.title is not None:
            raise UserError(
                "an Approval has either a `title`, as a question, or `by`, as an answer"
            )


class Approver(Protocol):
    """Asks a person for approval. See `RunConfig.approver`.

    For example::

        class Careful(Approver):
            async def approve(self, request: ConfirmationRequest) -> Approval:
                answer = await ask_on_the_phone(request.prompt)
                return Approval(approved=answer == "yes", by="ms.sato")
    """

    async def approve(self, request: ConfirmationRequest) -> Approval | Literal["inbox"]:
        """Return the person's answer, or ``"inbox"`` to ask in the inbox and suspend the session.
        The caller cancels this call after the timeout."""
        ...


class Escalator(Protocol):
    """The interface of objects that ask people the questions of programs and agents.
    `ekiden.inbox.Inbox` implements it."""

    async def ask_person(self, item: InboxItem) -> InboxAnswer:
        """Store the item and wait for the answer. The wait has no time limit unless the item has a
        deadline.

        Cancelling the wait withdraws the item. Raises `InboxItemClosed` if the item was cancelled,
        or expired without a default.
        """
        ...

    async def post(self, item: InboxItem) -> InboxItem:
        """Store the item, and return the stored item without waiting for an answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTask:
    """A task for an `AgentRunner`. It is read-only, and all its values are JSON, so that you can
    send it to another system."""

    task_id: str
    """The id of the task. It stays the same when the task passes from agent to agent."""
    session_id: str
    agent: str
    """The name of the agent in the team; one runner may serve several agents."""
    items: Sequence[Item] = ()
    """The conversation that the target may see, after all filters."""
    received: Mapping[str, Any] = field(default_factory=dict)
    """The data of the handoff, with the keys ``from`` (the source agent), ``reason``, ``summary``,
    ``context`` and ``chain`` (the agents so far). A model wrote parts of these data: treat them as
    data, never as instructions."""
    idempotency_key: str
    """A unique key of the task. It stays the same when the task is handed over again after a
    crash."""
    timeout_s: float | None = None
    """Seconds after which the caller cancels the task. `None` means the time limit of the run."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The session's variables at the time of the handoff."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """The result of a task of an `AgentRunner`. A reply without any field means that the task is
    done and has no output.

    A task ends in one of three ways: declined, handed over, or done. Ekiden checks `declined`
    first, then `hand_to`.
    """

    text: str | None = None
    """The text for the person. If `None`, the reply consists of `items` only."""
    items: Sequence[Item] = ()
    """Items to add to the conversation before `text`: messages, and tool calls with their
    outputs."""
    output: Any = None
    """The final output as JSON. If `None`, the output is `text`."""
    declined: str | None = None
    """If set, the agent refuses the task, and this is the reason. Ekiden then ignores the other
    fields, and the source agent gets the task back."""
    hand_to: str | None = None
    """The agent of the team that gets the task next. Ekiden checks this handoff like any other."""
    reason: str = ""
    """The reason for the handoff to `hand_to`. People see this text unchanged."""
    usage: Usage | None = None
    """The usage of the task's model calls. Ekiden adds it to the usage of the run."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further facts, as JSON, which are stored in the event of the task."""


class AgentRunner(Protocol):
    """Does a whole task in place of a local agent, for example by calling a remote agent.

    For example::

        class Elsewhere(AgentRunner):
            async def run_task(self, task: RemoteTask) -> AgentReply:
                answer = await client.ask(list(task.items), key=task.idempotency_key)
                return AgentReply(text=answer)
    """

    async def run_task(self, task: RemoteTask) -> AgentReply:
        """Do the task and return its result. Ekiden stores nothing until this method returns.

        If the process dies before the reply is stored, Ekiden calls the method again with the same
        `idempotency_key`. In this case return the first reply or continue the work, but do not do
        the task twice. Several tasks may run at once. If the method raises an exception, the
        handoff is rolled back, and the source agent gets the error. Ekiden cancels the call after a
        timeout and when the run is stopped. In this case, cancel the remote work, and let
        `CancelledError` pass.
        """
        ...


FoundBy: TypeAlias = Literal["words", "meaning", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """A stored memory.

    For example::

        for each in await ctx.memory.retrieve("her favourite colour"):
            print(each.key, each.content, each.score)
    """

    key: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The metadata that was stored with the memory, as JSON."""
    score: float | None = None
    """The similarity to the query, from 0 to 1; `None` without a query. The score is the higher of
    two values. One is the cosine of the embeddings. The other is the share of the query's words
    that occur in the memory; rare words count more."""
    found_by: FoundBy | None = None
    stored_at_us: int = 0
    """When the memory was stored, in microseconds since 1970."""
    agent: str | None = None
    """The agent that stored the memory; `None` if no agent stored it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """The result of a memory search."""

    found: Sequence[MemoryRecord] = ()
    """The memories that were found, best match first."""
    notes: Sequence[str] = ()
    """Descriptions of problems, such as an unavailable back end."""


class LongTermMemory(Protocol):
    """The memories of one user or one app. Memories of other users and apps are not accessible.

    Every call raises `NoMemory` if there is no user or app.
    """

    async def store(
        self, key: str | None, content: str, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Store `content` under `key`, and return the key. A memory with the same key is replaced.

        If `key` is `None`, the key is derived from the content, so that the same content is stored
        only once. Raises `MemoryTooLarge`, or `MemoryInvalid` for invalid data. After an error,
        nothing is stored.
        """
        ...

    async def get(self, key: str) -> MemoryRecord | None:
        """Return the memory with this key, or `None` if there is no such memory."""
        ...

    async def retrieve(
        self, query: str, top_k: int | None = None, threshold: float | None = None
    ) -> list[MemoryRecord]:
        """Return the memories that match the query, best match first. An empty query has no
        results."""
        ...

    async def recall(
        self, query: str, top_k: int | None = None, threshold: float | None = None
    ) -> Recall:
        """Search like `retrieve`, and also return notes about problems."""
        ...

    async def forget(self, key: str) -> bool:
        """Delete the memory. Returns `False` if the memory does not exist."""
        ...

    async def list(self, *, after: str = "", limit: int = 100) -> Sequence[MemoryRecord]:
        """Return at most `limit` memories in the order of their keys, starting after the key
        `after`."""
        ...

    async def clear(self) -> int:
        """Delete all memories, and return their number."""
        ...
