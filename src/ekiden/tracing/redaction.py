"""Redacts spans: keys and tokens are always masked, and content is removed by default."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from ekiden.core.privacy.masking import MASK
from ekiden.core.privacy.redaction import redact_json, redact_text
from ekiden.core.values import dumps, loads
from ekiden.tracing.spans import NOTHING, Span

_MAX_READ = 100_000
"""The number of characters that are checked; the rest of a text is cut off."""
_LONGEST_SECRET = 8_000
_SHORT = 120
"""The results for texts up to this length are cached, because names and ids occur often."""
KEYS: Final = ("api_key",)
"""The kinds that are masked in every view and export: keys, tokens and private keys."""
LEFT_OUT: Final = "Error details are left out."
_ERROR_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}(?:Error|Exception|Exit|Interrupt|Timeout)")


def masked(text: str, most: int) -> str:
    """The text with masked keys and tokens, cut off after `most` characters."""
    if len(text) <= _SHORT:
        shown = _redacted_text(text, KEYS, MASK)
    else:
        shown = redact_text(text[:_MAX_READ], kinds=KEYS, mask=MASK)
    if len(text) > _MAX_READ:
        # The end may be half of a key, which is not recognized.
        most = max(min(most, len(shown) - _LONGEST_SECRET), 0)
    return shown if len(shown) <= most else f"{shown[:most]}… (of {len(text)} characters)"


@lru_cache(maxsize=4096)
def _redacted_text(text: str, kinds: tuple[str, ...], mask: str) -> str:
    return redact_text(text, kinds=kinds, mask=mask)


def for_export(
    spans: Iterable[Span],
    *,
    include_content: bool = False,
    include_errors: bool = False,
    kinds: Collection[str] = KEYS,
) -> list[Span]:
    """The spans for an export, without data that must not leave this process.

    Without `include_content`, prompts, answers, arguments, results and reasons are removed. An
    error is then reduced to its code or the name of the exception, unless `include_errors` is true.
    In the remaining text, sensitive data of these `kinds` is masked. See
    `ekiden.core.privacy.redaction`.
    """
    return [
        exported(span, include_content=include_content, include_errors=include_errors, kinds=kinds)
        for span in spans
    ]


def exported(
    span: Span,
    *,
    include_content: bool = False,
    include_errors: bool = False,
    kinds: Collection[str] = KEYS,
) -> Span:
    """Redact one span like `for_export`."""
    shown = span if include_content else without_content(span, keep_error=include_errors)
    return redacted(shown, kinds=kinds)


def without_content(span: Span, *, keep_error: bool = False) -> Span:
    """The span without content. Without `keep_error`, the error is reduced to its code or its class
    name."""
    if not span.content and span.error is None:
        return span
    error = span.error if keep_error else _error_name(span)
    return span.with_content(name=span.name, error=error, details=span.details, content=NOTHING)


def redacted(span: Span, *, kinds: Collection[str] = KEYS) -> Span:
    """The span with masked sensitive data. If there is nothing to mask, the same object is
    returned."""
    name = _redacted_name(span.name, tuple(kinds))
    error = None if span.error is None else redact_text(span.error, kinds=kinds)
    details = _redacted(span.details, kinds)
    content = _redacted(span.content, kinds)
    if (
        name == span.name
        and error == span.error
        and details is span.details
        and content is span.content
    ):
        return span
    return span.with_content(name=name, error=error, details=details, content=content)


def redacted_value(value: Any, *, kinds: Collection[str] = KEYS) -> Any:
    """A JSON value with masked sensitive data. If there is nothing to mask, the same object is
    returned."""
    text = dumps(value)
    redacted_text = redact_json(text, kinds=kinds)
    return value if redacted_text == text else loads(redacted_text)


@lru_cache(maxsize=4096)
def _redacted_name(name: str, kinds: tuple[str, ...]) -> str:
    return redact_text(name, kinds=kinds)


def _redacted(values: Mapping[str, Any], kinds: Collection[str]) -> Mapping[str, Any]:
    if not values:
        return values
    plain = dict(values)
    result: Mapping[str, Any] = redacted_value(plain, kinds=kinds)
    return values if result is plain else result


def _error_name(span: Span) -> str | None:
    if span.error is None:
        return None
    code = span.details.get("code")
    if isinstance(code, str) and code:
        return code
    found = _ERROR_NAME.match(span.error)
    return found.group() if found is not None else LEFT_OUT
