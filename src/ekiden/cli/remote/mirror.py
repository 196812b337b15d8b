"""`ekiden mirror status --server`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.commands import mirror as local
from ekiden.cli.output import emit
from ekiden.cli.remote.likeness import like
from ekiden.cli.tables import print_pairs

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


@like(local.mirror_status)
async def mirror_status(client: AsyncClient, *, as_json: bool) -> None:
    """Show how far the server's mirror is."""
    from ekiden.sessions.mirror_status import MirrorStatus, SetAside

    found = await client.mirror.status()
    if as_json:
        emit(found)
        return
    aside = tuple(SetAside(**each) for each in found["aside"])
    print_pairs(local.status_pairs(MirrorStatus(**{**found, "aside": aside})))
