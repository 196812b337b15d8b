"""Compiles the tree of a condition to closures.

Each tree has two programs. The plain program only computes the result. The traced program also
stores the value of each part in `ConditionRun.seen`. Both programs use the same operators, so their
results are equal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ekiden.conditions.functions import FUNCTIONS
from ekiden.conditions.syntax import (
    Arithmetic,
    Comparison,
    Constant,
    Exists,
    FunctionCall,
    ListNode,
    Logic,
    Minus,
    Name,
    Node,
    Not,
)
from ekiden.conditions.values import (
    ABSENT,
    ARITHMETIC,
    COMPARISONS,
    SIMPLE,
    UNCHANGING,
    NoValue,
    Operator,
    Step,
    is_true,
    kind_of,
    known,
    shortened,
    step_into,
)

UNSEEN: Final = object()
"""The entry in `ConditionRun.seen` of a part that was not evaluated."""


class ConditionRun:
    """One evaluation."""

    __slots__ = ("_now", "facts", "seen")

    def __init__(self, facts: Any, now: float | None, seen: list[Any]) -> None:
        self.facts = facts
        self._now = now
        self.seen = seen

    def now(self) -> Any:
        """The present time; it does not change during one evaluation."""
        if self._now is None:
            self._now = time.time()
        return known(self._now)


Code: TypeAlias = Callable[[ConditionRun], Any]
"""Computes the known value of one part, or `NoValue`."""
Places: TypeAlias = Mapping[int, int]
"""The positions in `ConditionRun.seen` of all parts except constants, by ``id(part)``."""


def program(node: Node, places: Places | None = None) -> Code:
    """Compile `node`. With `places`, the code also stores the value of each part in
    `ConditionRun.seen`."""
    code = _code(node, places)
    place = None if places is None else places.get(id(node))
    if isinstance(node, Comparison) or (isinstance(node, FunctionCall) and node.predicate):
        return _decided(code, place)
    return code if place is None else _noted(code, place)


def _decided(code: Code, place: int | None) -> Code:
    """Code that returns a boolean: `NoValue` becomes false, and the trace keeps its reason."""
    if place is None:
        return lambda run: code(run) is True

    def decide(run: ConditionRun) -> bool:
        value = run.seen[place] = code(run)
        return value is True

    return decide


def _noted(code: Code, place: int) -> Code:
    def note(run: ConditionRun) -> Any:
        value = code(run)
        run.seen[place] = value if type(value) in UNCHANGING else shortened(value)
        return value

    return note


def _code(node: Node, places: Places | None) -> Code:
    match node:
        case Name(steps=steps, dotted=dotted):
            return _reading(steps, dotted)
        case Exists(name=name):
            return _existing(name.steps)
        case ListNode(items=items):
            codes = [program(item, places) for item in items]
            return lambda run: [code(run) for code in codes]
        case Minus(operand=operand):
            return _operation(ARITHMETIC["*"], operand, _MINUS_ONE, places)
        case Arithmetic(symbol=symbol, left=left, right=right):
            return _operation(ARITHMETIC[symbol], left, right, places)
        case Comparison(operands=operands, symbols=symbols):
            return _comparison(operands, [COMPARISONS[symbol] for symbol in symbols], places)
        case Logic(word=word, parts=parts):
            return _logic([program(part, places) for part in parts], stop=word == "or")
        case Not(operand=operand):
            inner = program(operand, places)
            return lambda run: not is_true(inner(run))
        case FunctionCall():
            return _call(node, [program(each, places) for each in node.arguments])
        case Constant(value=value):
            return lambda run: value


def _reading(steps: tuple[Step, ...], dotted: str) -> Code:
    hint = f"; the function is written {dotted}(…)" if dotted in FUNCTIONS else ""
    missing = NoValue(f"missing: {dotted}{hint}", name=dotted)
    first = steps[0]

    def read_field(run: ConditionRun) -> Any:
        """The fast path for the usual case: a field of a plain dict."""
        facts = run.facts
        if type(facts) is not dict:
            return read(run)
        try:
            value = facts.get(first, missing)
        except Exception:
            return read(run)
        return value if type(value) in SIMPLE else known(value)

    def read(run: ConditionRun) -> Any:
        value = run.facts
        try:
            for step in steps:
                holder, value = value, step_into(value, step)
                if value is ABSENT:
                    return missing if holder is run.facts else _missing(dotted, holder, step)
        except Exception as exc:
            return NoValue(f"{dotted} cannot be read ({type(exc).__name__[:80]})")
        return known(value)

    return read_field if len(steps) == 1 else read


def _missing(dotted: str, holder: Any, step: Step) -> NoValue:
    """The `NoValue` of a missing field; says if the value before it cannot have fields."""
    holder = known(holder)
    fitting = "list" if isinstance(step, int) else "mapping"
    kind = "" if type(holder) is NoValue else kind_of(holder)
    why = f" ({kind} before it)" if kind and kind != fitting else ""
    return NoValue(f"missing: {dotted}{why}", name=dotted)


def _existing(steps: tuple[Step, ...]) -> Code:
    def exists(run: ConditionRun) -> bool:
        value = run.facts
        try:
            for step in steps:
                value = step_into(value, step)
                if value is ABSENT:
                    return False
        except Exception:
            return False
        return True

    return exists


_MINUS_ONE = Constant(start=0, end=0, value=-1)


def _operation(compute: Operator, left: Node, right: Node, places: Places | None) -> Code:
    first = program(left, places)
    if isinstance(right, Constant):
        constant = right.value
        return lambda run: compute(first(run), constant)
    second = program(right, places)
    return lambda run: compute(first(run), second(run))


def _comparison(
    operands: tuple[Node, ...], operators: list[Operator], places: Places | None
) -> Code:
    if len(operators) == 1:
        return _operation(operators[0], operands[0], operands[1], places)
    first, *others = [program(each, places) for each in operands]
    links = list(zip(operators, others, strict=True))

    def chain(run: ConditionRun) -> Any:
        left = first(run)
        for compare, operand in links:
            right = operand(run)
            found = compare(left, right)
            if found is not True:
                return found
            left = right
        return True

    return chain


def _logic(parts: list[Code], *, stop: bool) -> Code:
    """As in Python: the first part that decides, or the last part."""
    *firsts, last = parts

    def decide(run: ConditionRun) -> Any:
        for part in firsts:
            value = part(run)
            if (value if type(value) is bool else is_true(value)) is stop:
                return value
        return last(run)

    return decide


def _call(node: FunctionCall, arguments: list[Code]) -> Code:
    call, needs_now = node.call, node.needs_now

    def run_function(run: ConditionRun) -> Any:
        given = [argument(run) for argument in arguments]
        for value in given:
            if type(value) is NoValue:
                return value
        return call(run.now(), *given) if needs_now else call(*given)

    return run_function
