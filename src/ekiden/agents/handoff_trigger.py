"""`trigger` of a handoff: a mapping whose keys depend on its type, or a condition alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ekiden.agents import nodes
from ekiden.agents.kinds import INVALID, ConditionText
from ekiden.agents.nodes import Node, Scalar
from ekiden.agents.objects import Field, ListOf, Object
from ekiden.agents.report import Report, shown
from ekiden.agents.values import CAPABILITIES, SECONDS
from ekiden.core.handoff_terms import HandoffTrigger
from ekiden.core.kinds import Choice, Number, Text

_TYPES = ("condition", "event", "explicit", "timeout", "error", "capability")
_KEY = {
    "condition": "expression",
    "event": "event",
    "timeout": "seconds",
    "error": "errors",
    "capability": "capabilities",
}
"""The key that belongs to a type; all but `errors` are needed there."""
_TYPE = {key: kind for kind, key in _KEY.items()}
_NEEDED = {kind: key for kind, key in _KEY.items() if key != "errors"}
_MAX_PRIORITY = 1_000

_FIELDS = (
    Field(
        name="type",
        kind=Choice(_TYPES),
        text="What it waits for; explicit: for nothing, only a person or program makes it.",
        required=True,
        example="condition",
    ),
    Field(
        name="expression",
        kind=ConditionText(),
        text="condition: fires when this holds.",
        example="error_count > 3",
    ),
    Field(
        name="event",
        kind=Text(what="the name of an event, as a text", max_length=200),
        text="event: fires when somebody publishes this.",
        example="deploy.failed",
    ),
    Field(
        name="seconds",
        kind=SECONDS,
        text="timeout: fires after so many seconds of work of the agent.",
        example=60,
    ),
    Field(
        name="errors",
        kind=ListOf(
            item=Text(what="the name of an error, as a text", max_length=200),
            wanted="a list of names, such as [ModelError, tool.failed]",
        ),
        text="error: fires at these errors, by name or code; without it at any.",
        example=["ModelError"],
    ),
    Field(
        name="capabilities",
        kind=CAPABILITIES,
        text="capability: fires when the agent lacks one of these.",
        example=["python"],
    ),
    Field(
        name="priority",
        kind=Number(low=-_MAX_PRIORITY, high=_MAX_PRIORITY, whole=True),
        text="Of several triggers that fire the highest counts, then the first.",
        default=0,
    ),
)


def _rules() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = []
    for kind, key in _KEY.items():
        is_kind = {"properties": {"type": {"enum": [kind]}}}
        rules.append({"anyOf": [{"not": {"required": [key]}}, is_kind]})
        if kind in _NEEDED:
            some = {"minItems": 1} if key == "capabilities" else {}
            needs = {"required": [key], **({"properties": {key: some}} if some else {})}
            rules.append({"anyOf": [{"not": {**is_kind, "required": ["type"]}}, needs]})
    return rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A mapping, or a condition as a text; gives a `HandoffTrigger`."""

    inside: Object
    condition: ConditionText

    def read(self, node: Node, at: str, report: Report) -> Any:
        if isinstance(node, Scalar):
            text = self.condition.read(node, at, report)
            return text if text is INVALID else HandoffTrigger(type="condition", expression=text)
        values = self.inside.read(node, at, report)
        if values is INVALID or not isinstance(node, nodes.Mapping):
            return INVALID
        is_whole = len(values) == len(node.entries)
        if not _fits(node, values, at, report) or not is_whole:
            return INVALID
        return HandoffTrigger(**values)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.inside.schema(), self.condition.schema()]}


def _fits(node: nodes.Mapping, values: Mapping[str, Any], at: str, report: Report) -> bool:
    """Whether the keys are those of its type; those that are not are reported."""
    kind = values.get("type")
    if kind is None:
        return False
    fits = True
    written = {key.text: value for key, value in node.entries}
    for key, _ in node.entries:
        owner = _TYPE.get(key.text)
        if owner is not None and owner != kind:
            whole = shown(f"{at}.{key.text}")
            words = f"there is no key {whole} in a trigger of type {kind}; it belongs to {owner}"
            report.error(key, "unknown_key", words)
            fits = False
    needed = _NEEDED.get(kind)
    if needed is not None and needed not in written:
        words = f"`{at}` is of type {kind} and has no `{needed}`; add it{_example(needed)}"
        report.error(node, "missing_key", words)
        fits = False
    elif needed is not None and values.get(needed) == ():
        words = f"`{at}.{needed}` is empty; write at least one{_example(needed)}"
        report.error(written[needed], "empty_value", words)
        fits = False
    return fits


def _example(name: str) -> str:
    example = next(each.example for each in _FIELDS if each.name == name)
    if isinstance(example, list):
        return f", such as {name}: [{', '.join(example)}]"
    return f", such as {name}: {example}"


TRIGGER = Trigger(
    inside=Object(
        *_FIELDS,
        wanted="a mapping with type and others, or a condition as a text",
        rules=_rules(),
    ),
    condition=ConditionText("a mapping with type and others, or a condition as a text"),
)
