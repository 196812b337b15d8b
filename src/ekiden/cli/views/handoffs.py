"""Handoffs, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.api.handoffs import HandoffDetails, HandoffSummary
from ekiden.cli.terminal.output import say
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
from ekiden.core.values import dumps


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


def why(record: HandoffSummary) -> str:
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
        ("moves", "\n".join(f"{clock_time(move.at)} {move.status}" for move in details.moves)),
        ("by", str(details.by)),
        ("policy", details.policy),
        ("request", details.request),
        *((name, _text(value)) for name, value in details.words.items()),
        ("trigger", _trigger(details.trigger)),
        ("condition", _evaluation(details.evaluation)),
        ("code", details.code),
        ("error", details.error),
        ("undone", ", ".join(details.compensated or ())),
        ("not undone", ", ".join(details.not_compensated or ())),
        ("failed tries", str(details.compensations_failed or "")),
        ("has it now", details.agent),
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
    facts = [f"{name}: {_text(value)}" for name, value in trigger.items() if name != "evaluation"]
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


def _text(value: object) -> str:
    return value if isinstance(value, str) else dumps(value)
