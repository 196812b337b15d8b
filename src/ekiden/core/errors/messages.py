"""Errors of the bus; all are `EkidenError`.

BusError
├── AgentUnavailableError
├── QueryTimeout
├── QueryFailed
├── DeadlockError
├── MailboxFull
├── MessageNotFound
└── SenderForged
"""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.core.errors import EkidenError


class BusError(EkidenError):
    """Something about a message."""

    code = "bus.failed"


class AgentUnavailableError(BusError):
    """Nobody serves the agent that is asked."""

    code = "bus.agent_unavailable"

    def __init__(self, agent: str, *, asker: str) -> None:
        super().__init__(
            f"{asker!r} cannot ask {agent!r}: nobody serves that agent now; start its program, or "
            "send a message, which waits for it"
        )
        self.agent, self.asker = agent, asker


class QueryTimeout(BusError, TimeoutError):
    """No answer came in time; one that comes later is stored and wakes nobody."""

    code = "bus.timeout"

    def __init__(self, asker: str, agent: str, timeout_s: float, *, message_id: str) -> None:
        super().__init__(
            f"{agent!r} did not answer {asker!r} within {timeout_s:g} s (message {message_id}); "
            "ask again, or with a longer time-out"
        )
        self.asker, self.agent, self.timeout_s = asker, agent, timeout_s
        self.message_id = message_id


class QueryFailed(BusError):
    """Whoever was asked failed; the message says how."""

    code = "bus.query_failed"

    def __init__(self, agent: str, error: str, *, error_code: str, message_id: str) -> None:
        super().__init__(f"{agent!r} could not answer: {error}")
        self.agent, self.error, self.error_code = agent, error, error_code
        self.message_id = message_id


class DeadlockError(BusError):
    """Agents wait for each other in a circle, and this wait was given up so that the others go on.

    `cycle` begins and ends with the same agent: ``["a", "b", "c", "a"]``.
    """

    code = "bus.deadlock"

    def __init__(self, cycle: Sequence[str], *, victim: str, message_id: str = "") -> None:
        super().__init__(
            f"deadlock: {' waits for '.join(cycle)}; {victim!r} was chosen to give up its wait so "
            "that the others can go on: ask in another order, or tell instead of asking"
        )
        self.cycle, self.victim, self.message_id = list(cycle), victim, message_id


class MailboxFull(BusError):
    """An agent's mailbox holds as many messages as it may."""

    code = "bus.mailbox_full"

    def __init__(self, agent: str, bound: int) -> None:
        super().__init__(
            f"the mailbox of {agent!r} holds its bound of {bound} messages: nobody takes them as "
            "quickly as they come; try again later, or serve the agent with more hands"
        )
        self.agent, self.bound = agent, bound


class MessageNotFound(BusError):
    """No message has this id."""

    code = "bus.not_found"

    def __init__(self, message_id: str) -> None:
        super().__init__(f"no message is called {message_id[:80]!r}")
        self.message_id = message_id


class SenderForged(BusError):
    """Somebody tried to speak in another's name."""

    code = "bus.sender_forged"

    def __init__(self, claimed: str, *, actual: str) -> None:
        super().__init__(f"{actual!r} cannot send or answer in the name of {claimed!r}")
        self.claimed, self.actual = claimed, actual
