"""Finds and masks sensitive text: card numbers, telephones, keys and the like.

The functions ignore differences that a reader does not see: full-width and other digits count as
digits, and zero-width characters are ignored. Every function takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, get_args
from unicodedata import category, decimal, normalize

from ekiden.core.errors import UserError
from ekiden.core.privacy.detection import NUMBER_KINDS, find_emails, find_keys, find_numbers
from ekiden.core.text.wording import suggestion
from ekiden.core.values import dumps, loads

SensitiveKind: TypeAlias = Literal["card", "ssn", "cn_id", "tw_id", "phone", "email", "api_key"]
"""The kinds of sensitive text: payment cards, US social security numbers, identity numbers of China
and Taiwan, telephone numbers, e-mail addresses, and keys (API keys, tokens and private keys)."""

SENSITIVE_KINDS: tuple[SensitiveKind, ...] = get_args(SensitiveKind)
DEFAULT_MASK = "[{kind}]"


class SensitiveSpan(NamedTuple):
    """The kind and the position of a sensitive part of a text."""

    kind: SensitiveKind
    start: int
    end: int


def find_sensitive(text: str, *, kinds: Collection[str] = SENSITIVE_KINDS) -> list[SensitiveSpan]:
    """Return the sensitive parts of `text`, in order and without overlaps.

    Overlapping parts are merged into one part, which has the kind of the longest of them. Raises
    `UserError` for an unknown kind::

        find_sensitive("电话13812345678请")  # [SensitiveSpan("phone", 2, 13)]
    """
    check_kinds(kinds)
    if len(text) < _SHORTEST:
        return []
    folded, places = _folded(text)
    found = _merged(sorted(_findings(folded, kinds), key=lambda each: each.start))
    if places is None:
        return found
    return [SensitiveSpan(kind, places[start], places[end - 1] + 1) for kind, start, end in found]


def redact_text(
    text: str, *, kinds: Collection[str] = SENSITIVE_KINDS, mask: str = DEFAULT_MASK
) -> str:
    """Return `text` with all sensitive parts replaced by `mask`. In `mask`, ``{kind}`` stands for
    the kind of the part.

    JSON stays JSON: a masked number becomes a string. The result has no sensitive parts of these
    kinds. Raises `UserError` for an unknown kind, and for a mask that is itself sensitive text.
    """
    check_kinds(kinds)
    check_mask(mask)
    return _redacted(text, kinds, mask)


def check_kinds(kinds: Collection[str]) -> None:
    """Raise `UserError` for an unknown kind."""
    for kind in kinds:
        if kind not in SENSITIVE_KINDS:
            raise UserError(
                f"there is no kind of sensitive text {str(kind)[:80]!r}, known: "
                f"{', '.join(SENSITIVE_KINDS)}{suggestion(str(kind), SENSITIVE_KINDS)}"
            )


def redact_json(
    text: str, *, kinds: Collection[str] = SENSITIVE_KINDS, mask: str = DEFAULT_MASK
) -> str:
    """Like `redact_text`, for a text that is expected to be JSON. If the whole text is one number,
    the masked number becomes a string too."""
    check_kinds(kinds)
    check_mask(mask)
    return _redacted(text, kinds, mask, as_json=True)


@lru_cache(maxsize=16)
def check_mask(mask: str) -> None:
    """Raise `UserError` for a mask that looks like sensitive text, or could become sensitive text
    together with the text around it."""
    shown = [_masked(kind, mask) for kind in SENSITIVE_KINDS]
    if not mask or any(_NEVER_IN_MASK.search(one) for one in shown):
        raise UserError(
            f"a mask must be some text without digits, '@' and '%', such as '[{{kind}}]' or "
            f"'REDACTED', not {mask[:80]!r}"
        )


_SHORTEST = 6
_NEVER_IN_MASK = re.compile(r"[\d@%\u0000-\u001f]")
_MAX_PASSES = 8
_MAX_DEPTH = 4
"""How deep JSON inside JSON strings is parsed."""
_CONTEXT = 48
"""How many characters of JSON before a value are context for its kind."""


def _redacted(text: str, kinds: Collection[str], mask: str, *, as_json: bool = False) -> str:
    # Masking one part can turn its neighbour into a finding, so the result is searched again.
    for _ in range(_MAX_PASSES):
        changed = _redacted_once(text, kinds, mask, as_json=as_json)
        if changed == text:
            break
        text = changed
    return text


def _redacted_once(
    text: str,
    kinds: Collection[str],
    mask: str,
    *,
    before: str = "",
    depth: int = _MAX_DEPTH,
    as_json: bool = False,
) -> str:
    """`text` with its findings masked; `before` is the context before the text."""
    shift = len(before)
    found = [
        SensitiveSpan(kind, max(start - shift, 0), end - shift)
        for kind, start, end in find_sensitive(before + text, kinds=kinds)
        if end > shift
    ]
    may_be_json = as_json or text.lstrip()[:1] in ("{", "[")
    if depth and may_be_json and (found or "\\" in text) and _is_json(text):
        return _json_masked(text, found, kinds, mask, depth)
    return _masked_text(text, found, mask)


def _masked_text(text: str, found: Sequence[SensitiveSpan], mask: str) -> str:
    pieces: list[str] = []
    done = 0
    for kind, start, end in found:
        pieces += (text[done:start], _masked(kind, mask))
        done = end
    return "".join((*pieces, text[done:])) if pieces else text


def _masked(kind: str, mask: str) -> str:
    return mask.replace("{kind}", kind)


# Possessive are only repeats of one character: that of a group is wrong before Python 3.11.5.
_JSON_VALUE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*"|-?[0-9][0-9.eE+-]*+', re.DOTALL)
"""A string or a number, in a text that is JSON."""


def _is_json(text: str) -> bool:
    try:
        loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _json_masked(
    text: str, found: Sequence[SensitiveSpan], kinds: Collection[str], mask: str, depth: int
) -> str:
    """JSON with the findings in its strings and numbers masked; its layout is kept."""
    pieces: list[str] = []
    done = next_found = 0
    for value in _JSON_VALUE.finditer(text):
        start, end = value.span()
        while next_found < len(found) and found[next_found].end <= start:
            next_found += 1
        quoted = text[start] == '"'
        hits = list(_within(found, next_found, start + quoted, end - quoted))
        escaped = text.find("\\", start, end) >= 0
        if not hits and not escaped:
            continue
        if not quoted:
            new = dumps(_masked(hits[0].kind, mask))
        # Positions hold in the escaped text only without escapes, or if all of it is masked.
        elif not escaped or (hits and hits[0].end - hits[0].start == end - start - 2):
            inside = [
                SensitiveSpan(kind, first - start, last - start) for kind, first, last in hits
            ]
            new = _masked_text(value.group(), inside, dumps(mask)[1:-1])
        else:
            before = text[max(start - _CONTEXT, 0) : start + 1]
            was = loads(value.group())
            now = _redacted_once(was, kinds, mask, before=before, depth=depth - 1)
            if now == was:
                continue
            new = dumps(now)
        pieces += (text[done:start], new)
        done = end
    return "".join((*pieces, text[done:])) if pieces else text


def _within(
    found: Sequence[SensitiveSpan], first: int, start: int, end: int
) -> Iterator[SensitiveSpan]:
    """The findings, from index `first` on, within a part of the text; cut at its borders."""
    for index in range(first, len(found)):
        each = found[index]
        if each.start >= end:
            break
        if each.end > start:
            yield SensitiveSpan(each.kind, max(each.start, start), min(each.end, end))


def _findings(text: str, kinds: Collection[str]) -> Iterator[SensitiveSpan]:
    if not NUMBER_KINDS.isdisjoint(kinds):
        yield from (SensitiveSpan(*found) for found in find_numbers(text, kinds))
    if "email" in kinds:
        yield from (SensitiveSpan("email", *span) for span in find_emails(text))
    if "api_key" in kinds:
        yield from (SensitiveSpan("api_key", *span) for span in find_keys(text))


def _merged(found: Sequence[SensitiveSpan]) -> list[SensitiveSpan]:
    """The findings; overlapping ones are joined and get the kind of the longest."""
    merged: list[SensitiveSpan] = []
    longest = 0
    for each in found:
        length = each.end - each.start
        if not merged or each.start >= merged[-1].end:
            merged.append(each)
            longest = length
            continue
        kind, start, end = merged[-1]
        merged[-1] = SensitiveSpan(
            each.kind if length > longest else kind, start, max(end, each.end)
        )
        longest = max(longest, length)
    return merged


def _folded(text: str) -> tuple[str, list[int] | None]:
    """The text as a reader sees it; and the original positions if invisible characters were
    removed."""
    if text.isascii():
        return text, None
    changes = {
        ord(char): plain
        for char in set(text)
        if char > "\x7f" and (plain := _plain_char(char)) != char
    }
    if not changes:
        return text, None
    if all(changes.values()):
        return text.translate(changes), None
    places = [at for at, char in enumerate(text) if changes.get(ord(char), char)]
    return text.translate(changes), places


@lru_cache(maxsize=8_192)
def _plain_char(char: str) -> str:
    """The ASCII character that `char` looks like; empty for an invisible one; otherwise `char`."""
    kind = category(char)
    if kind in ("Cf", "Mn", "Me"):
        return ""
    if kind == "Zs":
        return " "
    if kind == "Pd" or char in "\u2212\u30fc\uff70":
        return "-"
    digit = decimal(char, None)
    if digit is not None:
        return str(digit)
    plain = normalize("NFKC", char)
    return plain if len(plain) == 1 and plain.isascii() else char
