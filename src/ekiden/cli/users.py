"""For whom a command works."""

from __future__ import annotations

from ekiden.cli.errors import UsageError
from ekiden.core.errors import SessionNotFound
from ekiden.storage.base import Store


async def check_owner(store: Store, session_id: str | None, user: str | None) -> None:
    """`UsageError` if a session that is there is another user's than the one that was named."""
    if session_id is None or user is None:
        return
    try:
        row = await store.get(session_id)
    except SessionNotFound:
        return
    if row.user_id != user:
        whose = "nobody's" if row.user_id is None else f"of the user {row.user_id!r}"
        raise UsageError(
            f"session {session_id} is {whose}, not of {user!r}: leave out --user, or the setting "
            "`user`, or begin another session"
        )
