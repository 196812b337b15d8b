"""Stored values: JSON, ids, times, priorities, and the process names that own leases."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from json import encoder
from typing import Any, Literal, TypeAlias

from ekiden.core.errors import UserError
from ekiden.core.text.wording import lazy_pattern


class SystemClock:
    """The `Clock` of this machine."""

    __slots__ = ()

    def now_us(self) -> int:
        return time.time_ns() // 1000

    monotonic = staticmethod(time.monotonic)


SYSTEM_CLOCK = SystemClock()


_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_VALID = lazy_pattern(r"[A-Za-z0-9_\-.:@]{1,128}")
NOT_IN_NAMES = lazy_pattern("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that names and ids must not have: control characters, line breaks, lone surrogates."""
_GENERATED = lazy_pattern(r"[a-z]+_[0-9a-z]{20}(?![0-9a-z])")
_TENANT = lazy_pattern(r"[a-z0-9](?:[a-z0-9_]{0,30}[a-z0-9])?")


def new_id(prefix: str) -> str:
    """Return a new id, such as ``ses_01k9w3…``. The id contains the time in milliseconds (48 bits),
    followed by 52 random bits."""
    value = (time.time_ns() // 1_000_000) << 52 | int.from_bytes(os.urandom(7), "big") >> 4
    digits = "".join([_PAIRS[value >> at & 1023] for at in range(90, -1, -10)])
    return f"{prefix}_{digits}"


def generated_part(value: str) -> str:
    """The generated id at the start of `value`. The result is empty if `value` does not start with
    such an id."""
    found = _GENERATED.match(value)
    return "" if found is None else found.group()


def check_id(value: str, *, what: str) -> str:
    """Return `value` unchanged. Raises `UserError` if `value` is not a valid id."""
    if not _VALID.fullmatch(value) or value in (".", ".."):
        raise UserError(
            f"{value[:80]!r} is not a valid {what}: use 1 to 128 letters, digits and _ - . : @"
        )
    return value


def check_line(value: object, *, what: str, longest: int = 500) -> str:
    """Return `value` unchanged. Raises `UserError` if `value` is not a valid name. A name is one
    line of text."""
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise UserError(f"{what} must be a text of 1 to {longest} characters, not {value!r:.80}")
    if NOT_IN_NAMES.search(value) is not None:
        raise UserError(
            f"{what}, {value[:80]!r}, has control characters, line breaks or lone "
            "surrogates: leave them out"
        )
    return value


def is_tenant(name: object) -> bool:
    """Whether `name` is a valid tenant name."""
    return isinstance(name, str) and _TENANT.fullmatch(name) is not None


_NESTED = (dict, list, tuple)

loads = json.loads


def _encoder(*, is_ascii: bool) -> tuple[Callable[[Any], str], Callable[[Any], str]]:
    """A fast encoder for compact JSON, and a careful one that detects cycles.

    `json` creates a new encoder for every value, which for a small value takes as long as the
    encoding. The fast one reuses one encoder of Python's C implementation. Without the C
    implementation, both are the careful one.
    """
    careful = json.JSONEncoder(ensure_ascii=is_ascii, separators=(",", ":"), allow_nan=False).encode
    make: Any = getattr(encoder, "c_make_encoder", None)
    quote: Any = encoder.encode_basestring_ascii if is_ascii else encoder.encode_basestring
    try:
        reused = make(None, json.JSONEncoder().default, quote, None, ":", ",", False, False, False)
        # The C encoder is not a public interface of Python: check that it works as expected.
        if "".join(reused({"a": [1, None]}, 0)) != '{"a":[1,null]}':
            return careful, careful
    except (TypeError, ValueError):
        return careful, careful
    return (lambda value: "".join(reused(value, 0))), careful


_encode, _encode_carefully = _encoder(is_ascii=False)
quick_ascii, _ascii = _encoder(is_ascii=True)
"""Encodes a value as ASCII, without a check for cycles. Use this function only for values that are
known to be JSON."""

MAX_DEPTH = 200
"""The maximum nesting depth of values that callers store. Some stores cannot copy deeper values."""


def dumps(value: Any) -> str:
    """Return `value` as compact JSON text that every database accepts.

    Text stays readable UTF-8. Only text with a lone surrogate, which a model can produce with a
    broken escape, is encoded as ASCII with escapes. Raises `TypeError` or `ValueError` if `value`
    is not JSON.
    """
    try:
        text = _encode(value)
    except RecursionError:
        text = _encode_carefully(value)  # Raises `ValueError` for a cycle.
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ascii(value)
    return text


def is_too_deep(value: Any, most: int = MAX_DEPTH) -> bool:
    """Whether lists and objects in a JSON value are nested more than `most` levels deep."""
    level = [value] if isinstance(value, _NESTED) else []
    for _ in range(most):
        level = [
            each
            for part in level
            for each in (part.values() if isinstance(part, dict) else part)
            if isinstance(each, _NESTED)
        ]
        if not level:
            return False
    return bool(level)


Priority: TypeAlias = Literal["low", "normal", "high", "urgent"]

PRIORITIES: Mapping[str, int] = {"low": 1, "normal": 2, "high": 3, "urgent": 4}
"""The number of each priority. Higher numbers are processed first."""


def priority_number(value: int | str) -> int:
    """Return the number of a priority. Raises `UserError` for an invalid priority."""
    if isinstance(value, str):
        number = PRIORITIES.get(value)
        if number is not None:
            return number
    elif type(value) is int and value in (1, 2, 3, 4):
        return value
    raise UserError(f"{value!r:.40} is not a priority: low (1), normal (2), high (3) or urgent (4)")


_OWNER = lazy_pattern(r".*-(\d+)-([0-9a-f]+)-([0-9a-f]{16})", re.DOTALL)

_this: tuple[int, str, str] = (0, "", "")
"""The process id, name and machine of this process; computed again after a fork."""


def owner_name() -> str:
    """The name of this process in leases: host, process id, start time and machine.

    Outside of Linux, the start time and the machine are unknown, and a random part replaces them.
    """
    return _identity()[1]


def is_dead(owner: str) -> bool:
    """Whether the process with this name has certainly ended.

    False if this cannot be determined: the process is on another host, in another container, or
    not on Linux. The start time in the name detects a process id that was reused.
    """
    pid, name, machine = _identity()
    if not machine or owner == name or not owner.endswith(machine):
        return False
    found = _OWNER.fullmatch(owner)
    if found is None:
        return False
    number = int(found[1])
    if number != pid:
        try:
            os.kill(number, 0)
        except (ProcessLookupError, OverflowError):
            return True
        except PermissionError:
            pass  # It belongs to another user.
    try:
        start, has_ended = _state(number)
    except OSError:
        return False
    return has_ended or f"{start:x}" != found[2]


def _identity() -> tuple[int, str, str]:
    global _this
    pid = os.getpid()
    if _this[0] == pid:
        return _this
    import socket

    host = socket.gethostname()[:24]
    try:
        machine = _machine(pid)
        name = f"{host}-{pid}-{_state(pid)[0]:x}-{machine}"
    except (OSError, ValueError):
        machine = ""
        name = f"{host}-{pid}-{os.urandom(3).hex()}"
    _this = (pid, name, machine)
    return _this


def _machine(pid: int) -> str:
    """A digest of host, boot and namespaces: process ids and start times are comparable only
    within these."""
    import socket
    from hashlib import sha256

    if int(os.readlink("/proc/self")) != pid:
        raise ValueError("/proc belongs to another namespace")
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "time")]
    facts = [socket.gethostname(), boot, *spaces]
    return sha256("\n".join(facts).encode()).hexdigest()[:16]


def _state(pid: int) -> tuple[int, bool]:
    """The start time of a process in ticks since boot, and whether all its threads have ended."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    is_zombie = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return int(fields[19]), is_zombie
