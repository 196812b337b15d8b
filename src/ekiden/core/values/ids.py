"""Ids that sort by time and name what they identify."""

from __future__ import annotations

import os
import re
import time

from ekiden.core.errors import UserError

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_VALID = re.compile(r"[A-Za-z0-9_\-.:@]{1,128}")
NOT_IN_NAMES = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Not allowed in names and ids: control characters, line breaks and lone surrogates."""
_GENERATED = re.compile(r"[a-z]+_[0-9a-z]{20}(?![0-9a-z])")
_TENANT = re.compile(r"[a-z0-9](?:[a-z0-9_]{0,30}[a-z0-9])?")


def new_id(prefix: str) -> str:
    """A fresh id such as ``ses_01k9w3…``: 48 bits of milliseconds, then 52 random bits."""
    value = (time.time_ns() // 1_000_000) << 52 | int.from_bytes(os.urandom(7), "big") >> 4
    digits = "".join([_PAIRS[value >> at & 1023] for at in range(90, -1, -10)])
    return f"{prefix}_{digits}"


def generated_part(value: str) -> str:
    """The id of `new_id` that `value` begins with; empty if it begins with none."""
    found = _GENERATED.match(value)
    return "" if found is None else found.group()


def check_id(value: str, *, what: str) -> str:
    """`value` unchanged, or `UserError` if it is not a valid id."""
    if not _VALID.fullmatch(value) or value in (".", ".."):
        raise UserError(
            f"{value[:80]!r} is not a valid {what}: use 1 to 128 letters, digits and _ - . : @"
        )
    return value


def check_line(value: object, *, what: str, longest: int = 500) -> str:
    """`value` unchanged, or `UserError` if it is not one line of text that can be a name."""
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise UserError(f"{what} is a text of 1 to {longest} characters, not {value!r:.80}")
    if NOT_IN_NAMES.search(value) is not None:
        raise UserError(
            f"{what}, {value[:80]!r}, has control characters, line breaks or lone "
            "surrogates: leave them out"
        )
    return value


def is_tenant(name: object) -> bool:
    """Whether it is a valid tenant name."""
    return isinstance(name, str) and _TENANT.fullmatch(name) is not None
