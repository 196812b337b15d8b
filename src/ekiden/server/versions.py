"""ETags: a change is refused if the data has changed since it was read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

from fastapi import Depends, Header

from ekiden.core.errors.server import RequestInvalid

_ETAG = re.compile(r'(?P<weak>W/)?"(?P<tag>[\x21\x23-\x7e\x80-\xff]*)"')
_ONE: Final = r'(W/)?"[!#-~\x80-\xff]*"'
_LIST: Final = rf"^(\*|{_ONE}(\s*,\s*{_ONE})*)$"
_TAGS = re.compile(_LIST)
_VERSION = re.compile(r"(?:v|[a-z]+-)([0-9]{1,18})", re.ASCII)
"""`v3`, or `open-3` with the status of what has one."""
_MAX: Final = 2000

Versions: TypeAlias = int | Sequence[int] | None
"""A version that was read, one of several, or `None`: whatever there is."""


def etag_of(version: int) -> str:
    """The ETag of a version."""
    return f'"v{version}"'


def parse_if_match(text: str | None) -> Versions:
    """Read the header; `RequestInvalid` for what is no list of ETags.

    Weak tags, and tags that are not ours, fit nothing.
    """
    if text is None or text.strip() == "*":
        return None
    if _TAGS.fullmatch(text.strip()) is None:
        raise RequestInvalid('If-Match is no ETag; send what ETag said, with its quotes: "v3"')
    tags = [found["tag"] for found in _ETAG.finditer(text) if not found["weak"]]
    versions = [int(found[1]) for found in map(_VERSION.fullmatch, tags) if found is not None]
    return versions[0] if len(versions) == 1 else versions


async def _matching(
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match",
            max_length=_MAX,
            json_schema_extra={"pattern": _LIST},
            description="The ETag that was read: if it has changed, the status is 412.",
        ),
    ] = None,
) -> Versions:
    return parse_if_match(if_match)


Matching: TypeAlias = Annotated[Versions, Depends(_matching)]
