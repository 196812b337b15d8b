"""Keys, for people."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.api.keys import ApiKey
from ekiden.cli.output import say
from ekiden.cli.tables import clock_time, print_table


def print_keys(keys: Sequence[ApiKey]) -> None:
    """The keys, without their secrets."""
    if not keys:
        say("there are no keys")
        return
    headers = ("id", "name", "tenant", "scopes", "status", "expires", "last used")
    print_table(headers, [_row(each) for each in keys])


def _row(key: ApiKey) -> tuple[str, ...]:
    scopes = " ".join(key.scopes)
    expires, used = _time(key.expires_at), _time(key.last_used_at)
    return (key.id, key.name, key.tenant, scopes, key.status, expires, used)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else clock_time(seconds)
