"""Messages between agents and their collaborations, for people."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.api.collaborations import CollaborationDetails
from ekiden.api.messages import MessageDetails
from ekiden.cli.terminal.output import emit, say
from ekiden.cli.terminal.tables import (
    Cell,
    Extra,
    Id,
    Table,
    TimeCell,
    clock_time,
    print_pairs,
    print_table,
)
from ekiden.core.documents import to_json
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
        TimeCell(details.stored_at),
        said.type,
        said.from_agent,
        said.to_agent or "all",
        details.state,
        said.subject,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else dumps(value)


def collaboration_table(found: Sequence[CollaborationDetails]) -> Table:
    """Collaborations, one on each line."""
    names = ("initiator", "partner", "phase", "outcome")
    headers = ("collaboration", "time", Extra("pattern"), *names)
    return headers, [_collaboration_row(each) for each in found]


def print_collaboration(found: CollaborationDetails) -> None:
    """Everything about one, with its messages."""
    terms, agreed, outcome = found.terms, found.agreed, found.outcome
    pairs = [
        ("collaboration", found.id),
        ("pattern", found.pattern),
        ("initiator", found.initiator),
        ("participants", ", ".join(found.participants)),
        ("partner", found.partner or ""),
        ("phase", found.phase),
        ("begun", clock_time(found.created_at)),
        ("deadline", clock_time(found.deadline_us / 1e6)),
        ("terms", "" if terms is None else f"{terms.version} by {terms.by}: {dumps(terms.body)}"),
        ("accepted by", ", ".join(found.accepted_by)),
        ("bids", "\n".join(f"{bid.agent} {bid.score:g} ({bid.state})" for bid in found.bids)),
        ("declined", ", ".join(found.declined)),
        ("agreed by", "" if agreed is None else ", ".join(agreed.by)),
        ("context", dumps(found.context) if found.context else ""),
        ("outcome", "" if outcome is None else outcome.status),
        ("why", "" if outcome is None else outcome.reason),
    ]
    print_pairs([(name, text) for name, text in pairs if text])
    say()
    print_table(
        ("time", "by", "move", "to"),
        [(clock_time(m.created_at), m.by, m.move, m.to or "all") for m in found.messages],
    )


def print_move(found: CollaborationDetails, *, as_json: bool) -> None:
    """The state after a move."""
    if as_json:
        emit(to_json(found))
        return
    outcome = "" if found.outcome is None else f", {found.outcome.status}"
    table = "" if found.terms is None else f", terms {found.terms.version} by {found.terms.by}"
    say(f"{found.id}: {found.phase}{outcome or table}")


def _collaboration_row(found: CollaborationDetails) -> tuple[Cell, ...]:
    return (
        Id(found.id),
        TimeCell(found.created_at),
        found.pattern,
        found.initiator,
        found.partner or "",
        found.phase,
        "" if found.outcome is None else found.outcome.status,
    )
