"""Which formats of a store which Ekiden can use.

A store's format is the number of the last migration that ran. A migration that only adds says in
its first line with which format code must be acquainted to go on working beside it::

    -- works with: 4

Then processes that know format 4 use the store together with those that know the new one, which is
what a rolling upgrade needs. A migration that does not say so breaks with what was before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ekiden.core.errors import StoreTooNew

_WORKS_WITH = re.compile(r"-- works with: ([1-9][0-9]{0,8})\s*(?:\n|$)")


def works_with(sql: str) -> int | None:
    """The oldest format whose code can use a store in which this migration ran; `None`: only code
    that knows the migration can."""
    found = _WORKS_WITH.match(sql)
    return None if found is None else int(found[1])


def check_newer(where: str, *, known: int, ran: Mapping[int, int | None], found: int) -> None:
    """`StoreTooNew` if code that knows format `known` cannot use a store of format `found`.

    `ran`: the migrations that ran, each with the format that it works with. One that is missing, or
    says nothing, is taken for one that breaks.
    """
    for number in range(known + 1, found + 1):
        oldest = ran.get(number)
        if oldest is None or oldest > known:
            raise StoreTooNew(where, found=found, known=known)
