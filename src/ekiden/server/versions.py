"""ETags: what was read is changed only if nobody else changed it meanwhile.

A route that shows something with a version sets ``response.headers["ETag"] = etag_of(version)``;
one that changes it takes `Matching` and asks it about the version that is stored::

    async def change(desk: Starts, item_id: ItemId, match: Matching) -> …:
        item = await desk.inbox.get(item_id)
        expected = match.check(item.version)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from fastapi import Depends, Header

from ekiden.core.server_errors import PreconditionFailed, RequestInvalid

_ETAG = re.compile(r'(?P<weak>W/)?"(?P<tag>[\x21\x23-\x7e\x80-\xff]*)"')
_ONE: Final = r'(W/)?"[!#-~\x80-\xff]*"'
_LIST: Final = rf"^(\*|{_ONE}(\s*,\s*{_ONE})*)$"
_TAGS = re.compile(_LIST)
_VERSION = re.compile(r"v([0-9]{1,18})", re.ASCII)
_MAX: Final = 2000


def etag_of(version: int) -> str:
    """The ETag of a version."""
    return f'"v{version}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What `If-Match` asks for."""

    versions: frozenset[int] | None = None
    """One of these; `None`: whatever there is."""

    @property
    def is_condition(self) -> bool:
        """Whether only certain versions may be changed."""
        return self.versions is not None

    def check(self, version: int) -> int | None:
        """The version that has to be expected when writing, `None` if any will do.

        `PreconditionFailed` if the one that is stored is not among those that were asked for.
        """
        if self.versions is None:
            return None
        if version not in self.versions:
            raise PreconditionFailed(
                "somebody changed it since it was read: read it again, and decide again"
            )
        return version


def parse_if_match(text: str | None) -> Match:
    """Read the header; `RequestInvalid` for what is no list of ETags.

    Weak tags, and tags that are not ours, fit nothing.
    """
    if text is None or text.strip() == "*":
        return Match()
    if _TAGS.fullmatch(text.strip()) is None:
        raise RequestInvalid('If-Match is no ETag; send what ETag said, with its quotes: "v3"')
    versions = set()
    for found in _ETAG.finditer(text):
        version = None if found["weak"] else _VERSION.fullmatch(found["tag"])
        if version is not None:
            versions.add(int(version[1]))
    return Match(versions=frozenset(versions))


async def _matching(
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match",
            max_length=_MAX,
            json_schema_extra={"pattern": _LIST},
            description="The ETag of what was read: only that is changed, else the answer is 412.",
        ),
    ] = None,
) -> Match:
    return parse_if_match(if_match)


Matching: TypeAlias = Annotated[Match, Depends(_matching)]
