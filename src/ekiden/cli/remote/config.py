"""`ekiden config … --server`: looking only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ekiden.cli.commands import config as local
from ekiden.cli.output import emit, say
from ekiden.cli.remote.likeness import like
from ekiden.cli.tables import print_table
from ekiden.core.errors import UnknownSetting

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


@like(local.config_list)
async def config_list(client: AsyncClient, *, as_json: bool) -> None:
    """List every setting of the server."""
    from ekiden.app.settings import Origin

    entries = [each async for each in client.settings.list()]
    if as_json:
        emit([each.raw for each in entries])
        return
    rows = [(each.key, local.shown(each.value), str(Origin(**each.origin))) for each in entries]
    print_table(("key", "value", "origin"), rows)


@like(local.config_get)
async def config_get(client: AsyncClient, *, key: str, as_json: bool) -> None:
    """Print the value of a setting of the server, or of a group of them as an object; secrets are
    hidden."""
    entries = {each.key: each.value async for each in client.settings.list()}
    value = entries[key] if key in entries else _group(entries, key)
    if as_json:
        emit(value)
    else:
        say(local.shown(value))


def _group(entries: dict[str, Any], key: str) -> dict[str, Any]:
    group: dict[str, Any] = {}
    for name, value in entries.items():
        if not name.startswith(f"{key}."):
            continue
        *path, last = name.removeprefix(f"{key}.").split(".")
        place = group
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    if not group:
        raise UnknownSetting(key, near=None, known=sorted(entries))
    return group
