"""The kinds of values that a key may have.

Each kind reads a node, reporting whatever is wrong with it, and says in JSON Schema what it
takes: what the schema tells an editor is what the reader accepts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ekiden.agents import nodes
from ekiden.agents.nodes import Node, Scalar, value_of
from ekiden.agents.report import Report, shown
from ekiden.agents.written import WrittenCondition
from ekiden.core.suggest import suggestion

INVALID: Final = object()
"""Given instead of a value after the fault was reported."""

_BAD_CHARACTER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters can take over a terminal, and lone surrogates cannot be stored."""


class Kind(Protocol):
    """What a value may be."""

    def read(self, node: Node, at: str, report: Report) -> Any:
        """The value of the key `at`, or `INVALID` after telling the report why."""
        ...

    def schema(self) -> dict[str, Any]:
        """The same in JSON Schema 2020-12."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text that is not empty."""

    wanted: str = "a text"
    strip: bool = True
    """Whether white space around it is left out."""
    max_length: int | None = None
    check: Callable[[str], str | None] | None = None
    """What is wrong with a text and what to write instead; `None` if nothing is."""
    code: str = "bad_value"
    """The problem's code for what `check` finds."""
    in_schema: Mapping[str, Any] = field(default_factory=dict)

    def read(self, node: Node, at: str, report: Report) -> Any:
        if not isinstance(node, Scalar) or not isinstance(value_of(node), str):
            return wrong_type(node, at, self.wanted, report)
        text = node.text.strip() if self.strip else node.text
        fault = self._fault(text)
        if fault is not None:
            code, words = fault
            report.error(node, code, f"`{at}` is {shown(text)}: {words}")
            return INVALID
        return text

    def _fault(self, text: str) -> tuple[str, str] | None:
        if not text.strip():
            return "empty_value", f"write {self.wanted}, or leave it out"
        if self.max_length is not None and len(text) > self.max_length:
            return "too_long", f"it has {len(text)} characters, at most {self.max_length} are taken"
        bad = _BAD_CHARACTER.search(text)
        if bad is not None:
            return "bad_character", f"leave out the character U+{ord(bad.group()):04X}"
        if self.check is not None and (words := self.check(text)) is not None:
            return self.code, words
        return None

    def schema(self) -> dict[str, Any]:
        length = {} if self.max_length is None else {"maxLength": self.max_length}
        blank = {} if "pattern" in self.in_schema else {"pattern": r"\S"}
        return {"type": "string", "minLength": 1, **length, **blank, **self.in_schema}


@dataclass(frozen=True, slots=True)
class ConditionText:
    """A condition, which is kept in the report with its place: whoever makes the team reads it."""

    text: Text = Text(wanted="a condition, as a text such as error_count > 3")

    def read(self, node: Node, at: str, report: Report) -> Any:
        value = self.text.read(node, at, report)
        if value is not INVALID:
            report.conditions.append(
                WrittenCondition(
                    at=at, text=value, line=node.line, column=node.column, front=report.front
                )
            )
        return value

    def schema(self) -> dict[str, Any]:
        return self.text.schema()


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    def read(self, node: Node, at: str, report: Report) -> Any:
        listed = ", ".join(self.words)
        if not isinstance(node, Scalar) or value_of(node) is None:
            return wrong_type(node, at, f"one of {listed}", report)
        if node.text not in self.words:
            report.error(
                node,
                "unknown_value",
                f"`{at}` is {shown(node.text)}, known: {listed}{suggestion(node.text, self.words)}",
            )
            return INVALID
        return node.text

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def read(self, node: Node, at: str, report: Report) -> Any:
        value = value_of(node) if isinstance(node, Scalar) else None
        if not isinstance(value, bool):
            return wrong_type(node, at, "true or false", report)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class FlagOrWord:
    """True, false or a word."""

    word: str

    def read(self, node: Node, at: str, report: Report) -> Any:
        value = value_of(node) if isinstance(node, Scalar) else None
        if isinstance(value, bool) or value == self.word:
            return value
        return wrong_type(node, at, f"true, false or {self.word}", report)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, {"enum": [self.word]}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A finite number from `low` to `high`."""

    low: float
    high: float
    above_low: bool = False
    """`low` itself is not taken."""
    whole: bool = False

    def read(self, node: Node, at: str, report: Report) -> Any:
        value = value_of(node) if isinstance(node, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return wrong_type(node, at, self._wanted, report)
        if isinstance(value, float) and not math.isfinite(value):
            return wrong_type(node, at, self._wanted, report)
        if self.whole and value != int(value):
            return wrong_type(node, at, self._wanted, report)
        if not self.low <= value <= self.high or (self.above_low and value == self.low):
            report.error(
                node, "out_of_range", f"`{at}` is {shown_number(value)}; write {self._wanted}"
            )
            return INVALID
        return int(value) if self.whole else float(value)

    @property
    def _wanted(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        if self.above_low:
            return f"{kind} above {self.low:g}, at most {self.high:,.0f}"
        return f"{kind} from {self.low:g} to {self.high:g}"

    def schema(self) -> dict[str, Any]:
        low = "exclusiveMinimum" if self.above_low else "minimum"
        kind = "integer" if self.whole else "number"
        return {"type": kind, low: self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class AnyMapping:
    """A mapping whose content is JSON and is checked by somebody else."""

    wanted: str

    def read(self, node: Node, at: str, report: Report) -> Any:
        if not isinstance(node, nodes.Mapping):
            return wrong_type(node, at, self.wanted, report)
        return _plain(node, at, report)

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}


def _plain(node: Node, at: str, report: Report) -> Any:
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


def _plain_scalar(node: Scalar, at: str, report: Report) -> Any:
    value = value_of(node)
    if isinstance(value, float) and not math.isfinite(value):
        report.error(node, "wrong_type", f"`{at}` has {node.text}, which JSON cannot say")
        return INVALID
    bad = _BAD_CHARACTER.search(node.text)
    if bad is not None:
        words = f"`{at}` has the character U+{ord(bad.group()):04X}; leave it out"
        report.error(node, "bad_character", words)
        return INVALID
    return value


def duplicate_key(key: Scalar, at: str, first: Scalar | None, report: Report) -> None:
    """Report a key that is there a second time."""
    where = "above" if first is None else f"in line {first.line}"
    inside = f" of `{at}`" if at else ""
    report.error(
        key,
        "duplicate_key",
        f"the key {shown(key.text)}{inside} is already {where}; leave one of them out",
    )


def wrong_type(node: Node, at: str, wanted: str, report: Report) -> Any:
    """Report that a value is of another kind than `wanted`; gives `INVALID`."""
    value = value_of(node) if isinstance(node, Scalar) else None
    if isinstance(node, Scalar) and value is None:
        report.error(
            node, "wrong_type", f"`{at}` has no value; write {wanted}, or leave the key out"
        )
        return INVALID
    quotes = ""
    if isinstance(node, Scalar) and not isinstance(value, str) and "text" in wanted:
        quotes = f'; if this is the text, put it in quotes: "{node.text[:40]}"'
    report.error(node, "wrong_type", f"`{at}` is {described(node)}; write {wanted}{quotes}")
    return INVALID


def described(node: Node) -> str:
    """What was found, in words."""
    if isinstance(node, nodes.Sequence):
        return "a list"
    if isinstance(node, nodes.Mapping):
        return "a mapping"
    value = value_of(node)
    if isinstance(value, str):
        return f"the text {shown(value)}"
    if isinstance(value, bool):
        return f"the truth value {node.text}"
    return "nothing" if value is None else f"the number {node.text[:40]}"


def shown_number(value: float) -> str:
    """A number, shortened."""
    if abs(value) < 1e15:
        return str(value)
    return f"{float(value):g}" if abs(value) < 1e308 else "beyond all bounds"
