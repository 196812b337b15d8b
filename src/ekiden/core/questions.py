"""Questions that code and agents ask other agents, or people through the inbox."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from ekiden.core.approvals import AlwaysScope, Limits
from ekiden.core.checks.fields import Name, Seconds
from ekiden.core.conversation.messages import DEFAULT_TIMEOUT_S
from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value, from_json, to_json
from ekiden.core.errors import UserError
from ekiden.core.profile import Budget
from ekiden.core.values import Priority, new_id, priority_number

InboxKind: TypeAlias = Literal[
    "confirmation", "approval", "escalation", "routing", "rollback_failed", "handoff"
]
InboxStatus: TypeAlias = Literal["open", "answered", "expired", "cancelled"]

NOBODY = "nobody"
"""The name that is recorded in place of a person when an expired item gets its default answer."""
UNANSWERED: Mapping[str, str] = {
    "expired": "expired",
    "cancelled": "withdrawn",
    "unavailable": "approval was not possible",
}
"""Words for approvals that ended without a person's answer, by the status of the inbox item."""
DEFAULT_ROLE = "operator"
ANSWER = "answer"
GIVE_BACK = "give back"
"""The choices of a person who gets a conversation: answer it, or give it back to the agent."""


Option: TypeAlias = str | Mapping[str, Any]
"""A choice: a text, or a mapping whose ``label`` is the text."""

WAITS = "inbox.waits"
"""The collection that stores which inbox items a live process waits for. The key is the id of the
item. The value is the time, in microseconds since 1970, until which the process counts as alive."""


def option_texts(options: Iterable[Option]) -> tuple[str, ...]:
    """Return the texts of the options. Raises `UserError` for invalid options."""
    if isinstance(options, str | Mapping) or not isinstance(options, Iterable):
        raise UserError("`options` is a list of texts to choose from")
    texts = []
    for option in options:
        text = option.get("label") if isinstance(option, Mapping) else option
        if not isinstance(text, str) or not text.strip():
            raise UserError(
                f'an option must be text or a mapping like {{"label": "yes"}}, not {option!r:.60}'
            )
        texts.append(text)
    return tuple(texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxAnswer(Value):
    """A person's answer to an inbox item."""

    choice: str
    """One of the item's options; empty for a question without options."""
    by: str
    """The person who answered."""
    at_us: int
    via: str
    """The channel of the answer: ``terminal``, ``http``, ``websocket``, ``console`` or
    ``program``."""
    text: str = ""
    """The person's text."""
    arguments: str | None = None
    """For an approval: if set, the tool runs with these arguments, which the person changed. They
    are JSON text."""
    always: bool = False
    """For an approval: whether the approval also applies to later calls of the tool in the session,
    as `scope` says."""
    scope: AlwaysScope = "call"
    """For `always`: the later calls. See `Approval.scope`."""
    limits: Limits | None = None
    """For the scope ``limits``: the limit of each argument."""


class EscalationStep(NamedTuple):
    """A step of an escalation chain: the role to ask next, and when to ask it.

    For example::

        RunConfig(escalation=(EscalationStep(role="manager", after_s=3600),))
    """

    role: Name
    after_s: Seconds
    """Seconds without an answer before this role is asked. The time starts at the creation of the
    item, or at the previous escalation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItem(Value):
    """A question that waits for a person.

    An item is stored in the same transaction as the event that needs it, and can be answered only
    once. Its texts may come from a model, so show them as plain text.
    """

    id: str = field(default_factory=lambda: new_id("inb"))
    kind: InboxKind
    from_agent: str
    subject: str
    body: str = ""
    options: tuple[str, ...] = ()
    """The choices. If there are none, the answer is free text."""
    context: Any = None
    """Facts that help the person to decide, as JSON."""
    priority: int = 2
    """The priority: 1 is low, 2 normal, 3 high, and 4 urgent."""
    created_at_us: int = 0
    deadline_us: int | None = None
    default: str | None = None
    """The answer that is used after the deadline. If `None`, the item expires without an answer."""
    role: str = DEFAULT_ROLE
    """The role of the people who may answer."""
    assignee: str | None = None
    """The person who is assigned to the item."""
    chain: tuple[EscalationStep, ...] = ()
    """The roles that are asked next, in this order, if there is no answer."""
    escalate_at_us: int | None = None
    """The time of the next escalation, in microseconds since 1970. If this field is `None` in a new
    item, the time is computed from the first step of `chain`."""
    snoozed_until_us: int | None = None
    status: InboxStatus = "open"
    answer: InboxAnswer | None = None
    """The person's answer, or the `default` of an `expired` item."""
    closed_at_us: int | None = None
    closed_by: str = ""
    """The person who answered or cancelled the item. `NOBODY` if the item expired."""
    reason: str = ""
    """Why the item was cancelled or expired."""
    session_id: str | None = None
    """The session that waits for the answer."""
    task_id: str | None = None
    correlation_id: str | None = None
    """The correlation id of the item in the audit. `None` means the id of the session."""
    message_id: str | None = None
    """The id of the message on the bus that waits for the answer."""
    tool: str | None = None
    arguments: str | None = None
    """For an approval: the tool's arguments, as JSON text. The approval is valid only for these
    arguments."""
    tool_version: str | None = None
    """For an approval: the version of the tool. The approval is valid only for this version."""
    definition: Mapping[str, Any] | None = None
    """For an approval: what the version consists of. A tool of an MCP server has its whole
    definition, and other tools have digests of their parts."""
    scope: str = ""
    """For an approval: the calls that `always` can cover at most, such as all calls of one program.
    Empty for a tool without `confirmation_scope`."""
    notice: bool = False
    """Whether the item is only a notification: no session waits for an answer."""
    version: int = 0
    """The version of the item; every change increases it."""

    @property
    def etag(self) -> str:
        """The HTTP entity tag of the item, which changes with every update. The tag contains the
        status, because the version numbers start again when the item is closed."""
        return f'"{self.status}-{self.version}"'

    def to_json(self) -> dict[str, Any]:
        """The item as JSON, without its version."""
        data: dict[str, Any] = to_json(self)
        del data["version"]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, version: int = 0) -> InboxItem:
        """Create the item from the JSON that `to_json` returns. Fields of a later version are
        ignored."""
        item: InboxItem = from_json(cls, {**data, "version": version})
        return item


_MAX_SUBJECT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A question to an agent, for `ask_all` and `ask_any`.

    For example::

        stock, price = await ctx.ask_all(
            [Ask(agent="stock", subject="left", payload=42), Ask(agent="sales", subject="price")]
        )
    """

    agent: str
    subject: str
    payload: Any = None
    """The content of the question; any JSON value."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    """The maximum wait in seconds. While the other agent waits for a person, the time does not
    count."""
    priority: Priority = "normal"
    budget: Budget | None = None
    """The budget of the other agent for the answer. It is taken from the remaining budget of the
    asking agent."""
    max_turns: int | None = None
    """The maximum number of turns of the other agent. `None` means the limit of the run."""
    words: str | None = None
    """The text that the other agent reads. The default is a text that names the asking agent, the
    subject and the payload."""

    def __post_init__(self) -> None:
        check_subject(self.subject)
        if not isinstance(self.agent, str) or not self.agent:
            raise UserError(f"a question goes to an agent by its name, not to {self.agent!r:.40}")
        if not 0 < self.timeout_s < float("inf"):
            raise UserError(
                f"the timeout of a question must be above 0 seconds, not {self.timeout_s!r:.40}"
            )
        priority_number(self.priority)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A question to people. See `RunContextWrapper.request_approval`."""

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
            raise UserError(f"a deadline must be above 0 seconds, not {self.deadline_s!r:.40}")
        priority_number(self.priority)


class AskScope(Protocol):
    """The interface through which code asks questions. Each question is a recorded step."""

    async def ask(
        self, questions: Sequence[Ask], *, mode: Literal["any", "all"]
    ) -> list[tuple[str, Any]]:
        """Ask the questions, and return each answer with the agent that gave it. With the mode
        ``any``, return only the first answer."""
        ...

    async def tell(self, note: Ask, *, ttl_s: float | None) -> None:
        """Send a message with the current step."""
        ...

    async def request_approval(self, request: ApprovalRequest) -> InboxAnswer:
        """Ask people, and return the answer."""
        ...

    async def follow(self, items: Sequence[str]) -> None:
        """Wait for an answer to one of these inbox items, which another session created."""
        ...

    def value(self, name: str, new: Callable[[], Any]) -> Any:
        """Return the JSON value of `new`, or the recorded value if the code runs again."""
        ...

    def now_us(self) -> int:
        """Return the recorded time, in microseconds since 1970."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait, with the session suspended."""
        ...


def check_subject(subject: object) -> None:
    """Raise `UserError` for an invalid subject."""
    if not isinstance(subject, str) or not subject.strip() or len(subject) > _MAX_SUBJECT:
        raise UserError(f"a question needs a subject of 1 to {_MAX_SUBJECT} characters")
