"""What a chat with a store and a chat with a server share: the session and its state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ekiden.cli.chat.reader import Interrupts, Reader, Status
from ekiden.cli.chat.screen import CommandReply, Lines, Quoted, Screen, Shape
from ekiden.cli.errors import UsageError

if TYPE_CHECKING:
    from ekiden.api.sessions import SessionSummary
    from ekiden.client.ekiden import Ekiden
    from ekiden.core.events import Event
    from ekiden.core.questions import InboxItem
    from ekiden.project.routing import AddressedMessage

AUTO = "auto"
"""The address of a message that is routed."""

_UNFINISHED = frozenset({None, "failed", "out_of_budget"})
"""Outcomes that `/resume` can continue from; `None` is an interrupted run."""


@dataclass(slots=True, kw_only=True, eq=False)
class Chat(ABC):
    """One person talking with one team, in one session at a time."""

    screen: Screen
    reader: Reader
    interrupts: Interrupts
    is_over: bool = False

    @property
    @abstractmethod
    def api(self) -> Ekiden:
        """The resources of the store or the server."""

    @property
    @abstractmethod
    def session_id(self) -> str | None:
        """The session; `None` if the first message creates it."""

    @property
    @abstractmethod
    def summary(self) -> SessionSummary | None:
        """The session as last read; `None` if it has no messages."""

    @property
    @abstractmethod
    def user(self) -> str | None:
        """The user of the chat; only sessions of that user are reachable. `None` if all are."""

    @property
    @abstractmethod
    def active(self) -> str:
        """The agent that gets the next message; ``auto`` when the router chooses."""

    @property
    def is_unfinished(self) -> bool:
        """Whether the last turn can be resumed."""
        found = self.summary
        return found is not None and found.events > 0 and found.outcome in _UNFINISHED

    @property
    def is_waiting(self) -> bool:
        """Whether the last turn waits for an answer, or can resume after one."""
        found = self.summary
        return found is not None and found.outcome == "waiting" and found.status != "idle"

    def status(self) -> Status:
        """The text of the prompt's toolbar."""
        details = "/resume continues the stopped turn" if self.is_unfinished else ""
        if self.is_waiting:
            details = "waiting for an answer: /inbox; a new message withdraws the question"
        return Status(agent=self.active, session_id=self.session_id or "", details=details)

    def stored_session(self, purpose: str) -> SessionSummary:
        """The session, for a command that needs messages; `UsageError` names its `purpose`."""
        if self.summary is None:
            raise UsageError(f"there are no messages yet: {purpose}")
        return self.summary

    @abstractmethod
    async def look(self) -> None:
        """Read the session's state again."""

    @abstractmethod
    async def enter(self, session_id: str | None) -> None:
        """Switch to another session; `None`: a new one."""

    @abstractmethod
    async def enter_copy(self, *, before: int) -> None:
        """Switch to a new session that continues from before the message of this event."""

    @abstractmethod
    async def check_owner(self, session_id: str) -> None:
        """`UsageError` if the session belongs to another user."""

    @abstractmethod
    async def events(self, *, after: int = 0) -> Sequence[Event]:
        """The events of the session after this number; none in a new one."""

    @abstractmethod
    async def questions(self) -> Sequence[InboxItem]:
        """The questions to people that the session waits for."""

    @abstractmethod
    async def waits_for(self) -> str:
        """The people or agents that the session waits for."""

    @abstractmethod
    async def ready(self) -> None:
        """Prepare the team for a turn, and show notes for the person."""

    @abstractmethod
    def check_addressee(self, address: AddressedMessage) -> None:
        """`UnknownAgent` for a message to an agent outside the team, if the team is known here."""

    @abstractmethod
    async def send(self, address: AddressedMessage) -> int:
        """Send a message, and return the exit code of the turn."""

    @abstractmethod
    async def resume(self) -> int:
        """Resume the last turn, if it was stopped or failed, and return its exit code."""

    async def after_answer(self) -> int:
        """Continue after an inbox item was answered, and return the exit code."""
        return 0

    # Only a chat with a store resumes a turn that waits; a server does so itself.

    @property
    def is_suspended(self) -> bool:
        """Whether the last turn waits, and this process must resume it after an answer."""
        return False

    async def can_go_on(self) -> bool:
        """Whether the wait of a suspended turn is over; `False` if that is unknown."""
        return False

    async def until_ready(self) -> None:
        """Return when the wait of a suspended turn is over. Only called if `is_suspended`, which
        never holds at a server."""
        raise NotImplementedError

    async def catch_up(self) -> int:
        """Resume a suspended turn, or show how another process continued it, and return the exit
        code. Only called if `is_suspended`."""
        raise NotImplementedError


def waiting_reply(session_id: str, questions: Sequence[InboxItem], reason: str) -> CommandReply:
    """Tells that the turn waits, what for, and how to answer."""
    from ekiden.cli.views.inbox import answer_words, question_line, question_record
    from ekiden.tools.output import spelled_out

    shapes: list[Shape] = []
    for item in questions:
        shapes.append(Lines(text=question_line(item)))
        if item.body:
            shapes.append(Quoted(text=spelled_out(item.body)))
        shapes.append(Lines(text=f"/inbox answer {item.id} {answer_words(item, in_chat=True)}"))
    text = f"waiting for {reason}; an answer, from here or another terminal, continues it"
    shapes.append(Lines(text=text))
    record = {
        "session_id": session_id,
        "reason": reason,
        "waiting_for": [question_record(item) for item in questions],
        "text": text,
    }
    return CommandReply(type="waiting", record=record, shapes=shapes, is_remark=True)
