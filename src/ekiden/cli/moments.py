"""Times on the command line."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from ekiden.cli.errors import UsageError

_AGO = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(text: str | None, *, option: str, now: datetime | None = None) -> datetime | None:
    """The time that `text` means: a date, a date with a time, or how long ago, such as ``2h``.

    Without a time zone it is the machine's own. `UsageError` for anything else.
    """
    if text is None:
        return None
    now = (now or datetime.now()).astimezone()
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError) as exc:
        raise UsageError(
            f"{option} {text[:40]!r} is no time; give a date, such as 2025-03-01 or "
            "2025-03-01T14:30, or how long ago: 90s, 30m, 2h, 7d or 4w"
        ) from exc


def ahead(text: str, *, what: str, now: datetime | None = None) -> float:
    """In how many seconds that is which `text` means: ``90s``, ``2h``, or a time to come.

    `UsageError` for anything else.
    """
    now = (now or datetime.now()).astimezone()
    span = _AGO.fullmatch(text)
    try:
        if span is not None:
            seconds = timedelta(**{_UNITS[span[2]]: int(span[1])}).total_seconds()
        else:
            seconds = (datetime.fromisoformat(text).astimezone() - now).total_seconds()
    except (ValueError, OverflowError, OSError) as exc:
        raise UsageError(
            f"{what} {text[:40]!r} is no time to come; give how long: 90s, 30m, 2h, 7d or 4w, or a "
            "date with a time, such as 2030-03-01T14:30"
        ) from exc
    if seconds <= 0:
        raise UsageError(f"{what} {text[:40]!r} is over already")
    return seconds
