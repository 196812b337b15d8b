"""What the roles of the store share."""

from __future__ import annotations

from ekiden.core.errors import SessionBusy, SessionNotFound
from ekiden.core.values import is_dead
from ekiden.storage.base import Claim
from ekiden.storage.postgres.connection.changes import Changes
from ekiden.storage.postgres.connection.database import Database
from ekiden.storage.postgres.rows import ClaimHandle, from_column, to_column

FREE = "(owner is null or lease_until <= clock_timestamp())"
"""Whether nobody has a live lease on the session."""


def lease(lease_s: str) -> str:
    """The columns of a lease that begins now and lasts for so many seconds; as SQL."""
    end = f"clock_timestamp() + {lease_s} * interval '1 second'"
    return f"lease_until = {end}, lapses_at = {end}"


def later_lapse(lease_s: str) -> str:
    """The `lapses_at` of one that is to last for so many seconds from now; as SQL.

    It stays as it is while half of them are left: what does not change is in no index anew.
    """
    return (
        f"case when lapses_at > clock_timestamp() + {lease_s} * interval '0.5 seconds' "
        f"then lapses_at else clock_timestamp() + {lease_s} * interval '1 second' end"
    )


_LEASE = """
select owner, extract(epoch from lease_until - clock_timestamp())::float8 as free_in_s
from sessions where id = $1"""


_EXPIRE = """
update sessions set lease_until = '-infinity', lapses_at = '-infinity'
where id = $1 and owner = $2"""


_HANDLE = "select num, token from sessions where id = $1"


class Role:
    """Base class of the parts of the store; all parts use the same database."""

    def __init__(self, database: Database, changes: Changes) -> None:
        self._database = database
        self._changes = changes

    async def _explain_not_free(self, session_id: str, *, may_be_missing: bool = False) -> None:
        """Raise `SessionNotFound` or `SessionBusy`; return if neither is so by now.

        The lease of an owner that is known to be dead expires here.
        """
        found = await self._database.query(_LEASE, to_column(session_id), repeatable=True)
        if not found:
            if may_be_missing:
                return
            raise SessionNotFound(session_id)
        owner, free_in_s = found[0]
        if owner is None or free_in_s <= 0:
            return
        if not is_dead(from_column(owner)):
            raise SessionBusy(session_id, owner=from_column(owner), free_in_s=free_in_s)
        await self._database.query(_EXPIRE, to_column(session_id), owner, repeatable=True)

    async def _handle(self, claim: Claim) -> ClaimHandle:
        """The claim's own handle, or one for a claim that was made by hand."""
        if isinstance(claim.key, ClaimHandle):
            return claim.key
        found = await self._database.query(_HANDLE, to_column(claim.session_id), repeatable=True)
        num, token = found[0] if found else (-1, 0)
        return ClaimHandle(num=num, token=token)
