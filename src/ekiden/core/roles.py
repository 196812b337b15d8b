"""Small interfaces that let lower layers use higher layers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias

from ekiden.core.conversation.model import Item, Usage
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.profile import Confirmation
from ekiden.core.questions import InboxAnswer, InboxItem


class Clock(Protocol):
    """The source of time; tests move it by hand."""

    def now_us(self) -> int:
        """Microseconds since 1970, for people: it may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds from some start, for measuring: it never goes back."""
        ...


class EventSink(Protocol):
    """Receives events after they are stored."""

    def emit(self, event: Event) -> None:
        """Receive the event; must return quickly and must not raise."""
        ...


RouteCause: TypeAlias = Literal["new", "asked", "named", "gave_up", "switched", "kept"]
"""Why an agent was chosen: a new conversation; the person wrote ``@auto``, or ``@name``; the agent
gave up; the message clearly was for another agent; or nothing required a choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A router's decision."""

    agent: str | None
    """`None`: no agent; then `reply` goes to the person, or without one the run fails."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """The whole decision as JSON, as in the `route` event."""
    reply: str | None = None
    usage: Usage | None = None
    """The usage of its model calls; part of the run's."""


class Assigner(Protocol):
    """Chooses the agent for a request; `ekiden.routing.Router` is one."""

    async def assign(
        self,
        text: str,
        *,
        cause: RouteCause,
        excluded: Collection[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Assignment:
        """Choose among all candidates except `excluded`; `options` are those of one request, such
        as ``{"strategy": "rule"}``. Never raises because of a model's output or a text."""
        ...

    async def keep(self, text: str, *, agent: str) -> Assignment:
        """Whether `agent`, which has the conversation, keeps it for this message."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationRequest:
    """A request for approval of a tool call."""

    session_id: str
    agent: str
    tool: str
    arguments: str
    """The JSON text that the model gave."""
    prompt: str
    """The question; it contains text from the model: show it as plain text."""
    timeout_s: float
    scope: str = ""
    """The part of the tool that an "always" would cover, such as a program or a host, in the
    model's spelling; empty: all of it."""
    call_id: str = ""
    """The id of the model's call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(Confirmation):
    """The approval of a tool call. It is either the requirement of a tool, or the answer of a
    person.

    As the `confirmation` of a tool it describes the question; as the answer of an `Approver` it has
    `approved` and `by`::

        @function_tool(confirmation=Approval(title="Refund {amount} {currency}"))
        def refund(amount: float, currency: str) -> str: ...

        Approval(approved=True, by="ms.sato")
    """

    approved: bool = False
    by: str = ""
    """The person who answered; empty before the answer."""
    reason: str = ""
    arguments: str | None = None
    """If set, the tool runs with these arguments instead, as JSON text."""
    always: bool = False
    """Do not ask again in this session for this tool of this agent. If the tool has scopes, this
    applies to calls with the same `scope`."""

    def __post_init__(self) -> None:
        Confirmation.__post_init__(self)
        is_answer = bool(self.by)
        if not is_answer and (self.approved or self.always or self.arguments or self.reason):
            raise UserError("an Approval that answers needs `by`: the person's name")
        if is_answer and self.title is not None:
            raise UserError(
                "an Approval has either a `title`, as a question, or `by`, as an answer"
            )


class Approver(Protocol):
    """Asks a person for approval; `RunConfig.approver`.

    For example::

        class Careful(Approver):
            async def approve(self, request: ConfirmationRequest) -> Approval:
                answer = await ask_on_the_phone(request.prompt)
                return Approval(approved=answer == "yes", by="ms.sato")
    """

    async def approve(self, request: ConfirmationRequest) -> Approval | Literal["inbox"]:
        """The answer, or that the inbox must give it while the session is suspended; the caller
        enforces the timeout by cancelling this."""
        ...


class Escalator(Protocol):
    """Asks people questions of programs and agents; `ekiden.inbox.Inbox` is one."""

    async def ask_person(self, item: InboxItem) -> InboxAnswer:
        """Store the item and wait for its answer, without limit unless it has a deadline.

        Cancelling the wait withdraws the item. Raises `InboxItemClosed` if it was cancelled or
        expired without a default.
        """
        ...

    async def post(self, item: InboxItem) -> InboxItem:
        """Store the item without waiting; returns it as stored."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTask:
    """The task that is handed over: read-only and all JSON, so that it can be sent."""

    task_id: str
    """The same for all agents that a task passes through."""
    session_id: str
    agent: str
    """The runner's name in the team: one runner may serve several agents."""
    items: Sequence[Item] = ()
    """The conversation that the target may see: filters were applied."""
    received: Mapping[str, Any] = field(default_factory=dict)
    """The source's description of the task: ``from``, ``reason``, ``summary``, ``context`` and
    ``chain``, the agents so far. Parts of it are a model's text: data, never instructions."""
    idempotency_key: str
    """The same when the task is handed over again after a crash, and unique to the task."""
    timeout_s: float | None = None
    """How long the caller waits before it cancels; `None`: as long as the run may last."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The session's variables when the task was handed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """The result of a task; without any field the task is done without output.

    It ends in one of three ways, checked in this order: `declined`, `hand_to`, done.
    """

    text: str | None = None
    """The text for the person; `None`: nothing beyond `items`."""
    items: Sequence[Item] = ()
    """Items for the conversation, before `text`: messages, and tool calls each with its output."""
    output: Any = None
    """The final output, in JSON, where it is more than `text`."""
    declined: str | None = None
    """Why the task was refused. Then nothing was done and no other field is read: the source has
    the task again."""
    hand_to: str | None = None
    """The agent of the team that gets the task next; checked like any other handoff."""
    reason: str = ""
    """Why it is handed to `hand_to`; shown to people as it is."""
    usage: Usage | None = None
    """The usage of its model calls; part of the run's."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further JSON for the event of the task."""


class AgentRunner(Protocol):
    """Runs a whole task instead of a local agent: a supervisor's plan, or a remote agent.

    For example::

        class Elsewhere(AgentRunner):
            async def run_task(self, task: RemoteTask) -> AgentReply:
                answer = await client.ask(list(task.items), key=task.idempotency_key)
                return AgentReply(text=answer)
    """

    async def run_task(self, task: RemoteTask) -> AgentReply:
        """Do the task and return its result; nothing is stored until this returns.

        It may be called again with the same `idempotency_key` if the process died before the reply
        was stored: then return the first reply, or continue, but do not do the task twice. Several
        tasks may run at once. Raise to fail: the handoff is rolled back and the source sees the
        exception. It is cancelled on timeout or when the run is stopped: cancel the other side and
        do not catch `CancelledError`.
        """
        ...
