"""Times as people write them: a date, a date with a time, or how long ago."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from typing import Final

AGO: Final = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_moment(text: str, *, now: datetime | None = None, zone: tzinfo | None = None) -> datetime:
    """The time in `text`; `ValueError` or `OverflowError` for an invalid one.

    A time without a zone is in `zone`, or in the machine's own.
    """
    now = (now or datetime.now()).astimezone()
    ago = AGO.fullmatch(text)
    if ago is not None:
        return now - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    found = datetime.fromisoformat(text)
    if found.tzinfo is None and zone is not None:
        found = found.replace(tzinfo=zone)
    try:
        return found.astimezone()
    except OSError as exc:
        raise ValueError(f"{text[:40]!r} is too far away") from exc
