"""Options that mean something else at a server."""

from __future__ import annotations

from datetime import datetime

from ekiden.cli.errors import UsageError


def no_other_name(by: str | None) -> None:
    """`UsageError` if somebody gives a name: the server knows who it is by their key."""
    if by is not None:
        raise UsageError("leave out --by: the server tells by your key who you are")


def user_here(user: str | None) -> str | None:
    """Who is meant: the one named, else that of the settings here."""
    from ekiden.cli.projects import settings_here

    return settings_here().user if user is None else user


def then(text: str | None, *, option: str) -> datetime | None:
    """The time that `text` means here; `UsageError`."""
    from ekiden.cli.moments import moment

    return moment(text, option=option)
