"""Questions from an agent's code to other agents and people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ekiden.core.conversation.messages import DEFAULT_TIMEOUT_S, Priority, priority_number
from ekiden.core.errors import UserError
from ekiden.core.handoff_terms import Budget
from ekiden.core.questions.inbox_item import InboxAnswer

_MAX_SUBJECT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A question to an agent.

    For example::

        stock, price = await ctx.ask_all(
            [Ask(agent="stock", subject="left", payload=42), Ask(agent="sales", subject="price")]
        )
    """

    agent: str
    subject: str
    payload: Any = None
    """JSON."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    """How long to wait; time in which the other agent waits for a person does not count."""
    priority: Priority = "normal"
    budget: Budget | None = None
    """The other agent's budget for it, from what the asker has left."""
    max_turns: int | None = None
    """The most turns; `None`: as many as the run."""
    words: str | None = None
    """The text for the agent, instead of the default that names the asker."""

    def __post_init__(self) -> None:
        check_subject(self.subject)
        if not isinstance(self.agent, str) or not self.agent:
            raise UserError(f"a question goes to an agent by its name, not to {self.agent!r:.40}")
        if not 0 < self.timeout_s < float("inf"):
            raise UserError(f"a question waits for some seconds, not for {self.timeout_s!r:.40}")
        priority_number(self.priority)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A question to people; see `RunContextWrapper.request_approval`."""

    subject: str
    options: tuple[str, ...]
    context: Any
    body: str
    role: str | None
    deadline_s: float | None
    default: str | None
    priority: Priority

    def __post_init__(self) -> None:
        check_subject(self.subject)
        if self.default is not None and self.options and self.default not in self.options:
            raise UserError(f"the default {self.default!r:.80} is not one of the options")
        if self.deadline_s is not None and not 0 < self.deadline_s < float("inf"):
            raise UserError(f"a deadline is some seconds ahead, not {self.deadline_s!r:.40}")
        priority_number(self.priority)


class AskScope(Protocol):
    """The interface for code that may wait: each question is a recorded step."""

    async def ask(
        self, questions: Sequence[Ask], *, mode: Literal["any", "all"]
    ) -> list[tuple[str, Any]]:
        """The answers, each with its agent; for `any`, the first one."""
        ...

    async def tell(self, note: Ask, *, ttl_s: float | None) -> None:
        """Send a message with the current step."""
        ...

    async def request_approval(self, request: ApprovalRequest) -> InboxAnswer:
        """A person's decision."""
        ...


def check_subject(subject: object) -> None:
    """`UserError` for an invalid subject."""
    if not isinstance(subject, str) or not subject.strip() or len(subject) > _MAX_SUBJECT:
        raise UserError(f"a question needs a subject of 1 to {_MAX_SUBJECT} characters")
