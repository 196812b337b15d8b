"""`ekiden keys …`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ekiden.api.endpoint import Scope
from ekiden.cli.errors import UsageError
from ekiden.cli.ids import key_id
from ekiden.cli.options import WHOLE, JsonOption, WholeListing
from ekiden.cli.place import HERE, Place
from ekiden.cli.terminal.output import emit, note, say
from ekiden.cli.terminal.prompts import YesOption, confirm


async def keys_create(
    name: Annotated[str, Parameter(help="The owner or purpose of the key.")],
    /,
    *,
    scope: Annotated[
        tuple[Scope, ...],
        Parameter(
            name="--scope",
            negative="",
            show_default=False,
            help="What the key may do; may be given more than once.",
        ),
    ] = (),
    tenant: Annotated[
        str,
        Parameter(
            name="--tenant",
            help="The tenant whose sessions it sees; each tenant has its own store.",
        ),
    ] = "default",
    expires: Annotated[
        str | None,
        Parameter(
            name="--expires", help="How long the key is valid: 12h, 30d; by default until revoked."
        ),
    ] = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Create an API key for the server; it is shown once, and only its hash is stored.

    `read` reads everything, `run` starts runs and changes sessions, `answer` answers inbox items,
    `history` lets `run` store system messages and tool calls as sent, `admin` may do everything.
    Once a key exists, every caller needs one.
    """
    from ekiden.cli.options import ahead
    from ekiden.core.documents import to_json

    if not scope:
        raise UsageError("name the key's scopes: --scope read, run, answer, history or admin")
    expires_s = None if expires is None else ahead(expires, what="--expires")
    async with place.open(create=True, kept="keys") as ekiden:
        made = await ekiden.keys.create(name, scopes=scope, tenant=tenant, expires_s=expires_s)
    if as_json:
        emit(to_json(made))
        return
    say(made.key)
    note("keep it: it is not shown again; `ekiden keys revoke` revokes it")


async def keys_list(
    *,
    tenant: Annotated[
        str | None, Parameter(name="--tenant", help="Only keys of this tenant.")
    ] = None,
    listing: WholeListing = WHOLE,
    place: Place = HERE,
) -> None:
    """List the keys, oldest first, without their secrets."""
    from ekiden.cli.views.administration import key_table

    async with place.open(kept="keys") as ekiden:
        await listing.show(ekiden.keys.list(tenant=tenant), key_table, none="there are no keys")


async def keys_revoke(
    key: Annotated[str, Parameter(help="The key's id, as `ekiden keys list` shows it.")],
    /,
    *,
    yes: YesOption = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Revoke a key for good; servers refuse it within about a second."""
    from ekiden.core.documents import to_json

    async with place.open(kept="keys") as ekiden:
        key = await key_id(ekiden, key)
        known = {each.id: each.name async for each in ekiden.keys.list()}
        if key in known:
            confirm(f"revoke the key {key} ({known[key]})", yes=yes)
        revoked = await ekiden.keys.revoke(key)
    if as_json:
        emit(to_json(revoked))
    else:
        say(f"{revoked.id} ({revoked.name}) is revoked")
