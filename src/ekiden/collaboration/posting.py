"""What a move puts into mailboxes and into the stream of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ekiden.collaboration.moves import SYSTEM
from ekiden.collaboration.record import Collaboration, ProtocolMessage
from ekiden.collaboration.wire import to_agent_message
from ekiden.core.errors import EkidenError
from ekiden.core.events import Event
from ekiden.core.messages import Letter, agent_queue
from ekiden.storage.base import QueuePut

_MAX_ERROR = 500


def receivers(record: Collaboration, message: ProtocolMessage) -> tuple[str, ...]:
    """Who is told: the one it is sent to, or all whom it concerns."""
    if message.to is not None:
        return (message.to,)
    # A call, and whom it was awarded to, are told to all; what two then do, to these two.
    concerned = record.sides if message.move in _OF_TWO and record.partner else record.participants
    return tuple(name for name in concerned if name != message.by)


_OF_TWO = frozenset({"cancel", "complete", "expire"})


def letters(
    record: Collaboration, message: ProtocolMessage, *, bound: int | None
) -> list[QueuePut]:
    """The message for each who is told, in the form in which it lies in a mailbox."""
    puts = []
    for name in receivers(record, message):
        number = None if message.to is not None else record.participants.index(name)
        said = to_agent_message(message, receiver=name, number=number)
        puts.append(
            QueuePut(
                queue=agent_queue(name),
                body=Letter(message=said).to_json(),
                priority=said.priority,
                key=said.id,
                ttl_s=said.ttl,
                bound=bound,
            )
        )
    return puts


def move_event(
    record: Collaboration, *, move: str, by: str, at_us: int, message: ProtocolMessage | None = None
) -> Event:
    """Somebody made a move, and this is where it led."""
    details: dict[str, Any] = {
        "collaboration": record.id,
        "move": move,
        "by": by,
        "phase": record.phase,
    }
    if message is not None:
        details["message"] = message.id
        details["to"] = list(receivers(record, message))
    if record.outcome is not None:
        details["outcome"] = record.outcome.status
    return Event(
        session_id="",
        seq=0,
        type="message",
        at_us=at_us,
        agent=None if by == SYSTEM else by,
        details=details,
    )


def refusal_event(
    *, collaboration_id: str, message_id: str, by: str, at_us: int, error: EkidenError
) -> Event:
    """A message was not let in."""
    details = {
        "collaboration": collaboration_id,
        "move": "refused",
        "by": by,
        "message": message_id,
        "code": error.code,
    }
    text = str(error)[:_MAX_ERROR]
    return Event(session_id="", seq=0, type="message", at_us=at_us, details=details, error=text)


def told(puts: Sequence[QueuePut]) -> list[str]:
    """The agents in whose mailboxes these go."""
    prefix = len(agent_queue(""))
    return [put.queue[prefix:] for put in puts]
