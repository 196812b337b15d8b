"""The lines of JSON that a turn is told in; docs/frameworks.md has the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from ekiden.core.conversation.model import Usage
from ekiden.core.integrations.foreign_agents import (
    CheckpointDelta,
    ForeignTurn,
    PersonAnswer,
    TurnAnswer,
    TurnCheckpoint,
    TurnDelta,
    TurnHandoff,
    TurnLink,
    TurnPart,
    TurnQuestion,
    TurnToolCall,
    TurnToolResult,
    TurnUsage,
)

LONGEST = 1 << 26
"""Bytes of a line: checkpoints may be large."""
_PARTS: Mapping[str, type[Any]] = {
    "answer": TurnAnswer,
    "checkpoint": TurnCheckpoint,
    "delta": TurnDelta,
    "handoff": TurnHandoff,
    "question": TurnQuestion,
    "tool_call": TurnToolCall,
    "tool_result": TurnToolResult,
    "usage": TurnUsage,
}
_DELTA = "checkpoint.added"
"""The key of a mapping that stands for a `CheckpointDelta`."""
_NAMES = {part: name for name, part in _PARTS.items()}
_OF_TURN = [each.name for each in fields(ForeignTurn) if each.name not in ("link", "handed")]


def turn_to_json(turn: ForeignTurn) -> dict[str, Any]:
    """The line that a turn begins with."""
    told = {name: getattr(turn, name) for name in _OF_TURN}
    told["items"] = list(turn.items)
    told["answers"] = {name: asdict(each) for name, each in turn.answers.items()}
    told["messages"] = turn.messages()
    return {"type": "turn", **told}


def turn_from_json(data: Mapping[str, Any], link: TurnLink) -> ForeignTurn:
    """The inverse of `turn_to_json`."""
    told = {name: data[name] for name in _OF_TURN}
    told["answers"] = {name: PersonAnswer(**each) for name, each in told["answers"].items()}
    return ForeignTurn(**told, link=link)


def part_to_json(part: TurnPart) -> dict[str, Any]:
    """The line of a part."""
    told = {each.name: getattr(part, each.name) for each in fields(part)}
    for name, value in told.items():
        if isinstance(value, CheckpointDelta):
            told[name] = {_DELTA: value.added}
    if isinstance(part, TurnUsage):
        told = {**part.usage.to_json(), "model": part.model}
    return {"type": _NAMES[type(part)], **told}


def part_from_json(data: Any) -> TurnPart:
    """The part that a line tells; `RuntimeError` for a line that tells none."""
    kind = _PARTS.get(str(data.get("type"))) if isinstance(data, dict) else None
    if kind is None:
        raise RuntimeError(
            f"not a line of a turn: {data!r:.200}; types: {', '.join(sorted(_PARTS))}"
        )
    told = {name: value for name, value in data.items() if name != "type"}
    for name in ("checkpoint", "data"):
        if isinstance(told.get(name), dict) and _DELTA in told[name]:
            told[name] = CheckpointDelta(told[name][_DELTA])
    try:
        if kind is TurnUsage:
            model = told.pop("model", None)
            return TurnUsage(usage=Usage.from_json(told), model=model)
        if kind is TurnQuestion:
            told["options"] = tuple(told.get("options", ()))
        part: TurnPart = kind(**told)
    except (TypeError, ValueError) as exc:
        raise RuntimeError(f"the line of type {data['type']!r} cannot be read: {exc}") from exc
    return part
