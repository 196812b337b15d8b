"""Reads and checks the values of keys, and reports all faults with their places.

A function `…_fault` checks one text. It returns an error message with a suggestion, or `None` for a
valid text. It does not check whether a named agent exists.
"""

from __future__ import annotations

import math
import unicodedata
from typing import Any, Final, Protocol, TypeAlias

from ekiden.agents import yaml_nodes as nodes
from ekiden.agents.definition import PERSON, ProblemReport, WrittenCondition, shown
from ekiden.agents.yaml_nodes import Node, Scalar, value_of
from ekiden.core.checks.kinds import Choice, Flag, FlagOrWord, Number, RefusedValue, Text, wrong
from ekiden.core.dataclass import dataclass
from ekiden.core.text.wording import (
    INHERIT,
    MAX_NAME,
    full_model_name,
    is_slug,
    lazy_pattern,
    slug_of,
)

INVALID: Final = object()
"""The result for an invalid value, whose fault was reported."""
_ANY_TEXT: Final = Text()
_NOT_IN_ROLES = ("Cc", "Zl", "Zp")
_MODEL = lazy_pattern(r"[^\s:]+:\S(?:.*\S)?")
_FUNCTION = lazy_pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_FILTER = lazy_pattern(r"[A-Za-z_]\w*(?:\([^()]*\))?")
_PLACEHOLDER = lazy_pattern(r"\{(?:tool_name|tool_args)\}")


class NodeKind(Protocol):
    """The kind of a value that is not a single text, number or flag, or that needs its place."""

    def read(self, node: Node, at: str, report: ProblemReport) -> Any:
        """Return the parsed value of the key `at`. If the value is invalid, report the fault and
        return `INVALID`."""
        ...

    def schema(self) -> dict[str, Any]:
        """The JSON Schema (2020-12) of the value."""
        ...


Kind: TypeAlias = Text | Number | Choice | Flag | FlagOrWord | NodeKind
"""The kind of a key's value."""
_SINGLE = (Text, Number, Choice, Flag, FlagOrWord)


def read(kind: Kind, node: Node, at: str, report: ProblemReport) -> Any:
    """Return the parsed value of the key `at`. If the value is invalid, report the fault and return
    `INVALID`."""
    if not isinstance(kind, _SINGLE):
        return kind.read(node, at, report)
    try:
        return kind.read(plain_value(node))
    except RefusedValue as exc:
        quotes = _quotes(node) if isinstance(kind, Text) else ""
        report.error(node, exc.code, f"`{at}` {exc}{quotes}")
        return INVALID


def _quotes(node: Node) -> str:
    """The advice to use quotes, if the value is a number or a flag."""
    if not isinstance(node, Scalar) or isinstance(value_of(node), str | None):
        return ""
    return f'; if this is the text, put it in quotes: "{node.text[:40]}"'


@dataclass(frozen=True, slots=True)
class ConditionText:
    """A condition. It is added to the report with its place, and the loader of the team parses it
    later."""

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
    """Report a repeated key. `first` is the first occurrence of the key, if it is known."""
    where = "above" if first is None else f"in line {first.line}"
    inside = f" of `{at}`" if at else ""
    report.error(
        key,
        "duplicate_key",
        f"the key {shown(key.text)}{inside} is already {where}; leave one of them out",
    )


def wrong_type(node: Node, at: str, expects: str, report: ProblemReport) -> Any:
    """Report that a value has the wrong type, and return `INVALID`."""
    report.error(node, "wrong_type", f"`{at}` {wrong(expects, plain_value(node))}")
    return INVALID


def plain_value(node: Node) -> object:
    """The value of a scalar. A list or a mapping is replaced by an empty one, which is enough to
    name its type."""
    if isinstance(node, Scalar):
        return value_of(node)
    return [] if isinstance(node, nodes.Sequence) else {}


def target_fault(text: str) -> str | None:
    """The fault of a handoff target, or `None`."""
    if not text.startswith(PERSON):
        return None
    role = text.removeprefix(PERSON)
    if len(role) > MAX_NAME:
        return f"a role has at most {MAX_NAME} characters, not {len(role)}"
    if role and is_slug(role):
        return None
    slug = slug_of(role) or "support"
    return (
        "write a role of letters, digits, - and _, which begins with a letter or digit, as "
        f"{PERSON}{slug}"
    )


def peer_fault(text: str) -> str | None:
    """The fault of an agent name in `can_ask` or `can_tell`, or `None`."""
    if text.startswith(PERSON):
        return f"people are asked with can_ask_people: [{text.removeprefix(PERSON).strip()[:40]}]"
    return None


def member_fault(text: str) -> str | None:
    """The fault of an agent name in `supervisor`, or `None`."""
    if text.startswith(PERSON):
        return "tasks go to agents; an agent that asks people can be one of them"
    return None


def role_fault(text: str) -> str | None:
    """The fault of a role in `can_ask_people`, or `None`."""
    if text.startswith(PERSON):
        return f"write the role alone, as {text.removeprefix(PERSON).strip()[:40] or 'support'}"
    if any(unicodedata.category(each) in _NOT_IN_ROLES for each in text):
        return "a role is one line, without tabs"
    return None


def short_target_fault(text: str) -> str | None:
    """The fault of a handoff target that is written as a text, without other keys, or `None`."""
    if text == "*":
        return 'say what the agent must be able to do: {to: "*", capabilities: [python]}'
    return target_fault(text)


def function_fault(text: str) -> str | None:
    """The fault of a function name, or `None`."""
    if _FUNCTION.fullmatch(text):
        return None
    return "name a function as module:function, such as checks.totals:is_balanced"


def model_fault(text: str) -> str | None:
    """The fault of a model name, or `None`."""
    if text == INHERIT or full_model_name(text) or _MODEL.fullmatch(text):
        return None
    return "write provider:model, such as openai:gpt-5-mini, or leave it out for the team's model"


def model_of(text: str | None) -> str | None:
    """The model as ``provider:model``. `None` means the model of the team."""
    return None if text is None or text == INHERIT else full_model_name(text) or text


def filter_fault(text: str) -> str | None:
    """The fault of a filter with its argument, or `None`."""
    if _FILTER.fullmatch(text):
        return None
    return "write the name of a filter, such as remove_all_tools or keep_last(20)"


def template_fault(text: str) -> str | None:
    """The fault in the text of an approval question, or `None`."""
    rest = _PLACEHOLDER.sub("", text)
    if "{" not in rest and "}" not in rest:
        return None
    return "only {tool_name} and {tool_args} are filled in; leave other { and } out"
