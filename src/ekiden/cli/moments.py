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
