"""Whose memories: a name for every user of every app, that no other can be made to have."""

from __future__ import annotations

from hashlib import sha256

from ekiden.core.errors.memory import NoMemory
from ekiden.core.profile import MemoryScope

DEFAULT_APP = "ekiden"
"""Where no app is named; the command's settings say the same."""


def space_of(scope: MemoryScope, *, app: str | None, user: str | None) -> str:
    """The space of the user's memories in the app, or of the app's own; `NoMemory` without a user.

    Without a name, the app is ``ekiden``, the default of the command's settings: so `ekiden memory`
    finds what a program's agents remember.

    All agents that work for a user in an app share their memories. An id counts exactly as written,
    including case: the name is a hash of all parts, each with its length, so no id can collide with
    another part.
    """
    app = app or DEFAULT_APP
    if scope == "user":
        if not user:
            raise NoMemory(
                "nothing can be remembered or recalled: this memory is a user's, and the session "
                "has no user (`Session(user_id=…)`, `--user`, or the setting `user`)"
            )
        return f"memory.user.{_hash(app, user)}"
    return f"memory.app.{_hash(app)}"


def _hash(*parts: str) -> str:
    digest = sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b;" % (len(raw), raw))
    return digest.hexdigest()
