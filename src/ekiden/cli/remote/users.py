"""For whom a command works at a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.errors import UsageError
from ekiden.core.errors import SessionNotFound

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


async def check_owner(client: AsyncClient, session_id: str | None, user: str | None) -> None:
    """`UsageError` if a session that is there is another user's than the one that was named."""
    if session_id is None or user is None:
        return
    try:
        found = await client.sessions.get(session_id)
    except SessionNotFound:
        return
    if found.user_id != user:
        whose = "nobody's" if found.user_id is None else f"of the user {found.user_id!r}"
        raise UsageError(
            f"session {session_id} is {whose}, not of {user!r}: leave out --user, or begin another "
            "session"
        )
