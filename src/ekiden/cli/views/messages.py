"""Handoffs, messages between agents, and collaborations, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.api.administration import AuditEntry
from ekiden.api.collaborations import CollaborationDetails
from ekiden.api.handoffs import HandoffDetails, HandoffSummary
from ekiden.api.messages import MessageDetails
from ekiden.cli.output import (
    Cell,
    Extra,
    Id,
    Table,
    TimeCell,
    as_text,
    clock_time,
    emit,
    print_pairs,
    print_table,
    say,
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
        ("payload", _text_or_empty(said.payload)),
        ("priority", _NAMES.get(said.priority, str(said.priority))),
        ("correlation", said.correlation_id or ""),
        ("stored", clock_time(details.stored_at)),
        ("state", details.state),
        ("deliveries", str(details.attempts or "")),
        ("waits for it", details.waiter or ""),
        ("asked in", details.asked_in or ""),
        ("answered in", details.answered_in or ""),
        ("ended", "" if details.ended_at is None else clock_time(details.ended_at)),
        ("answer", _text_or_empty(details.answer)),
        ("code", details.error_code or ""),
        ("error", details.error or ""),
    ]
    print_pairs([(name, text) for name, text in pairs if text])


def answer_text(details: MessageDetails) -> str:
    """The answer, as text."""
    return _text_or_empty(details.answer)


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


def handoff_table(records: Sequence[HandoffSummary]) -> Table:
    """Handoffs, one on each line."""
    headers = ("handoff", "time", "from", "to", "status", Extra("by"), Extra("policy"), "why")
    return headers, [_row(record) for record in records]


def print_details(details: HandoffDetails) -> None:
    """Everything about one handoff."""
    print_pairs(_pairs(details))
    if details.view is not None:
        say()
        _print_view(details.view)


def why(record: HandoffSummary | AuditEntry) -> str:
    """The reason or the failure, on one line."""
    parts = (record.code, record.error or record.reason)
    return ": ".join(part for part in parts if part)


def _row(record: HandoffSummary) -> tuple[Cell, ...]:
    return (
        Id(record.id),
        TimeCell(record.started_at),
        record.source,
        record.target,
        record.status,
        str(record.by),
        record.policy,
        why(record),
    )


def _pairs(details: HandoffDetails) -> list[tuple[str, str]]:
    pairs = [
        ("handoff", details.id),
        ("session", details.session_id),
        ("task", details.task_id),
        ("correlation", details.correlation_id),
        ("from", details.source),
        ("to", details.target),
        ("status", details.status),
        ("statuses", "\n".join(f"{clock_time(move.at)} {move.status}" for move in details.moves)),
        ("by", str(details.by)),
        ("policy", details.policy),
        ("request", details.request),
        *((name, as_text(value)) for name, value in details.words.items()),
        ("trigger", _trigger(details.trigger)),
        ("condition", _evaluation(details.evaluation)),
        ("code", details.code),
        ("error", details.error),
        ("undone", ", ".join(details.compensated or ())),
        ("not undone", ", ".join(details.not_compensated or ())),
        ("failed attempts", str(details.compensations_failed or "")),
        ("current agent", details.agent),
        ("audit", "\n".join(details.audit)),
        ("view", _seen(details)),
    ]
    return [(name, text) for name, text in pairs if text]


def _seen(details: HandoffDetails) -> str:
    if details.view is not None:
        return _summary(details.view)
    if details.is_made:
        return f"{details.target} saw everything"
    return ""


def _summary(report: Mapping[str, Any]) -> str:
    after = sum(row["fate"] in ("kept", "changed") for row in report["rows"]) + len(report["new"])
    fates = ", ".join(f"{count} {fate}" for fate, count in report["counts"].items() if count)
    return (
        f"{len(report['rows'])} items of {report['chars_before']} characters became {after} of "
        f"{report['chars_after']}: {fates or 'no items'}"
    )


def _print_view(report: Mapping[str, Any]) -> None:
    rows: list[tuple[str, ...]] = [
        (
            str(row["index"] + 1),
            row["fate"],
            "" if row["into"] is None else str(row["into"] + 1),
            str(row["chars"]),
            str(row["chars_after"]),
            row["label"],
        )
        for row in report["rows"]
    ]
    rows += [
        ("", f"new: {row['kind']}", str(row["index"] + 1), "", str(row["chars"]), row["label"])
        for row in report["new"]
    ]
    print_table(("before", "fate", "after", "chars", "now", "item"), rows)


def _trigger(trigger: Mapping[str, Any] | None) -> str:
    """Why a trigger fired, with the value of each part of its condition."""
    if trigger is None:
        return ""
    facts = [f"{name}: {as_text(value)}" for name, value in trigger.items() if name != "evaluation"]
    return "\n".join([*facts, *filter(None, [_evaluation(trigger.get("evaluation"))])])


def _evaluation(evaluation: Mapping[str, Any] | None) -> str:
    """A condition with its value, and its parts below."""
    if not evaluation:
        return ""
    lines = [f"{_one_line(evaluation.get('text'))} → {dumps(evaluation.get('value'))}"]
    for part in evaluation.get("trace", ()):
        remark = f" ({_one_line(part['note'])})" if part.get("note") else ""
        lines.append(f"{_one_line(part.get('text'))} → {dumps(part.get('value'))}{remark}")
    if left_out := evaluation.get("left_out"):
        lines.append(f"… and {left_out} more parts")
    return "\n".join(lines)


def _one_line(value: object) -> str:
    return " ".join(str(value).split())


def _text_or_empty(value: object) -> str:
    return "" if value is None else as_text(value)
