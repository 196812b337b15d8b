"""The base class of the store's parts, and the SQL of leases."""

from __future__ import annotations

from ekiden.core.errors import SessionBusy, SessionNotFound
from ekiden.core.values import is_dead
from ekiden.storage.base import Claim
from ekiden.storage.postgres.connection.changes import Changes
from ekiden.storage.postgres.connection.database import Database
from ekiden.storage.postgres.rows import ClaimHandle, from_column, to_column

FREE = "(owner is null or lease_until <= clock_timestamp())"
"""The SQL condition that the session has no valid lease."""


def lease(lease_s: str) -> str:
    """The SQL assignments of a lease that begins now and lasts `lease_s` seconds."""
    end = f"clock_timestamp() + {lease_s} * interval '1 second'"
    return f"lease_until = {end}, lapses_at = {end}"


def later_lapse(lease_s: str) -> str:
    """The SQL expression of `lapses_at` for a lease that is extended to `lease_s` seconds.

    `lapses_at` is indexed and may be earlier than the end of the lease. It stays as it is while at
    least half of the time is left, so most renewals write to no index.
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
    """Base class of the store's parts. They share the connection pool and the change signal."""

    def __init__(self, database: Database, changes: Changes) -> None:
        self._database = database
        self._changes = changes

    async def _explain_not_free(self, session_id: str, *, may_be_missing: bool = False) -> None:
        """Raise `SessionNotFound` or `SessionBusy`; return if the session is free by now.

        Ends the lease of an owner that is known to be dead.
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
        """The claim's handle, or a new one for a claim that this store did not create."""
        if isinstance(claim.key, ClaimHandle):
            return claim.key
        found = await self._database.query(_HANDLE, to_column(claim.session_id), repeatable=True)
        num, token = found[0] if found else (-1, 0)
        return ClaimHandle(num=num, token=token)
