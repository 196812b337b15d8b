"""The lines of JSON that both processes exchange; docs/frameworks.md has the format."""

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
"""The maximum length of a line in bytes; checkpoints may be large."""
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
"""The only key of the object for a `CheckpointDelta`."""
_NAMES = {part: name for name, part in _PARTS.items()}
_TURN_FIELDS = [each.name for each in fields(ForeignTurn) if each.name not in ("link", "handed")]


def turn_to_json(turn: ForeignTurn) -> dict[str, Any]:
    """The line that starts a turn."""
    values = {name: getattr(turn, name) for name in _TURN_FIELDS}
    values["items"] = list(turn.items)
    values["answers"] = {name: asdict(each) for name, each in turn.answers.items()}
    values["messages"] = turn.messages()
    return {"type": "turn", **values}


def turn_from_json(data: Mapping[str, Any], link: TurnLink) -> ForeignTurn:
    """The inverse of `turn_to_json`."""
    values = {name: data[name] for name in _TURN_FIELDS}
    values["answers"] = {name: PersonAnswer(**each) for name, each in values["answers"].items()}
    return ForeignTurn(**values, link=link)


def part_to_json(part: TurnPart) -> dict[str, Any]:
    """The line of a part."""
    values = {each.name: getattr(part, each.name) for each in fields(part)}
    for name, value in values.items():
        if isinstance(value, CheckpointDelta):
            values[name] = {_DELTA: value.added}
    if isinstance(part, TurnUsage):
        values = {**part.usage.to_json(), "model": part.model}
    return {"type": _NAMES[type(part)], **values}


def part_from_json(data: Any) -> TurnPart:
    """The part of a line. Raises `RuntimeError` for a line that is not a part."""
    kind = _PARTS.get(str(data.get("type"))) if isinstance(data, dict) else None
    if kind is None:
        raise RuntimeError(
            f"not a line of a turn: {data!r:.200}; types: {', '.join(sorted(_PARTS))}"
        )
    values = {name: value for name, value in data.items() if name != "type"}
    for name in ("checkpoint", "data"):
        if isinstance(values.get(name), dict) and _DELTA in values[name]:
            values[name] = CheckpointDelta(values[name][_DELTA])
    try:
        if kind is TurnUsage:
            model = values.pop("model", None)
            return TurnUsage(usage=Usage.from_json(values), model=model)
        if kind is TurnQuestion:
            values["options"] = tuple(values.get("options", ()))
        part: TurnPart = kind(**values)
    except (TypeError, ValueError) as exc:
        raise RuntimeError(f"the line of type {data['type']!r} cannot be read: {exc}") from exc
    return part
