"""Collaborations, for people."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.api.collaborations import CollaborationDetails
from ekiden.cli.output import emit, say
from ekiden.cli.tables import Cell, Extra, Id, Moment, Table, clock_time, print_pairs, print_table
from ekiden.core.documents import to_json
from ekiden.core.values import dumps


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
        Moment(found.created_at),
        found.pattern,
        found.initiator,
        found.partner or "",
        found.phase,
        "" if found.outcome is None else found.outcome.status,
    )
