"""Messages between agents as people see them."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.api.messages import MessageDetails
from ekiden.cli.output import emit, note, say
from ekiden.cli.tables import clock_time, print_pairs, print_table
from ekiden.core.conversation.messages import PRIORITIES
from ekiden.core.values.documents import to_json
from ekiden.core.values.jsonio import dumps

_NAMES = {number: name for name, number in PRIORITIES.items()}


def print_messages(
    messages: Sequence[MessageDetails], *, next_cursor: str | None, as_json: bool
) -> None:
    """One page of messages, with the cursor of the next one on standard error."""
    if as_json:
        emit(to_json(messages))
    elif messages:
        print_table(
            ("message", "time", "type", "from", "to", "state", "subject"),
            [_row(each) for each in messages],
        )
    else:
        say("no messages")
    if next_cursor is not None:
        note(dumps({"next_cursor": next_cursor}) if as_json else f"more: --cursor {next_cursor}")


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
    """What was answered, as text."""
    return _text(details.answer)


def _row(details: MessageDetails) -> tuple[str, ...]:
    said = details.message
    return (
        said.id,
        clock_time(details.stored_at),
        said.type,
        said.from_agent,
        said.to_agent or "all",
        details.state,
        said.subject,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else dumps(value)
