"""What a setting may be: how its value is checked, and how it is read from text.

`read` takes a value as JSON gives it and returns it as `Settings` has it; what it cannot take is
`ValueError` with the end of a sentence that begins with the setting's name. `parse` turns text
from the command line or the environment into a value for `read`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

from ekiden.app.settings.faults import Fault
from ekiden.app.settings.jsonc import JsoncError, parse
from ekiden.core.jsonio import dumps
from ekiden.core.suggest import suggestion

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MAX_TEXT = 4096


class Kind(Protocol):
    """One kind of value."""

    @property
    def expects(self) -> str:
        """What it may be, for messages and the documentation: ``true or false``."""

    def read(self, value: object, /) -> object:
        """`value` as `Settings` has it, or `ValueError`."""

    def parse(self, text: str, /) -> object:
        """What `text` means; it is not checked."""

    def schema(self) -> dict[str, Any]:
        """What `read` takes, in JSON Schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """Yes or no."""

    expects: str = "true or false"

    def read(self, value: object) -> object:
        if not isinstance(value, bool):
            raise wrong(self, value)
        return value

    def parse(self, text: str) -> object:
        """Also ``yes``, ``on``, ``1`` and their opposites, in any case."""
        return _FLAGS.get(text.strip().lower(), text)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number."""

    low: int
    high: int
    optional: bool = False

    @property
    def expects(self) -> str:
        return _or_null(f"a whole number from {self.low} to {self.high}", self.optional)

    def read(self, value: object) -> object:
        if value is None and self.optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong(self, value)
        if not self.low <= value <= self.high:
            raise wrong(self, value)
        return value

    def parse(self, text: str) -> object:
        return json_or_text(text)

    def schema(self) -> dict[str, Any]:
        return _typed("integer", self.optional, minimum=self.low, maximum=self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number, with or without a fraction."""

    low: float
    high: float
    optional: bool = False

    @property
    def expects(self) -> str:
        return _or_null(f"a number from {self.low:g} to {self.high:g}", self.optional)

    def read(self, value: object) -> object:
        if value is None and self.optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong(self, value)
        if not self.low <= value <= self.high:
            raise wrong(self, value)
        return float(value)

    def parse(self, text: str) -> object:
        return json_or_text(text)

    def schema(self) -> dict[str, Any]:
        return _typed("number", self.optional, minimum=self.low, maximum=self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    @property
    def expects(self) -> str:
        return f"one of {', '.join(self.words)}"

    def read(self, value: object) -> object:
        if value not in self.words:
            near = suggestion(value, self.words) if isinstance(value, str) else ""
            raise ValueError(f"{wrong(self, value)}{near}")
        return value

    def parse(self, text: str) -> object:
        return _unquoted(text)

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One line of text."""

    what: str = "text"
    optional: bool = False
    form: re.Pattern[str] | None = None
    fault: Fault | None = None

    @property
    def expects(self) -> str:
        return _or_null(self.what, self.optional)

    def read(self, value: object) -> object:
        if value is None and self.optional:
            return None
        if not isinstance(value, str):
            raise wrong(self, value)
        _check_text(value)
        if self.form is not None and not self.form.fullmatch(value):
            raise wrong(self, value)
        _check_fault(self, value, self.fault)
        return value

    def parse(self, text: str) -> object:
        """``null`` is none; text in double quotes is JSON, and all else is itself."""
        return None if self.optional and text == "null" else _unquoted(text)

    def schema(self) -> dict[str, Any]:
        form = r"\S" if self.form is None else f"^({self.form.pattern})$"
        return _typed("string", self.optional, pattern=form, maxLength=_MAX_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """A list of texts."""

    what: str
    fault: Fault | None = None

    @property
    def expects(self) -> str:
        return f"a list of {self.what}"

    def read(self, value: object) -> object:
        if not isinstance(value, list | tuple):
            raise wrong(self, value)
        for index, each in enumerate(value):
            if not isinstance(each, str):
                raise ValueError(f"must be {self.expects}, but number {index + 1} is {shown(each)}")
            try:
                _check_text(each)
            except ValueError as exc:
                raise ValueError(f"must be {self.expects}, but number {index + 1} {exc}") from None
            _check_fault(self, each, self.fault)
        return tuple(value)

    def parse(self, text: str) -> object:
        return json_or_text(text)

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": _typed("string", pattern=r"\S", maxLength=_MAX_TEXT)}


def _typed(kind: str, optional: bool = False, **limits: Any) -> dict[str, Any]:
    return {"type": [kind, "null"] if optional else kind, **limits}


def shown(value: object) -> str:
    """A value for a message: short, and what is long or nested only by its type."""
    if value is None or isinstance(value, bool | int | float | str):
        text = dumps(value) if not isinstance(value, str) else repr(value)
        return text if len(text) <= 60 else f"{text[:57]}…"
    return shown_type(value)


def shown_type(value: object) -> str:
    """What kind of value it is, without saying which."""
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


def json_or_text(text: str) -> object:
    """The value that `text` is as JSON, else `text` itself."""
    try:
        read = parse(text)
    except JsoncError:
        return text
    return text if read.root is None or read.duplicates else read.root.value


_FLAGS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def wrong(kind: Kind, value: object) -> ValueError:
    """The error for a value that `kind` does not take."""
    hint = "; leave the key out to have the default" if value is None else ""
    return ValueError(f"must be {kind.expects}, not {shown(value)}{hint}")


def _check_fault(kind: Kind, value: str, fault: Fault | None) -> None:
    why = None if fault is None else fault(value)
    if why is not None:
        # An address may hold a password.
        given = "" if "://" in value else f", not {shown(value)}"
        raise ValueError(f"must be {kind.expects}{given}: {why}")


def _or_null(what: str, optional: bool) -> str:
    return f"{what}, or null" if optional else what


def _check_text(value: str) -> None:
    if not value.strip():
        raise ValueError("must not be empty")
    if len(value) > _MAX_TEXT:
        raise ValueError(f"must not be longer than {_MAX_TEXT} characters")
    if _CONTROL.search(value):
        raise ValueError("must not have line breaks or other control characters in it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("must be text that can be written as UTF-8") from None


def _unquoted(text: str) -> object:
    is_quoted = len(text) >= 2 and text.startswith('"') and text.endswith('"')
    return json_or_text(text) if is_quoted else text
