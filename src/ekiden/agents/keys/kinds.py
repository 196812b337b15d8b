"""How the values of keys are read from a file: each with its place, and all faults reported."""

from __future__ import annotations

import math
from typing import Any, Final, Protocol, TypeAlias

from ekiden.agents.checks import ProblemReport, shown
from ekiden.agents.definition import WrittenCondition
from ekiden.agents.yaml import nodes
from ekiden.agents.yaml.nodes import Node, Scalar, value_of
from ekiden.core.checks.kinds import Choice, Flag, FlagOrWord, Number, RefusedValue, Text, wrong
from ekiden.core.dataclass import dataclass

INVALID: Final = object()
"""Given instead of a value after the fault was reported."""
_ANY_TEXT: Final = Text()


class NodeKind(Protocol):
    """What is more than a single value, or needs its place."""

    def read(self, node: Node, at: str, report: ProblemReport) -> Any:
        """The value of the key `at`, or `INVALID` after telling the report why."""
        ...

    def schema(self) -> dict[str, Any]:
        """The same in JSON Schema 2020-12."""
        ...


Kind: TypeAlias = Text | Number | Choice | Flag | FlagOrWord | NodeKind
"""What stands at a key: a single value, or something that reads its node itself."""
_SINGLE = (Text, Number, Choice, Flag, FlagOrWord)


def read(kind: Kind, node: Node, at: str, report: ProblemReport) -> Any:
    """The value of the key `at`, or `INVALID` after telling the report why."""
    if not isinstance(kind, _SINGLE):
        return kind.read(node, at, report)
    try:
        return kind.read(plain_value(node))
    except RefusedValue as exc:
        quotes = _quotes(node) if isinstance(kind, Text) else ""
        report.error(node, exc.code, f"`{at}` {exc}{quotes}")
        return INVALID


def _quotes(node: Node) -> str:
    """For a number or `true` where a text belongs."""
    if not isinstance(node, Scalar) or isinstance(value_of(node), str | None):
        return ""
    return f'; if this is the text, put it in quotes: "{node.text[:40]}"'


@dataclass(frozen=True, slots=True)
class ConditionText:
    """A condition, which is kept in the report with its place: the team's loader parses it."""

    what: str = "a condition, as a text such as error_count > 3"

    def read(self, node: Node, at: str, report: ProblemReport) -> Any:
        value = read(Text(what=self.what), node, at, report)
        if value is not INVALID:
            report.conditions.append(
                WrittenCondition(
                    at=at, text=value, line=node.line, column=node.column, front=report.front
                )
            )
        return value

    def schema(self) -> dict[str, Any]:
        return _ANY_TEXT.schema()


@dataclass(frozen=True, slots=True)
class AnyMapping:
    """A mapping whose content is JSON and is checked later."""

    expects: str

    def read(self, node: Node, at: str, report: ProblemReport) -> Any:
        if not isinstance(node, nodes.Mapping):
            return wrong_type(node, at, self.expects, report)
        return _plain(node, at, report)

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}


def _plain(node: Node, at: str, report: ProblemReport) -> Any:
    """The node as JSON values."""
    if isinstance(node, Scalar):
        return _plain_scalar(node, at, report)
    if isinstance(node, nodes.Sequence):
        return [_plain(item, f"{at}[{index}]", report) for index, item in enumerate(node.items)]
    made: dict[str, Any] = {}
    for key, inner in node.entries:
        if _plain_scalar(key, at, report) is INVALID:
            continue
        if key.text in made:
            duplicate_key(key, at, None, report)
            continue
        made[key.text] = _plain(inner, f"{at}.{key.text}"[:200], report)
    return made


def _plain_scalar(node: Scalar, at: str, report: ProblemReport) -> Any:
    value = value_of(node)
    if isinstance(value, float) and not math.isfinite(value):
        report.error(node, "wrong_type", f"`{at}` has {node.text}, which JSON cannot express")
        return INVALID
    if not node.text.strip():
        return value
    try:
        _ANY_TEXT.read(node.text)
    except RefusedValue as exc:
        report.error(node, exc.code, f"`{at}` {exc}")
        return INVALID
    return value


def duplicate_key(key: Scalar, at: str, first: Scalar | None, report: ProblemReport) -> None:
    """Report a key that is there a second time."""
    where = "above" if first is None else f"in line {first.line}"
    inside = f" of `{at}`" if at else ""
    report.error(
        key,
        "duplicate_key",
        f"the key {shown(key.text)}{inside} is already {where}; leave one of them out",
    )


def wrong_type(node: Node, at: str, expects: str, report: ProblemReport) -> Any:
    """Report that a value is of another kind than is expected; gives `INVALID`."""
    report.error(node, "wrong_type", f"`{at}` {wrong(expects, plain_value(node))}")
    return INVALID


def plain_value(node: Node) -> object:
    """A single value as it is; of lists and mappings only what they are."""
    if isinstance(node, Scalar):
        return value_of(node)
    return [] if isinstance(node, nodes.Sequence) else {}
