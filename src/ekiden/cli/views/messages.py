"""Messages between agents, for people."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.api.messages import MessageDetails
from ekiden.cli.tables import Cell, Id, Moment, Table, clock_time, print_pairs
from ekiden.core.values import PRIORITIES, dumps

_NAMES = {number: name for name, number in PRIORITIES.items()}


def message_table(messages: Sequence[MessageDetails]) -> Table:
    """Messages, one on each line."""
    headers = ("message", "time", "type", "from", "to", "state", "subject")
    return headers, [_message_row(each) for each in messages]


def print_message(details: MessageDetails) -> None:
    """Everything about one message."""
    said = details.message
    pairs = [
        ("message", said.id),
        ("type", said.type),
        ("from", said.from_agent),
        ("to", said.to_agent or "all"),
        ("subject", said.subject),
        ("payload", _text(said.payload)),
        ("priority", _NAMES.get(said.priority, str(said.priority))),
        ("correlation", said.correlation_id or ""),
        ("stored", clock_time(details.stored_at)),
        ("state", details.state),
        ("deliveries", str(details.attempts or "")),
        ("waits for it", details.waiter or ""),
        ("asked in", details.asked_in or ""),
        ("answered in", details.answered_in or ""),
        ("ended", "" if details.ended_at is None else clock_time(details.ended_at)),
        ("answer", _text(details.answer)),
        ("code", details.error_code or ""),
        ("error", details.error or ""),
    ]
    print_pairs([(name, text) for name, text in pairs if text])


def answer_text(details: MessageDetails) -> str:
    """The answer, as text."""
    return _text(details.answer)


def _message_row(details: MessageDetails) -> tuple[Cell, ...]:
    said = details.message
    return (
        Id(said.id),
        Moment(details.stored_at),
        said.type,
        said.from_agent,
        said.to_agent or "all",
        details.state,
        said.subject,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else dumps(value)
