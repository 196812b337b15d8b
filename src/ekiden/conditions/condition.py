"""Conditions, which are parsed once and evaluated over facts, and traces of their results.

Evaluation never fails. An expression without a value is false, and the trace has the reason:

=============================================  ==========================================
written                                        when the field ``x`` is missing
=============================================  ==========================================
``x``                                          false
``not x``                                      true
``x == 1``, ``x < 1``, ``x in [1]``            false
``x != 1``, ``x not in [1]``, ``x == null``    false, like every comparison with ``x``
``not x == 1``, ``not (x < 1)``                true, as ``not`` turns false into true
``1 in [1, x]``                                true, but ``2 in [1, x]`` and
                                               ``2 not in [1, x]`` are both false
``x + 1``, ``lower(x)``, ``len(x)``            no value, so a comparison with it is false
``contains(x, "a")``, ``startswith(x, "a")``   false
``x or "free"``                                ``"free"``, so ``or`` gives a default
``exists(x)``                                  false
=============================================  ==========================================

So a missing field makes a comparison false, and only ``not`` can turn the result into true. To test
for a field, use ``exists(x)``. These expressions also have no value: NaN, a whole number beyond
2**63, a division by zero, an object that is not JSON, and ``number("abc")``.

=====================================  ==================================================
written                                gives
=====================================  ==================================================
``exists(x)`` where ``x`` is null      true, because ``x`` exists
``null == null``                       true, because null is a value
``"1" == 1``, ``true == 1``            false, because their kinds differ
``"1" != 1``                           true
``"1" < 1``, ``null < 1``, ``[] < 1``  false: "cannot compare text with number"
``true < 2``                           an error; false if ``true`` comes from a fact
``1 == 1.0``, ``[1] == (1.0,)``        true
``"a" * 3``, ``x + "a"``               an error; no value if ``"a"`` comes from a fact
``0``, ``""``, ``[]``, ``null``        false, as in Python; all other values are true
=====================================  ==================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from ekiden.conditions.parser import parse
from ekiden.conditions.program import UNSEEN, Code, ConditionRun, program
from ekiden.conditions.syntax import (
    Comparison,
    Constant,
    Exists,
    FunctionCall,
    Logic,
    Name,
    Node,
    Not,
    fault,
    names_in,
    parts_of,
)
from ekiden.conditions.values import (
    MAX_LINE,
    UNCHANGING,
    NoValue,
    is_true,
    line,
    short_text,
    shortened,
)
from ekiden.core.errors import ConditionError
from ekiden.core.values import dumps

_MAX_ENTRIES: Final = 40
"""Maximum number of parts in an event."""
_MAX_EXPLANATION: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionTrace:
    """The value of one part of a condition."""

    text: str
    """The part as it is written."""
    value: Any
    """The value as JSON. Long texts and structures are shortened. A part without a value has
    null."""
    start: int
    end: int
    """The end of the part in the condition, in characters."""
    note: str = ""
    """Why the part has no value, for example ``missing: user.tier``. Empty if the part has a
    value."""

    def to_json(self) -> dict[str, Any]:
        """The part as JSON, for an event. A long value is replaced by the first characters of its
        JSON text."""
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
    """A parsed condition."""

    text: str
    root: Node
    parts: tuple[Node, ...]
    """All parts that the trace records, in the order of the text."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The result of a condition for given facts, with a trace. Later changes of the facts do not
    affect this object."""

    value: bool
    """Whether the condition is true."""
    result: Any
    """The value of the whole expression; `None` if it has no value."""
    _source: ConditionSource = field(repr=False)
    _seen: Sequence[Any] = field(repr=False)

    @property
    def text(self) -> str:
        """The text of the condition."""
        return self._source.text

    @property
    def trace(self) -> tuple[ConditionTrace, ...]:
        """One entry for every part that was evaluated, in the order of the text.

        An expression comes before its parts. Literals and skipped parts have no entry; for example,
        ``x`` in ``false and x`` is skipped.
        """
        return tuple(self._entries())

    @property
    def missing(self) -> tuple[str, ...]:
        """The dotted names that the condition read but that the facts do not contain."""
        names = {
            seen.name: None
            for part, seen in zip(self._source.parts, self._seen, strict=True)
            if isinstance(part, Name) and type(seen) is NoValue and seen.name is not None
        }
        return tuple(names)

    def to_json(self) -> dict[str, Any]:
        """The result and its trace as JSON, with at most about 25,000 characters."""
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
        """A one-line explanation for people: each comparison with its values and its result, for
        example ``confidence < 0.5 → 0.3 < 0.5 → true; error_count > 3 → 1 > 3 → false``."""
        decided = list(_decisions(self._source.root))
        parts = [part for part in decided if not isinstance(part, Constant)] or decided
        lines = [self._explained(part) for part in parts if self._of(part) is not UNSEEN]
        text = "; ".join(lines or [self._explained(self._source.root)])
        return short_text(text, _MAX_EXPLANATION)

    def _entries(self) -> Iterator[ConditionTrace]:
        for part, seen in zip(self._source.parts, self._seen, strict=True):
            if seen is not UNSEEN:
                yield ConditionTrace(
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
        match part:
            case Comparison(operands=operands, symbols=symbols):
                words = [self._value(operands[0])]
                for symbol, operand in zip(symbols, operands[1:], strict=True):
                    words += [symbol, self._value(operand)]
                return " ".join(words)
            case Not(operand=operand):
                return f"not {self._value(operand)}"
            case FunctionCall(predicate=True, function=function, arguments=arguments):
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
    """The largest parts without ``and``, ``or`` and ``not`` at their top."""
    match node:
        case Logic(parts=parts):
            for part in parts:
                yield from _decisions(part)
        case Not(operand=Logic() | Not() as operand):
            yield from _decisions(operand)
        case _:
            yield node


def _is_decision(part: Node) -> bool:
    return isinstance(part, Comparison | Exists) or (
        isinstance(part, FunctionCall) and part.predicate
    )


def _shown(part: Node, seen: Any) -> Any:
    if type(seen) is NoValue:
        return False if _is_decision(part) else None
    return shortened(seen) if type(seen) in UNCHANGING else seen


def _one_line(text: str) -> str:
    return short_text(" ".join(text.split()))


_REMEMBERED = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """An expression over facts.

    `compile_condition` creates this object. Several threads can use the object at the same time.
    Two conditions with the same text are equal.
    """

    text: str
    names: frozenset[str] = field(compare=False)
    """The facts that the condition may read, as dotted names such as ``user.tier`` or
    ``items[0]``."""
    _source: ConditionSource = field(compare=False, repr=False)
    _plain: Code = field(compare=False, repr=False)
    _traced: Code = field(compare=False, repr=False)

    def evaluate(self, facts: Mapping[str, Any], *, now: float | None = None) -> Evaluation:
        """Evaluate the condition for `facts`, and record the value of each part. Never raises.

        `now` is the current time in seconds since 1970; the default is the clock of this machine.
        """
        seen: list[Any] = [UNSEEN] * len(self._source.parts)
        run = ConditionRun(facts, now, seen)
        try:
            found = self._traced(run)
            value = is_true(found)
        except Exception as exc:  # No stack or memory left; facts cannot cause other errors.
            found, value = NoValue(f"evaluation failed ({type(exc).__name__})"), False
            if seen:
                seen[0] = found
        return Evaluation(value, _plain_result(found), self._source, seen)

    def holds(self, facts: Mapping[str, Any], *, now: float | None = None) -> bool:
        """Return the same value as `evaluate(facts).value`, but in half the time, because no trace
        is made. Never raises an exception."""
        try:
            return is_true(self._plain(ConditionRun(facts, now, [])))
        except Exception:
            return False

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        # The compiled closures cannot be pickled.
        return compile_condition, (self.text,)


def compile_condition(text: str) -> Condition:
    """Compile the condition in `text`. The same text is parsed only once.

    Raises `ConditionError` for an invalid text, with the position and a suggestion. For example::

        condition = compile_condition("confidence < 0.5 and error_count > 3")
        condition.evaluate({"confidence": 0.3, "error_count": 5}).value  # True
    """
    if not isinstance(text, str):
        problem = f"it must be text, not {type(text).__name__}; put it into quotes"
        raise ConditionError(problem, text="", position=0)
    # The cache would call the hash and the equality of a derived class.
    return _compiled(str.__str__(text))


@lru_cache(maxsize=_REMEMBERED)
def _compiled(text: str) -> Condition:
    try:
        root = parse(text)
        parts = tuple(parts_of(root))
        places = {id(part): place for place, part in enumerate(parts)}
        plain, traced = program(root), program(root, places)
    except RecursionError:
        raise fault(text, 0, "it is nested too deeply to be parsed") from None
    return Condition(
        text=text,
        names=names_in(root),
        _source=ConditionSource(text=text, root=root, parts=parts),
        _plain=plain,
        _traced=traced,
    )


def _plain_result(found: Any) -> Any:
    if type(found) is NoValue:
        return None
    if type(found) is list and any(type(item) is NoValue for item in found):
        return [_plain_result(item) for item in found]
    return found
