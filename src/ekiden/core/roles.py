"""Small roles that let lower layers use what higher layers provide."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from ekiden.core.conversation.usage import Usage
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.profile import Confirmation
from ekiden.core.questions.inbox_item import InboxAnswer, InboxItem


class Clock(Protocol):
    """Where times come from; tests move it by hand."""

    def now_us(self) -> int:
        """Microseconds since 1970, for people: it may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds from some start, for measuring: it never goes back."""
        ...


class EventSink(Protocol):
    """Somebody who wants to see events after they are stored."""

    def emit(self, event: Event) -> None:
        """Take the event; must return quickly and must not raise."""
        ...


RouteCause: TypeAlias = Literal["new", "asked", "named", "gave_up", "switched", "kept"]
"""Why an agent was chosen: a new conversation; the person wrote ``@auto``, or ``@name``; the agent
gave up; the message was clearly another agent's; or nothing called for a choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Who gets a request, as a router decided."""

    agent: str | None
    """`None`: nobody; then `reply` is said to the person, or without one the run fails."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """The whole decision as JSON: what the `route` event tells."""
    reply: str | None = None
    usage: Usage | None = None
    """What models were asked for it; part of the run's."""


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
        """Choose among all candidates but those `excluded`; `options` are those of one request,
        such as ``{"strategy": "rule"}``. Never raises for what a model or a text does."""
        ...

    async def keep(self, text: str, *, agent: str) -> Assignment:
        """Whether `agent`, which has the conversation, keeps it for this message."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationRequest:
    """A question to a person: may this tool run?"""

    session_id: str
    agent: str
    tool: str
    arguments: str
    """The JSON text that the model gave."""
    prompt: str
    """What to ask; it has text of the model in it: show it as text."""
    timeout_s: float
    scope: str = ""
    """The part of the tool that an "always" would cover, such as a program or a host, in the
    model's spelling; empty: all of it."""
    call_id: str = ""
    """Which call of the model it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(Confirmation):
    """The approval of a tool call: what a tool asks for, or what a person answers.

    As the `confirmation` of a tool it says how a person is asked; as the answer of an `Approver`
    it has `approved` and `by`::

        @function_tool(confirmation=Approval(title="Refund {amount} {currency}"))
        def refund(amount: float, currency: str) -> str: ...

        Approval(approved=True, by="ms.sato")
    """

    approved: bool = False
    by: str = ""
    """Who answered; empty: nobody yet."""
    reason: str = ""
    arguments: str | None = None
    """JSON text: run it with these instead."""
    always: bool = False
    """Do not ask this agent again for this tool, or for the same `scope` of it, in this session."""

    def __post_init__(self) -> None:
        Confirmation.__post_init__(self)
        is_answer = bool(self.by)
        if not is_answer and (self.approved or self.always or self.arguments or self.reason):
            raise UserError("an Approval that answers needs `by`: who answered")
        if is_answer and self.title is not None:
            raise UserError(
                "an Approval has either a `title`, as a question, or `by`, as an answer"
            )


class Approver(Protocol):
    """Asks a person; `RunConfig.approver`.

    For example::

        class Careful(Approver):
            async def approve(self, request: ConfirmationRequest) -> Approval:
                answer = await ask_on_the_phone(request.prompt)
                return Approval(approved=answer == "yes", by="ms.sato")
    """

    async def approve(self, request: ConfirmationRequest) -> Approval | Literal["inbox"]:
        """The answer, or that it is to be sought in the inbox, while the session is suspended; the
        caller keeps the time-out, and cancels this when it is over."""
        ...


class Escalator(Protocol):
    """Brings questions of programs and agents before people; `ekiden.inbox.Inbox` is one."""

    async def ask_person(self, item: InboxItem) -> InboxAnswer:
        """Store the item and wait for its answer, without limit unless it has a deadline.

        Whoever stops waiting (is cancelled) withdraws it. Raises `InboxItemClosed` if it was
        cancelled or expired without a default.
        """
        ...

    async def post(self, item: InboxItem) -> InboxItem:
        """Store the item and go on; as it is stored."""
        ...
