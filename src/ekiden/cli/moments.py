"""Times on the command line."""

from __future__ import annotations

from datetime import datetime, timedelta

from ekiden.app.moments import AGO, UNITS, read_moment
from ekiden.cli.errors import UsageError


def moment(text: str | None, *, option: str, now: datetime | None = None) -> datetime | None:
    """The time that `text` means: a date, a date with a time, or how long ago, such as ``2h``.

    Without a time zone it is the machine's own. `UsageError` for anything else.
    """
    if text is None:
        return None
    try:
        return read_moment(text, now=now)
    except (ValueError, OverflowError) as exc:
        raise UsageError(
            f"{option} {text[:40]!r} is no time; give a date, such as 2025-03-01 or "
            "2025-03-01T14:30, or how long ago: 90s, 30m, 2h, 7d or 4w"
        ) from exc


def ahead(text: str, *, what: str, now: datetime | None = None) -> float:
    """In how many seconds that is which `text` means: ``90s``, ``2h``, or a time to come.

    `UsageError` for anything else.
    """
    now = (now or datetime.now()).astimezone()
    span = AGO.fullmatch(text)
    try:
        if span is not None:
            seconds = timedelta(**{UNITS[span[2]]: int(span[1])}).total_seconds()
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
