"""The kinds of values in agent files and settings.

Each kind parses a plain value, and describes the valid values in JSON Schema. So the schema for
editors always matches the parser.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Protocol

from ekiden.core.dataclass import dataclass
from ekiden.core.text.wording import suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Limits and other facts of a setting that its type, default and docstring do not contain.

    For example::

        port: Annotated[int, Allowed(low=0, high=65535, env="EKIDEN_PORT")] = 8321
        \"\"\"The port; 0 takes a free one.\"\"\"
    """

    low: float = 0
    """The lowest allowed number."""
    high: float = 1_000_000_000
    """The highest allowed number."""
    exclusive: bool = False
    """Whether `low` itself is refused."""
    filled: bool = False
    """Whether a blank text is refused. Settings always refuse blank texts."""
    what: str = "text"
    """The noun in error messages, such as "an agent's name". If the setting is a list, the noun
    means one entry."""
    form: str | None = None
    """A regular expression that the whole text must match."""
    env: str | None = None
    """The environment variable, if its name is not derived from the setting's name."""
    risk: str | None = None
    """If set, a value other than the default is used only in a trusted project folder. The text
    describes the effect of such a value, for example "imports this code"."""


_MAX_SHOWN = 60
_BAD_IN_LINES = "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
"""Control characters can take over a terminal, and lone surrogates cannot be stored."""
_BAD_IN_A_LINE = "[\x00-\x1f\x7f-\x9f\ud800-\udfff]"


class RefusedValue(ValueError):
    """A value was refused. The message completes a sentence that begins with the key."""

    def __init__(self, words: str, code: str = "wrong_type") -> None:
        super().__init__(words)
        self.code = code
        """The broken rule, such as ``wrong_type`` or ``out_of_range``."""


class Kind(Protocol):
    """A kind of value: a parser with its JSON Schema."""

    @property
    def expects(self) -> str:
        """The allowed values in words, such as ``true or false``."""

    def read(self, value: object, /) -> Any:
        """Return the parsed value. Raises `RefusedValue` for an invalid value."""

    def schema(self) -> dict[str, Any]:
        """The values that `read` accepts, as JSON Schema 2020-12."""


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    expects: str = "true or false"

    def read(self, value: object) -> Any:
        if not isinstance(value, bool):
            raise wrong(self.expects, value)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class FlagOrWord:
    """True, false or a word."""

    word: str

    @property
    def expects(self) -> str:
        return f"true, false or {self.word}"

    def read(self, value: object) -> Any:
        if not isinstance(value, bool) and value != self.word:
            raise wrong(self.expects, value)
        return value

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, {"enum": [self.word]}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A finite number from `low` to `high`."""

    low: float
    high: float
    above_low: bool = False
    """Whether `low` itself is refused."""
    whole: bool = False
    optional: bool = False

    @property
    def expects(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        if self.above_low:
            return _or_null(f"{kind} above {self.low:g}, at most {self.high:,.0f}", self.optional)
        high = f"{self.high:.0f}" if self.whole else f"{self.high:g}"
        return _or_null(f"{kind} from {self.low:g} to {high}", self.optional)

    def read(self, value: object) -> Any:
        if value is None and self.optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong(self.expects, value)
        if isinstance(value, float) and not math.isfinite(value):
            raise wrong(self.expects, value)
        if self.whole and value != int(value):
            raise wrong(self.expects, value)
        if not self.low <= value <= self.high or (self.above_low and value == self.low):
            raise wrong(self.expects, value, "out_of_range")
        return int(value) if self.whole else float(value)

    def schema(self) -> dict[str, Any]:
        kind = "integer" if self.whole else "number"
        low = "exclusiveMinimum" if self.above_low else "minimum"
        return {"type": _type(kind, self.optional), low: self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several words."""

    words: tuple[str, ...]

    @property
    def expects(self) -> str:
        return f"one of {', '.join(self.words)}"

    def read(self, value: object) -> Any:
        if value is None or not isinstance(value, str | float | int):
            raise wrong(self.expects, value)
        if value not in self.words:
            near = suggestion(str(value), self.words)
            raise RefusedValue(f"{wrong(self.expects, value)}{near}", "unknown_value")
        return value

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text that is not empty."""

    what: str = "a text"
    strip: bool = True
    """Whether surrounding white space is removed."""
    max_length: int | None = None
    is_line: bool = False
    """Whether line breaks are refused."""
    form: re.Pattern[str] | None = None
    """A pattern that the whole text must match."""
    check: Callable[[str], str | None] | None = None
    """A function that returns the fault of a text and its remedy, or `None` for a valid text."""
    code: str = "bad_value"
    """The error code if `form` or `check` refuses the text."""
    optional: bool = False
    in_schema: Mapping[str, Any] = field(default_factory=dict)

    @property
    def expects(self) -> str:
        return _or_null(self.what, self.optional)

    def read(self, value: object) -> Any:
        if value is None and self.optional:
            return None
        if not isinstance(value, str):
            raise wrong(self.expects, value)
        text = value.strip() if self.strip else value
        if not text.strip():
            raise RefusedValue(
                f"must not be empty; write {self.what}, or leave it out", "empty_value"
            )
        if self.max_length is not None and len(text) > self.max_length:
            words = f"must not be longer than {self.max_length} characters; it has {len(text)}"
            raise RefusedValue(words, "too_long")
        bad = re.search(_BAD_IN_A_LINE if self.is_line else _BAD_IN_LINES, text)
        if bad is not None:
            raise RefusedValue(f"must {_without(bad.group())}", "bad_character")
        if self.form is not None and not self.form.fullmatch(text):
            raise wrong(self.expects, value, self.code)
        if self.check is not None and (fault := self.check(text)) is not None:
            # Do not repeat a URL: it may contain a password.
            found = "cannot be used" if "://" in text else f"is {shown(text)}"
            raise RefusedValue(f"{found}: {fault}", self.code)
        return text

    def schema(self) -> dict[str, Any]:
        length = {} if self.max_length is None else {"maxLength": self.max_length}
        form = r"\S" if self.form is None else f"^({self.form.pattern})$"
        kind = {"type": _type("string", self.optional), "minLength": 1, "pattern": form}
        return {**kind, **length, **self.in_schema}


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """A list of texts."""

    item: Text

    @property
    def expects(self) -> str:
        return f"a list of {self.item.what}"

    def read(self, value: object) -> Any:
        if not isinstance(value, list | tuple):
            raise wrong(self.expects, value)
        for number, each in enumerate(value, start=1):
            if not isinstance(each, str):
                raise RefusedValue(f"must be {self.expects}, but number {number} is {shown(each)}")
            try:
                self.item.read(each)
            except RefusedValue as exc:
                words = f"must be {self.expects}, but number {number} {exc}"
                raise RefusedValue(words, exc.code) from None
        return tuple(value)

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema()}


def wrong(expects: str, value: object, code: str = "wrong_type") -> RefusedValue:
    """Return the error for an unexpected value."""
    if value is None:
        return RefusedValue(f"has no value; write {expects}, or leave the key out", code)
    return RefusedValue(f"must be {expects}, not {shown(value)}", code)


def shown(value: object) -> str:
    """A short text that shows a value in an error message. For a list or an object, the text shows
    only the type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(value) if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]!r}…"
    if isinstance(value, int | float):
        if abs(value) < 1e15:
            return repr(value)
        return f"{float(value):g}" if abs(value) < 1e308 else "a number out of bounds"
    return shown_type(value)


def shown_type(value: object) -> str:
    """The name of the value's JSON type, for a message."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text" if value.strip() else "empty text"
        case list() | tuple():
            return "a list"
        case _:
            return "an object"


def _without(character: str) -> str:
    code = f"U+{ord(character):04X}"
    if "\ud800" <= character <= "\udfff":
        return f"be text that can be written as UTF-8, which {code} cannot"
    what = "a line break" if character in "\n\r" else "the character"
    return f"not have {what} {code} in it"


def _type(kind: str, optional: bool) -> str | list[str]:
    return [kind, "null"] if optional else kind


def _or_null(what: str, optional: bool) -> str:
    return f"{what}, or null" if optional else what
