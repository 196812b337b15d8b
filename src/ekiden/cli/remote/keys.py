"""`ekiden keys … --server`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ekiden.cli.commands import keys as local
from ekiden.cli.errors import UsageError
from ekiden.cli.output import emit, note, say
from ekiden.cli.remote.likeness import like

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


@like(local.keys_create)
async def keys_create(
    client: AsyncClient,
    *,
    name: str,
    scope: tuple[Literal["read", "run", "answer", "admin"], ...],
    tenant: str,
    expires: str | None,
    as_json: bool,
) -> None:
    """Make a key for callers of the server; it is shown once."""
    from ekiden.cli.moments import ahead

    if not scope:
        raise UsageError("say what the key may do: --scope read, run, answer or admin")
    expires_s = None if expires is None else ahead(expires, what="--expires")
    made = await client.keys.create(name, scopes=scope, tenant=tenant, expires_s=expires_s)
    if as_json:
        emit(made.raw)
        return
    say(made.key)
    note("keep it: it is not shown again, and `ekiden keys revoke` makes it useless")


@like(local.keys_list)
async def keys_list(client: AsyncClient, *, tenant: str | None, as_json: bool) -> None:
    """List the keys, the oldest first, without their secrets."""
    found = [each.raw async for each in client.keys.list(tenant=tenant)]
    local.print_keys(found, as_json=as_json)


@like(local.keys_revoke)
async def keys_revoke(client: AsyncClient, *, key: str, as_json: bool) -> None:
    """Make a key useless, for ever."""
    revoked = await client.keys.revoke(key)
    if as_json:
        emit(revoked.raw)
    else:
        say(f"{revoked.id} ({revoked.name}) is revoked")
