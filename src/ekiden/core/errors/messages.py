"""Errors of the bus and of the inbox.

EkidenError
├── BusError
│   ├── AgentUnavailableError
│   ├── QueryTimeout
│   ├── QueryFailed
│   ├── DeadlockError
│   ├── MailboxFull
│   ├── MessageNotFound
│   └── SenderForged
└── InboxError
    ├── InboxItemNotFound
    ├── InboxItemClosed
    ├── InboxAnswerInvalid
    └── InboxForbidden
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from ekiden.core.errors import EkidenError


class BusError(EkidenError):
    """Base class of bus errors. The class itself is raised, for example, if the bus was closed, or
    if a chain of questions is longer than `Limits.depth`."""

    code = "bus.failed"


class AgentUnavailableError(BusError):
    """No process serves the agent. Start the program of the agent, or send a message instead of a
    query. A message waits in the mailbox."""

    code = "bus.agent_unavailable"

    def __init__(self, agent: str, *, asker: str) -> None:
        super().__init__(
            f"{asker!r} cannot ask {agent!r}: no process serves that agent now; start its "
            "program, or send a message, which waits for it"
        )
        self.agent, self.asker = agent, asker


class QueryTimeout(BusError, TimeoutError):
    """No answer came in time. Ask again, or wait longer. A late answer is stored."""

    code = "bus.timeout"

    def __init__(self, asker: str, agent: str, timeout_s: float, *, message_id: str) -> None:
        super().__init__(
            f"{agent!r} did not answer {asker!r} within {timeout_s:g} s (message "
            f"{message_id}); ask again, or with a longer timeout"
        )
        self.asker, self.agent, self.timeout_s = asker, agent, timeout_s
        self.message_id = message_id


class QueryFailed(BusError):
    """The asked agent failed. `error` is the text of its error, and `error_code` the code."""

    code = "bus.query_failed"

    def __init__(self, agent: str, error: str, *, error_code: str, message_id: str) -> None:
        super().__init__(f"{agent!r} could not answer: {error}")
        self.agent, self.error, self.error_code = agent, error, error_code
        self.message_id = message_id


class DeadlockError(BusError):
    """Agents wait for each other in a circle (see `cycle`). This query was cancelled to end the
    deadlock. Ask in another order, or send a message that needs no answer. Code that runs a session
    which waits for this code gets the same error, and `cycle` has the sessions.

    `cycle` begins and ends with the same agent: ``["a", "b", "c", "a"]``.
    """

    code = "bus.deadlock"

    def __init__(self, cycle: Sequence[str], *, victim: str, message_id: str = "") -> None:
        super().__init__(
            f"deadlock: {' waits for '.join(cycle)}; {victim!r} was chosen to give up its wait "
            "so that the others can continue: ask in another order, or send a notice instead "
            "of a query"
        )
        self.cycle, self.victim, self.message_id = list(cycle), victim, message_id

    @classmethod
    def of_sessions(cls, cycle: Sequence[str]) -> Self:
        """The error of code that waits for a session which waits for this code."""
        found = cls(cycle, victim=cycle[0])
        shown = " waits for ".join(f"session {each!r}" for each in cycle)
        found.args = (
            f"deadlock: {shown}, so none of them could continue: let the code end before the other "
            "run starts, or hand the conversation off",
        )
        return found


class MailboxFull(BusError):
    """The agent's mailbox is full. Try again later, or raise the concurrency of the agent's
    process."""

    code = "bus.mailbox_full"

    def __init__(self, agent: str, bound: int) -> None:
        super().__init__(
            f"the mailbox of {agent!r} is full ({bound} messages): messages arrive faster "
            "than they are handled; try again later, or serve the agent with more workers"
        )
        self.agent, self.bound = agent, bound


class MessageNotFound(BusError):
    """No message has this id. Finished messages are removed after some time."""

    code = "bus.not_found"

    def __init__(self, message_id: str) -> None:
        super().__init__(f"no message is called {message_id[:80]!r}")
        self.message_id = message_id


class SenderForged(BusError):
    """The code of one agent tried to send a message as another agent."""

    code = "bus.sender_forged"

    def __init__(self, claimed: str, *, actual: str) -> None:
        super().__init__(f"{actual!r} cannot send or answer in the name of {claimed!r}")
        self.claimed, self.actual = claimed, actual


class InboxError(EkidenError):
    """Base class of inbox errors."""

    code = "inbox.failed"


class InboxItemNotFound(InboxError):
    """No inbox item has this id. See `ekiden inbox list`."""

    code = "inbox.not_found"

    def __init__(self, item_id: str) -> None:
        super().__init__(
            f"no inbox item is called {item_id[:80]!r}; `ekiden inbox list` shows the items"
        )
        self.item_id = item_id


class InboxItemClosed(InboxError):
    """The item was already answered, expired or withdrawn. `status` is the status of the item, and
    `by` the person who closed it. This error is raised for a late answer, and in code that waits
    for an answer."""

    code = "inbox.closed"

    def __init__(
        self, item_id: str, *, status: str, by: str = "", at: str = "", reason: str = ""
    ) -> None:
        who = f" by {by}" if by else ""
        when = f" at {at}" if at else ""
        super().__init__(
            f"inbox item {item_id} is {status} already{who}{when}: nothing was changed"
        )
        self.item_id, self.status, self.by, self.reason = item_id, status, by, reason


class InboxAnswerInvalid(InboxError):
    """The answer does not fit the question. The message lists the valid answers."""

    code = "inbox.answer_invalid"


class InboxForbidden(InboxError):
    """An agent tried an action that only people may do, such as answering an item."""

    code = "inbox.forbidden"
