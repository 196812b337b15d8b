"""Conditions: read once, then evaluated over facts as often as one likes.

Nothing that a condition says can fail. What has no value is false, and the trace says why:

=============================================  ==========================================
written                                        when the field ``x`` is missing
=============================================  ==========================================
``x``                                          false
``not x``                                      true
``x == 1``, ``x < 1``, ``x in [1]``            false
``x != 1``, ``x not in [1]``, ``x == null``    false: every comparison with it is
``not x == 1``, ``not (x < 1)``                true, as ``not`` turns any false into true
``1 in [1, x]``                                true; but ``2 in [1, x]`` and
                                               ``2 not in [1, x]`` are both false
``x + 1``, ``lower(x)``, ``len(x)``            no value, so a comparison with it is false
``contains(x, "a")``, ``startswith(x, "a")``   false
``x or "free"``                                ``"free"``: ``or`` gives a default
``exists(x)``                                  false
=============================================  ==========================================

So a condition that compares never fires because something is not there, unless it says ``not``;
``exists(x)`` asks for it. The same holds for everything else that has no value: NaN, a whole
number beyond 2**63, division by zero, an object that is not JSON, text that is no number.

=====================================  ==================================================
written                                gives
=====================================  ==================================================
``exists(x)`` where ``x`` is null      true: it is there
``null == null``                       true; null is a value like others
``"1" == 1``, ``true == 1``            false: different kinds are never the same
``"1" != 1``                           true
``"1" < 1``, ``null < 1``, ``[] < 1``  false: "cannot compare text with number"
``true < 2``                           refused; of facts: false, a boolean is no number
``1 == 1.0``, ``[1] == (1.0,)``        true
``"a" * 3``, ``x + "a"``               refused; of facts: no value, ``+`` does not join
``0``, ``""``, ``[]``, ``null``        false, as in Python; everything else is true
=====================================  ==================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ekiden.conditions.evaluation import ConditionSource, Evaluation
from ekiden.conditions.nodes import names_in, parts_of
from ekiden.conditions.parser import parse
from ekiden.conditions.program import UNSEEN, Code, ConditionRun, program
from ekiden.conditions.tokens import fault
from ekiden.conditions.values import NoValue, is_true
from ekiden.core.errors import ConditionError

_REMEMBERED = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """An expression over facts, made by `compile_condition`.

    It is safe to use from several threads. Two conditions with the same text are equal.
    """

    text: str
    names: frozenset[str] = field(compare=False)
    """The fields that it may read, as dotted names: ``user.tier``, ``items[0]``."""
    _source: ConditionSource = field(compare=False, repr=False)
    _plain: Code = field(compare=False, repr=False)
    _traced: Code = field(compare=False, repr=False)

    def evaluate(self, facts: Mapping[str, Any], *, now: float | None = None) -> Evaluation:
        """Evaluate the condition for `facts`, with a trace. Never raises.

        `now` is the present time in seconds since 1970, by default the machine's.
        """
        seen: list[Any] = [UNSEEN] * len(self._source.parts)
        run = ConditionRun(facts, now, seen)
        try:
            found = self._traced(run)
            value = is_true(found)
        except Exception as exc:  # no stack or memory left: the facts cannot cause others
            found, value = NoValue(f"evaluation failed ({type(exc).__name__})"), False
            if seen:
                seen[0] = found
        return Evaluation(value, _plain_result(found), self._source, seen)

    def holds(self, facts: Mapping[str, Any], *, now: float | None = None) -> bool:
        """`evaluate(facts).value` without a trace, in half the time. Never raises."""
        try:
            return is_true(self._plain(ConditionRun(facts, now, [])))
        except Exception:
            return False

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return compile_condition, (self.text,)


def compile_condition(text: str) -> Condition:
    """The condition in `text`; the same text is parsed only once.

    `ConditionError`, with the place and what to write instead, if it is invalid. For example::

        condition = compile_condition("confidence < 0.5 and error_count > 3")
        condition.evaluate({"confidence": 0.3, "error_count": 5}).value  # True
    """
    if not isinstance(text, str):
        problem = f"it must be text, not {type(text).__name__}; put it into quotes"
        raise ConditionError(problem, text="", position=0)
    return _compiled(str.__str__(text))


@lru_cache(maxsize=_REMEMBERED)
def _compiled(text: str) -> Condition:
    try:
        root = parse(text)
        parts = tuple(parts_of(root))
        places = {id(part): place for place, part in enumerate(parts)}
        plain, traced = program(root), program(root, places)
    except RecursionError:
        raise fault(text, 0, "it is nested too deep in other calls to be parsed") from None
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
