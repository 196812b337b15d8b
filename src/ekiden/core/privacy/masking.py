"""Masks secrets in stored and shown data.

Three kinds of text count as secrets:

* the secrets of this process: environment variables whose names suggest a secret, passwords in
  addresses, and values that a settings file passes to servers
* texts in the form of a key
* texts after a word that suggests a secret, such as ``password=…``

Error texts repeat their input, so all three kinds are masked in them. Tool outputs are part of the
conversation, so only the secrets of this process are masked in them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ekiden.core.text.wording import lazy_pattern

MASK: Final = "[redacted]"

_SHORTEST = 8
_MIN_LENGTH_IN_TALK = 16
"""Shorter secrets may be common words, which a conversation needs."""
_SECRET_NAME = lazy_pattern(
    r"(?:(?:^|_)(?:KEY|TOKEN|SECRET|CREDENTIALS?|PAT)|PASSWORD|PASSWD|PASSPHRASE)$"
)
_HEADERS_NAME = lazy_pattern(r"(?:^|_)HEADERS$")
_ADDRESS_PASSWORD = lazy_pattern(r"://[^\s/:@]{0,256}:([^\s/@]{1,256})@")
_TWO_KINDS = lazy_pattern(r"(?=.*[0-9])(?=.*[A-Za-z])", re.DOTALL)
_MAYBE_KEY = lazy_pattern(
    r"sk-|[srp]k_|ek_|AKIA|ASIA|LTAI|AKID|gh[opsru]_|github_pat_|glpat-|xox|xapp-|AIza|ya29\.|hf_"
    r"|npm_|eyJ|://|-----BEGIN|(?i:bearer|authorization|key|token|secret)"
)
"""A fast check whether `find_keys` may find something in a text."""
_SHORTEST_KEY = 16
_NAMED = r"""(?xi)(?<![A-Za-z0-9_-])
    ([\w-]{0,40}(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|authorization|credentials?)
    ["']?\s{0,3}[:=]\s{0,3}["']?)
    (?=[^\s"'&,;]{0,255}[0-9])(?=[^\s"'&,;]{0,255}[A-Za-z])[^\s"'&,;\[\]{}()]{8,512}"""


def cover(text: str) -> str:
    """An error text with all secrets masked."""
    return masked_names(masked_keys(_KNOWN.cover(text, any_length=True)))


def masked_names(text: str) -> str:
    """The text with secrets masked that follow a word such as "token" or "password". A value counts
    as a secret if it has at least 8 characters, among them a letter and a digit."""
    return re.sub(_NAMED, rf"\1{MASK}", text)


def masked_keys(value: Any) -> Any:
    """A JSON value with keys and tokens masked. If there is nothing to mask, the same object is
    returned."""
    return _within(value, _keys)


def without_known(value: Any) -> Any:
    """A JSON value with the secrets of this process masked. If there is nothing to mask, the same
    object is returned."""
    return value if _KNOWN.is_empty() else _within(value, _KNOWN.cover)


def keep_secret(values: Iterable[str]) -> None:
    """Add secrets of this process. Values that look like common words are ignored."""
    _KNOWN.add(values)


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """The secrets in environment variables, the longest first."""
    found = {value for value in _secrets_of(environ) if len(value) >= _SHORTEST}
    return sorted(found, key=lambda value: (-len(value), value))


def _secrets_of(environ: Mapping[str, str]) -> Iterator[str]:
    for name, value in environ.items():
        if _SECRET_NAME.search(name.upper()):
            yield value
        elif _HEADERS_NAME.search(name.upper()):
            pairs = (pair.partition("=")[2].strip() for pair in value.split(","))
            yield from filter(_is_uncommon, pairs)
        elif "://" in value:
            yield from filter(_is_uncommon, _ADDRESS_PASSWORD.findall(value))


def _is_uncommon(value: str) -> bool:
    """Whether the value is no common word such as `postgres`, which harmless texts contain."""
    return len(value) >= _SHORTEST and _TWO_KINDS.match(value) is not None


class _Known:
    """The secrets of this process. The environment is read again when its size changes."""

    # Comparing the size is much cheaper than comparing all values, for every text.
    def __init__(self) -> None:
        self._added: set[str] = set()
        self._read = -1
        self._all: re.Pattern[str] | None = None
        self._long: re.Pattern[str] | None = None

    def add(self, values: Iterable[str]) -> None:
        self._added.update(filter(_is_uncommon, values))
        self._read = -1

    def is_empty(self) -> bool:
        """Whether there are no secrets to mask in a conversation."""
        self._refresh()
        return self._long is None

    def cover(self, text: str, *, any_length: bool = False) -> str:
        self._refresh()
        pattern = self._all if any_length else self._long
        return text if pattern is None else pattern.sub(MASK, text)

    def _refresh(self) -> None:
        if len(os.environ) == self._read:
            return
        self._read = len(os.environ)
        found = sorted({*secrets_of(os.environ), *self._added}, key=len, reverse=True)
        long = [each for each in found if len(each) >= _MIN_LENGTH_IN_TALK and _is_uncommon(each)]
        self._all, self._long = _pattern(found), _pattern(long)


def _pattern(values: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(re.escape, values))) if values else None


_KNOWN: Final = _Known()


def _keys(text: str) -> str:
    if len(text) < _SHORTEST_KEY or _MAYBE_KEY.search(text) is None:
        return text
    from ekiden.core.privacy.redaction import redact_text

    return redact_text(text, kinds=("api_key",), mask=MASK)


def _within(value: Any, change: Any) -> Any:
    """The value with `change` applied to its texts; the same object if nothing changes."""
    if isinstance(value, str):
        changed = change(value)
        return value if changed == value else changed
    if isinstance(value, dict):
        object_ = {key: _within(each, change) for key, each in value.items()}
        return object_ if any(object_[key] is not value[key] for key in object_) else value
    if isinstance(value, list):
        items = [_within(each, change) for each in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value
