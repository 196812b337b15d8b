"""The functions of conditions. The documentation is generated from this list.

A function gets plain values: text, number, boolean, null, list or mapping. It returns a plain
value, or `NoValue` with the reason. It never raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final
from unicodedata import normalize

from ekiden.conditions.values import (
    NUMBERS,
    NoValue,
    bounded,
    contained,
    is_list,
    items_of,
    kind_of,
)

_MAX_PATTERN_MEMORY = 256 * 1024
_MAX_DIGITS = 15
_MAX_NUMBER_TEXT = 60
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of conditions."""

    signature: str
    """The call as the documentation shows it, for example ``len(value)``."""
    description: str
    """A description in one line, for people."""
    least: int
    """The minimum number of arguments."""
    most: int | None
    """The maximum number of arguments. `None` means no maximum."""
    call: Callable[..., Any]
    predicate: bool = False
    """Whether the function returns a boolean. If so, `NoValue` becomes false."""
    needs_now: bool = False
    """Whether `call` gets the present time as an additional first argument."""


def matcher(pattern: str) -> Callable[[Any], Any]:
    """Return a function that tests a text against `pattern`, for ``matches``. Raises `ValueError`
    with advice for an invalid pattern."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MAX_PATTERN_MEMORY
    try:
        compiled = re2.compile(pattern.encode("utf-8"), options)
    except UnicodeEncodeError:
        raise ValueError("it has half of a character (a lone surrogate)") from None
    except re2.error as exc:
        problem = exc.args[0] if exc.args else exc
        problem = problem.decode("utf-8", "replace") if isinstance(problem, bytes) else str(problem)
        raise ValueError(
            f"{problem[:120]}; patterns use RE2: no look-around, no back-references, and \\ "
            "before a literal ( [ * + ? ."
        ) from None

    def matches(text: Any) -> Any:
        if type(text) is not str:
            return _unfit("matches", "text", text)
        return compiled.search(text.encode("utf-8", "replace")) is not None

    return matches


def _unfit(function: str, wanted: str, found: Any) -> NoValue:
    return NoValue(f"{function} needs {wanted}, not {kind_of(found)}")


def _len(value: Any) -> Any:
    if kind_of(value) not in ("text", "list", "mapping"):
        return _unfit("len", "text, a list or a mapping", value)
    try:
        return len(value)
    except Exception:
        return NoValue("a mapping that cannot be read")


def _of_text(name: str, change: Callable[[str], str]) -> Callable[[Any], Any]:
    def call(text: Any) -> Any:
        return change(text) if type(text) is str else _unfit(name, "text", text)

    return call


def _fold(text: str) -> str:
    # Case folding can produce characters that are not in normal form, so the result is normalized
    # again.
    return normalize("NFKC", normalize("NFKC", text).casefold())


def _at_edge(name: str, test: Callable[[str, str], bool]) -> Callable[[Any, Any], Any]:
    def call(text: Any, part: Any) -> Any:
        for given in (text, part):
            if type(given) is not str:
                return _unfit(name, "text", given)
        return test(text, part)

    return call


def _among(name: str, *, every: bool) -> Callable[..., Any]:
    def call(whole: Any, *wanted: Any) -> Any:
        if not is_list(whole):
            return _unfit(name, "a list", whole)
        unsure: Any = every
        for each in wanted:
            found = contained(each, whole)
            if found is not every and type(found) is bool:
                return found
            unsure = found if type(found) is NoValue else unsure
        return unsure

    return call


def _extreme(name: str, choose: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        values = list(items_of(given[0] if len(given) == 1 and is_list(given[0]) else given))
        if not values:
            return NoValue(f"{name} of an empty list")
        for value in values:
            if type(value) is NoValue:
                return value
        kinds = {kind_of(value) for value in values}
        if kinds in ({"number"}, {"text"}):
            return choose(values)
        return NoValue(f"{name} needs numbers only or texts only, not {', '.join(sorted(kinds))}")

    return call


def _abs(value: Any) -> Any:
    return bounded(abs(value)) if type(value) in NUMBERS else _unfit("abs", "a number", value)


def _round(value: Any, digits: Any = None) -> Any:
    if type(value) not in NUMBERS:
        return _unfit("round", "a number", value)
    if digits is not None and not (type(digits) is int and 0 <= digits <= _MAX_DIGITS):
        return NoValue(f"round needs a whole number of digits between 0 and {_MAX_DIGITS}")
    try:
        return bounded(round(value, digits))
    except OverflowError:
        return NoValue("too large a number")


def _number(value: Any) -> Any:
    if type(value) in NUMBERS:
        return value
    if type(value) is not str:
        return _unfit("number", "text", value)
    written = value.strip()
    if len(written) > _MAX_NUMBER_TEXT or not _NUMBER.fullmatch(written):
        return NoValue("text that is not a number")
    return bounded(int(written) if written.lstrip("+-").isdecimal() else float(written))


def _now(now: Any) -> Any:
    return now


def _since(name: str, unit_s: int) -> Callable[[Any, Any], Any]:
    def call(now: Any, then: Any) -> Any:
        if type(now) is NoValue:
            return now
        moment = _moment(name, then)
        return moment if type(moment) is NoValue else bounded((now - moment) / unit_s)

    return call


def _moment(name: str, then: Any) -> Any:
    if type(then) in NUMBERS:
        return float(then)
    if type(then) is not str:
        return _unfit(name, "seconds since 1970 or ISO-8601 text", then)
    try:
        moment = datetime.fromisoformat(then.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return NoValue("text that is not a time in ISO 8601")


def _special(*_: Any) -> None:
    """A placeholder for functions that the parser handles."""


def _function(signature: str, description: str, call: Callable[..., Any], **more: Any) -> Function:
    inside = signature[signature.index("(") + 1 : -1]
    given = [each.strip() for each in inside.split(",") if each.strip()]
    needed = [each for each in given if each != "…" and not each.endswith("?")]
    most = None if "…" in given else len(given)
    return Function(
        signature=signature,
        description=description,
        least=len(needed),
        most=most,
        call=call,
        **more,
    )


_ALL = (
    _function("len(value)", "how many characters, items or names", _len),
    _function("lower(text)", "the text in small letters", _of_text("lower", str.lower)),
    _function("upper(text)", "the text in capital letters", _of_text("upper", str.upper)),
    _function(
        "fold(text)",
        "the text without differences of case and width, in any script, for comparing",
        _of_text("fold", _fold),
    ),
    _function(
        "contains(whole, part)",
        "whether a text has a part, a list an item, or a mapping a name",
        lambda whole, part: contained(part, whole),
        predicate=True,
    ),
    _function(
        "startswith(text, start)",
        "whether a text begins with another",
        _at_edge("startswith", str.startswith),
        predicate=True,
    ),
    _function(
        "endswith(text, end)",
        "whether a text ends with another",
        _at_edge("endswith", str.endswith),
        predicate=True,
    ),
    _function(
        "matches(text, pattern)",
        'whether a pattern (RE2, in quotes; "(?i)…" for any case) is found in the text',
        _special,
        predicate=True,
    ),
    _function(
        "any_of(list, value, …)",
        "whether a list has at least one of the values",
        _among("any_of", every=False),
        predicate=True,
    ),
    _function(
        "all_of(list, value, …)",
        "whether a list has every one of the values",
        _among("all_of", every=True),
        predicate=True,
    ),
    _function("min(value, …)", "the least of the values, or of a list", _extreme("min", min)),
    _function("max(value, …)", "the greatest of the values, or of a list", _extreme("max", max)),
    _function("abs(number)", "the number without its sign", _abs),
    _function("round(number, digits?)", "the number rounded, halves to the even one", _round),
    _function("number(text)", "the number that a text spells", _number),
    _function("exists(name)", "whether the field exists, even as null", _special, predicate=True),
    _function("now()", "the present time in seconds since 1970", _now, needs_now=True),
    _function(
        "seconds_since(time)",
        "seconds since a time, given in seconds since 1970 or in ISO 8601 (UTC unless it says)",
        _since("seconds_since", 1),
        needs_now=True,
    ),
    _function(
        "hours_since(time)",
        "hours since a time, given in seconds since 1970 or in ISO 8601 (UTC unless it says)",
        _since("hours_since", 3600),
        needs_now=True,
    ),
)

FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType(
    {each.signature.partition("(")[0]: each for each in _ALL}
)
"""Every function that conditions may call, by its name."""
