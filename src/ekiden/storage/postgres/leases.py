"""The store as `LeaseStore`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ekiden.storage.base import Claim, NewSession, SessionRow
from ekiden.storage.postgres.claiming import RELEASE, Claiming, ClaimWish
from ekiden.storage.postgres.role import FREE, Role, later_lapse, lease
from ekiden.storage.postgres.rows import SESSION, claim_of, session_row
from ekiden.storage.postgres.sessions import INSERT, NEW, new_columns
from ekiden.storage.postgres.text import to_column

_TAKE = f"""
update sessions set epoch = epoch + 1, owner = $2,
    {lease("$3::float8")}
where id = $1 and {FREE} returning {SESSION}"""
_TAKE_OR_CREATE = f"""
with made as (
    {INSERT}, epoch, owner, lease_until, lapses_at)
    select {NEW}, 1, $7, ending, ending
    from clock_timestamp() as now, lateral (
        select now + $8::float8 * interval '1 second' as ending) as its
    on conflict (id) do nothing returning {SESSION}
), taken as (
    update sessions set epoch = epoch + 1, owner = $7,
        {lease("$8::float8")}
    where id = $1 and {FREE} and not exists (select from made) returning {SESSION}
)
select true as is_new, * from made union all select false, * from taken"""
# Rows are locked in the order of their numbers, as by those who wake several.
_RENEW = f"""
with held as materialized (
    select from sessions where num = any($1::bigint[]) order by num for no key update
)
update sessions set lease_until = clock_timestamp() + lease_s * interval '1 second',
    lapses_at = {later_lapse("lease_s")}
from unnest($1, $2::bigint[], $3::text[], $4::float8[])
    as claim (their_num, their_epoch, their_owner, lease_s)
where num = their_num and epoch = their_epoch and owner = their_owner
    and lease_until > clock_timestamp() and (select count(*) from held) > 0
returning num, epoch, owner"""


class Leases(Role):
    """Who may write to a session; times are the server's."""

    _claiming: Claiming

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
        wish = ClaimWish(
            owner=to_column(owner),
            lease_s=lease_s,
            agents=None if agents is None else tuple(map(to_column, agents)),
        )
        found = await self._claiming.next(wish)
        if found is None:
            return None
        return claim_of(found, owner=owner, lease_s=lease_s), session_row(found)

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
        await self._database.query(RELEASE, *args, repeatable=True)
        self._changes.changed()

    async def wait_for_change(self, timeout_s: float) -> None:
        await self._changes.wait(timeout_s)
