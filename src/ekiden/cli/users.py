"""For whom a command works."""

from __future__ import annotations

from typing import Protocol

from ekiden.cli.errors import UsageError
from ekiden.core.errors import SessionNotFound


class Owned(Protocol):
    """A session, as far as it is somebody's."""

    @property
    def user_id(self) -> str | None: ...


class HasSessions(Protocol):
    """A store, or the sessions of a server."""

    async def get(self, session_id: str, /) -> Owned: ...


def user_here(user: str | None) -> str | None:
    """Who is meant: the one named, else that of the settings here."""
    from ekiden.cli.projects import settings_here

    return settings_here().user if user is None else user


async def check_owner(sessions: HasSessions, session_id: str | None, user: str | None) -> None:
    """`UsageError` if a session that is there is another user's than the one that was named."""
    if session_id is None or user is None:
        return
    try:
        found = await sessions.get(session_id)
    except SessionNotFound:
        return
    if found.user_id != user:
        whose = "nobody's" if found.user_id is None else f"of the user {found.user_id!r}"
        raise UsageError(
            f"session {session_id} is {whose}, not of {user!r}: leave out --user, or the setting "
            "`user`, or begin another session"
        )
