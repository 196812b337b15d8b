"""`/settings`: with what the server runs.

Settings tell of the machine: paths, addresses, commands of MCP servers. So only keys with the scope
`admin` of the tenant `default`, which is that of whoever runs the server, see them, and secrets in
them nobody. They are changed with the command `ekiden config`, on the machine itself.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from ekiden.api.texts import ADDRESSED
from ekiden.app.desk import Desk
from ekiden.app.records.settings import setting_record
from ekiden.app.settings import Entry
from ekiden.app.tenants import DEFAULT_TENANT
from ekiden.core.server_errors import NotServed
from ekiden.server.access import Administers
from ekiden.server.answers import answer, page
from ekiden.server.models.settings import SettingModel
from ekiden.server.paging import Page
from ekiden.server.problems import problems

router = APIRouter(prefix="/settings", tags=["settings"])


@router.get("", response_model=Page[SettingModel], responses=problems(404))
async def list_settings(desk: Administers) -> Response:
    """Every setting with its value and where that comes from; there is one page."""
    return page(setting_record(entry) for entry in _entries(desk))


@router.get("/{key:path}", response_model=SettingModel, responses=problems(404))
async def get_setting(
    desk: Administers,
    key: Annotated[
        str,
        Path(
            min_length=1,
            max_length=300,
            pattern=ADDRESSED,
            description="The setting, such as `agents.routing.strategy`.",
        ),
    ],
) -> Response:
    """One setting."""
    for entry in _entries(desk):
        if entry.name == key:
            return answer(setting_record(entry))
    raise NotServed(f"no setting is called {key[:80]!r}; the list of settings has all")


def _entries(desk: Desk) -> list[Entry]:
    """All settings; `NotServed` for those who only use the server."""
    if desk.tenant != DEFAULT_TENANT:
        raise NotServed("there are no settings here: they are those of whoever runs the server")
    return list(desk.project.loaded.entries())
