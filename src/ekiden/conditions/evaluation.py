"""What a condition gave, and how it came to that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ekiden.conditions.nodes import (
    Call,
    Comparison,
    Constant,
    Exists,
    Logic,
    Name,
    Node,
    Not,
)
from ekiden.conditions.program import UNSEEN
from ekiden.conditions.values import (
    MAX_LINE,
    UNCHANGING,
    NoValue,
    is_true,
    line,
    short_text,
    shortened,
)
from ekiden.core.values import dumps

_MAX_ENTRIES: Final = 40
"""So many parts are put into an event."""
_MAX_EXPLANATION: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The value of one part of a condition."""

    text: str
    """The part as it is written."""
    value: Any
    """JSON; long texts and structures are shortened, and no value is null."""
    start: int
    end: int
    """The end of the part in the condition, in characters."""
    note: str = ""
    """Why it has no value, or is false without a comparison: ``missing: user.tier``."""

    def to_json(self) -> dict[str, Any]:
        """The part for an event; a value that is still long becomes the start of its JSON."""
        written = dumps(self.value)
        shown = {
            "text": short_text(self.text),
            "value": self.value if len(written) <= MAX_LINE else short_text(written, MAX_LINE),
            "start": self.start,
            "end": self.end,
        }
        return {**shown, "note": short_text(self.note)} if self.note else shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionSource:
    """What was read of a condition's text."""

    text: str
    root: Node
    parts: tuple[Node, ...]
    """All parts that have a place on the trace, in the order of the text."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The result of a condition for some facts; later changes of the facts do not affect the
    trace."""

    value: bool
    """Whether the condition holds."""
    result: Any
    """The value of the whole expression, unchanged; `None` if it has no value."""
    _source: ConditionSource = field(repr=False)
    _seen: Sequence[Any] = field(repr=False)

    @property
    def text(self) -> str:
        """The condition."""
        return self._source.text

    @property
    def trace(self) -> tuple[Trace, ...]:
        """One entry for every part that was evaluated, in the order of the text.

        A whole comes before its parts; literals have no entry, and neither have skipped parts, such
        as the second in ``false and x``.
        """
        return tuple(self._entries())

    @property
    def missing(self) -> tuple[str, ...]:
        """The dotted names that were needed but are not among the facts."""
        names = {
            seen.name: None
            for part, seen in zip(self._source.parts, self._seen, strict=True)
            if isinstance(part, Name) and type(seen) is NoValue and seen.name is not None
        }
        return tuple(names)

    def to_json(self) -> dict[str, Any]:
        """Everything for an event, as JSON of at most some 25,000 characters."""
        trace = self.trace
        shown: dict[str, Any] = {
            "text": self.text,
            "value": self.value,
            "trace": [entry.to_json() for entry in trace[:_MAX_ENTRIES]],
            "missing": [short_text(name) for name in self.missing[:_MAX_ENTRIES]],
        }
        left_out = len(trace) - _MAX_ENTRIES
        return {**shown, "left_out": left_out} if left_out > 0 else shown

    def explain(self) -> str:
        """One line for people: each decided part, with its values and result.

        Such as ``confidence < 0.5 → 0.3 < 0.5 → true; error_count > 3 → 1 > 3 → false``.
        """
        decided = list(_decisions(self._source.root))
        parts = [part for part in decided if not isinstance(part, Constant)] or decided
        said = [self._explained(part) for part in parts if self._was_seen(part)]
        return short_text("; ".join(said or [self._explained(self._source.root)]), _MAX_EXPLANATION)

    def _entries(self) -> Iterator[Trace]:
        for part, seen in zip(self._source.parts, self._seen, strict=True):
            if seen is not UNSEEN:
                yield Trace(
                    text=self._written(part),
                    value=_shown(part, seen),
                    start=part.start,
                    end=part.end,
                    note=seen.reason if type(seen) is NoValue else "",
                )

    def _written(self, part: Node) -> str:
        return self.text[part.start : part.end]

    def _of(self, part: Node) -> Any:
        if isinstance(part, Constant):
            return part.value
        return next(
            seen for each, seen in zip(self._source.parts, self._seen, strict=True) if each is part
        )

    def _was_seen(self, part: Node) -> bool:
        return self._of(part) is not UNSEEN

    def _explained(self, part: Node) -> str:
        seen = self._of(part)
        truth = "true" if is_true(seen) else "false"
        steps = [_one_line(self._written(part))]
        for step in (self._with_values(part), truth):
            if step != steps[-1]:
                steps.append(step)
        if len(steps) == 1:
            steps.append(truth)
        note = f" ({seen.reason})" if type(seen) is NoValue and seen.name is None else ""
        return " → ".join(steps) + note

    def _with_values(self, part: Node) -> str:
        """The part with values in the place of its operands."""
        match part:
            case Comparison(operands=operands, symbols=symbols):
                said = [self._value(operands[0])]
                for symbol, operand in zip(symbols, operands[1:], strict=True):
                    said += [symbol, self._value(operand)]
                return " ".join(said)
            case Not(operand=operand):
                return f"not {self._value(operand)}"
            case Call(predicate=True, function=function, arguments=arguments):
                inside = [self._value(argument) for argument in arguments]
                more = ", …" if function == "matches" else ""
                return f"{function}({', '.join(inside)}{more})"
            case _:
                return self._value(part)

    def _value(self, part: Node) -> str:
        seen = self._of(part)
        if seen is UNSEEN:
            return "…"
        if isinstance(part, Constant):
            return _one_line(self._written(part))
        if type(seen) is NoValue and not _is_decision(part):
            return "missing" if seen.name is not None else "no value"
        return line(_shown(part, seen))


def _decisions(node: Node) -> Iterator[Node]:
    """The largest parts that are not made of others by ``and``, ``or`` and ``not``."""
    match node:
        case Logic(parts=parts):
            for part in parts:
                yield from _decisions(part)
        case Not(operand=Logic() | Not() as operand):
            yield from _decisions(operand)
        case _:
            yield node


def _is_decision(part: Node) -> bool:
    return isinstance(part, Comparison | Exists) or (isinstance(part, Call) and part.predicate)


def _shown(part: Node, seen: Any) -> Any:
    if type(seen) is NoValue:
        return False if _is_decision(part) else None
    return shortened(seen) if type(seen) in UNCHANGING else seen


def _one_line(text: str) -> str:
    return short_text(" ".join(text.split()))
