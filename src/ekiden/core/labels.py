"""Labels: what a place has that some agents need, such as a graphics card or a network."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ekiden.core.errors import UserError

LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?"
WANTED: Final = (
    "a label has up to 63 letters, digits and . _ / -, with a letter or digit at both ends"
)
_LABEL = re.compile(LABEL)


def check_labels(labels: object, whose: str) -> frozenset[str]:
    """The labels as a set; `UserError`, which begins with `whose`, for what are none."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise UserError(f"{whose} must be a set of texts, such as {{'gpu'}}, not {labels!r:.60}")
    found = list(labels)
    for each in found:
        if not is_label(each):
            raise UserError(f"{whose} have {each!r:.80}: {WANTED}")
    return frozenset(found)


def is_label(value: object) -> bool:
    """Whether it can be a label."""
    return isinstance(value, str) and _LABEL.fullmatch(value) is not None
