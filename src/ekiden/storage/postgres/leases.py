"""The store as `LeaseStore`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ekiden.storage.base import Claim, NewSession, SessionRow
from ekiden.storage.postgres.role import FREE, Role
from ekiden.storage.postgres.rows import READY_NOW, SESSION, claim_of, session_row
from ekiden.storage.postgres.sessions import INSERT, NEW, new_columns
from ekiden.storage.postgres.text import to_column

_TAKE = f"""
update sessions set epoch = epoch + 1, owner = $2,
    lease_until = clock_timestamp() + $3::float8 * interval '1 second'
where id = $1 and {FREE} returning {SESSION}"""
_TAKE_OR_CREATE = f"""
with made as (
    {INSERT}, epoch, owner, lease_until)
    select {NEW}, 1, $7, now + $8::float8 * interval '1 second'
    from clock_timestamp() as now
    on conflict (id) do nothing returning {SESSION}
), taken as (
    update sessions set epoch = epoch + 1, owner = $7,
        lease_until = clock_timestamp() + $8::float8 * interval '1 second'
    where id = $1 and {FREE} and not exists (select from made) returning {SESSION}
)
select true as is_new, * from made union all select false, * from taken"""
_TAKE_FIRST = f"""
with next as (
    select num as found from sessions where status = 'ready' and {FREE}{{and_wanted}}
    order by ready_at, num limit 1 for update skip locked
)
update sessions set epoch = epoch + 1, owner = $1,
    lease_until = clock_timestamp() + $2::float8 * interval '1 second'
from next where num = found returning {SESSION}"""
_TAKE_NEXT = _TAKE_FIRST.format(and_wanted="")
# The line is gone through in its order only if there is anything to be found in it: else a worker
# that has nothing to do would, each time it looks, read all that others have to do.
TAKE_NEXT_OF = _TAKE_FIRST.format(
    and_wanted=f""" and agent = any($3::text[]) and exists (
        select from unnest($3) as wanted (name) cross join lateral (
            select from sessions where status = 'ready' and agent = name and {FREE}
            order by ready_at limit 1
        ) as first)"""
)
# Rows are locked in the order of their numbers, as by those who wake several.
_RENEW = """
with held as materialized (
    select from sessions where num = any($1::bigint[]) order by num for no key update
)
update sessions set lease_until = clock_timestamp() + lease_s * interval '1 second'
from unnest($1, $2::bigint[], $3::text[], $4::float8[])
    as claim (their_num, their_epoch, their_owner, lease_s)
where num = their_num and epoch = their_epoch and owner = their_owner
    and lease_until > clock_timestamp() and (select count(*) from held) > 0
returning num, epoch, owner"""
_RELEASE = f"""
update sessions set owner = null, lease_until = null,
    ready_at = case when status = 'ready' then {READY_NOW} else ready_at end
where num = $1 and epoch = $2 and owner = $3"""


class Leases(Role):
    """Who may write to a session; times are the server's."""

    async def claim(
        self, session_id: str, *, owner: str, lease_s: float, create: NewSession | None = None
    ) -> tuple[Claim, SessionRow]:
        taker = to_column(owner)
        while True:
            if create is None:
                found = await self._database.query(_TAKE, to_column(session_id), taker, lease_s)
            else:
                args = (*new_columns(create), taker, lease_s)
                found = await self._database.query(_TAKE_OR_CREATE, *args)
                if found and found[0]["is_new"]:
                    self._changes.changed()
            if found:
                return claim_of(found[0], owner=owner, lease_s=lease_s), session_row(found[0])
            await self._explain_not_free(session_id, may_be_missing=create is not None)

    async def claim_next(
        self, *, owner: str, lease_s: float, agents: Collection[str] | None = None
    ) -> tuple[Claim, SessionRow] | None:
        taker = to_column(owner)
        if agents is None:
            found = await self._database.query(_TAKE_NEXT, taker, lease_s)
        else:
            wanted = [to_column(agent) for agent in agents]
            found = await self._database.query(TAKE_NEXT_OF, taker, lease_s, wanted)
        if not found:
            return None
        return claim_of(found[0], owner=owner, lease_s=lease_s), session_row(found[0])

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        if not claims:
            return []
        nums = [(await self._handle(claim)).num for claim in claims]
        owned = [
            (num, claim.epoch, to_column(claim.owner))
            for num, claim in zip(nums, claims, strict=True)
        ]
        columns = [*map(list, zip(*owned, strict=True)), [claim.lease_s for claim in claims]]
        renewed = await self._database.query(_RENEW, *columns, repeatable=True)
        kept = {tuple(row) for row in renewed}
        return [claim for row, claim in zip(owned, claims, strict=True) if row not in kept]

    async def release(self, claim: Claim) -> None:
        num = (await self._handle(claim)).num
        args = (num, claim.epoch, to_column(claim.owner))
        await self._database.query(_RELEASE, *args, repeatable=True)
        self._changes.changed()

    async def wait_for_change(self, timeout_s: float) -> None:
        await self._changes.wait(timeout_s)
