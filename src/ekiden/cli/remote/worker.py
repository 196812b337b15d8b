"""`ekiden worker list --server`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.commands import worker as local
from ekiden.cli.output import emit
from ekiden.cli.remote.likeness import like
from ekiden.cli.worker_view import print_workers

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


@like(local.worker_list)
async def worker_list(client: AsyncClient, *, as_json: bool) -> None:
    """List the workers of the server's store."""
    found = await client.workers.list()
    if as_json:
        emit(found)
    else:
        print_workers(found)
