"""A question to a person: the one shape of everything that waits for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from ekiden.core.checks.fields import Name, Seconds
from ekiden.core.errors import UserError
from ekiden.core.values.documents import Value, from_json, to_json
from ekiden.core.values.ids import new_id

InboxKind: TypeAlias = Literal[
    "confirmation", "approval", "escalation", "routing", "rollback_failed", "handoff"
]
InboxStatus: TypeAlias = Literal["open", "answered", "expired", "cancelled"]

NOBODY = "nobody"
"""Whose answer the default of an expired item is: no person gave it."""
UNANSWERED: Mapping[str, str] = {
    "expired": "expired",
    "cancelled": "withdrawn",
    "unavailable": "nobody was asked",
}
"""How to say that a question about a tool ended without a person's answer, by its status."""
DEFAULT_ROLE = "operator"
ANSWER = "answer"
GIVE_BACK = "give back"
"""What a person can do with a conversation: answer it in words, or give it back."""


Option: TypeAlias = str | Mapping[str, Any]
"""What can be chosen: a text, or a mapping whose ``label`` is the text."""

WAITS = "inbox.waits"
"""The collection of those who wait in a process for an item: by its id, the time in microseconds
until which the process is known to be there."""


def option_texts(options: Iterable[Option]) -> tuple[str, ...]:
    """The options as people choose them; `UserError` for what is none."""
    if isinstance(options, str | Mapping):
        raise UserError("`options` is a list of texts to choose from")
    texts = []
    for option in options:
        text = option.get("label") if isinstance(option, Mapping) else option
        if not isinstance(text, str) or not text.strip():
            raise UserError(
                f'an option is a text, or a mapping such as {{"label": "yes"}}, not {option!r:.60}'
            )
        texts.append(text)
    return tuple(texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxAnswer(Value):
    """What a person decided."""

    choice: str
    """One of the item's options; for a question without options, empty."""
    by: str
    """Who answered."""
    at_us: int
    via: str
    """From where: ``terminal``, ``http``, ``websocket``, ``console``, ``program``."""
    text: str = ""
    """In their words."""
    arguments: str | None = None
    """For a confirmation: run the tool with these instead, as JSON text."""
    always: bool = False


class EscalationStep(NamedTuple):
    """A place in an escalation chain: whom to ask, and after how long.

    For example::

        RunConfig(escalation=(EscalationStep(role="manager", after_s=3600),))
    """

    role: Name
    after_s: Seconds
    """Seconds without an answer after which it is this role that is asked: since the item was
    posted, or since it came to the role before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItem(Value):
    """Something that waits for a person.

    It is stored together with what made it necessary, and answered once. What it has in its texts
    may come from a model: show it as text.
    """

    id: str = field(default_factory=lambda: new_id("inb"))
    kind: InboxKind
    from_agent: str
    subject: str
    body: str = ""
    options: tuple[str, ...] = ()
    """What can be chosen; empty: the answer is free text."""
    context: Any = None
    """JSON that helps to decide."""
    priority: int = 2
    """1 low, 2 normal, 3 high, 4 urgent."""
    created_at_us: int = 0
    deadline_us: int | None = None
    default: str | None = None
    """What is taken for the answer when the deadline is over; `None`: the item just expires."""
    role: str = DEFAULT_ROLE
    """Who may answer, by role."""
    assignee: str | None = None
    """The one person whose it is."""
    chain: tuple[EscalationStep, ...] = ()
    """Whom to ask next if nobody answers: the first is next."""
    escalate_at_us: int | None = None
    """When it goes to the first of `chain`; `None` in a new item: as that step says."""
    snoozed_until_us: int | None = None
    status: InboxStatus = "open"
    answer: InboxAnswer | None = None
    """What a person answered; of an `expired` item, the `default` that was taken instead."""
    closed_at_us: int | None = None
    closed_by: str = ""
    """Who answered or cancelled it; `NOBODY` if its time was over."""
    reason: str = ""
    """Why it was cancelled or expired."""
    session_id: str | None = None
    """The session that waits, and is woken by the answer."""
    task_id: str | None = None
    correlation_id: str | None = None
    """What it is about, for the audit; `None`: the session's id."""
    message_id: str | None = None
    """The message on the bus that waits, and is settled by the answer."""
    tool: str | None = None
    arguments: str | None = None
    """For a confirmation: what is to be run, as JSON text. An answer is to exactly these."""
    notice: bool = False
    """Nobody waits for the answer: it only has to be seen."""
    version: int = 0
    """As it was read; raised with every change."""

    @property
    def etag(self) -> str:
        """Differs with each change: the versions of a closed item begin anew."""
        return f'"{self.status}-{self.version}"'

    def to_json(self) -> dict[str, Any]:
        """As it is stored: its version is that of the document."""
        data: dict[str, Any] = to_json(self)
        del data["version"]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, version: int = 0) -> InboxItem:
        """The inverse of `to_json`; what a later version added is left out."""
        item: InboxItem = from_json(cls, {**data, "version": version})
        return item
