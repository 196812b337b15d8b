"""Settings: the configuration of a project or a server.

They describe the machine: paths, addresses, commands of MCP servers. So a server shows them only to
administrators of the main tenant, with secrets masked. They are changed with the command `ekiden
config`, on the machine itself.
"""

from __future__ import annotations

from typing import Annotated, Protocol

from ekiden.api.called import Called, calls, lists
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.values import ADDRESSED, Pages
from ekiden.project.settings import SettingEntry


class Settings(Protocol):
    """The current settings; secrets are masked."""

    @endpoint("GET", "/settings", scope="admin", problems=(404,), is_whole=True)
    def list(self) -> Pages[SettingEntry]:
        """List every setting with its value and source; there is one page."""
        ...

    @endpoint("GET", "/settings/{key:path}", scope="admin", problems=(404,))
    async def get(
        self,
        key: Annotated[
            str,
            Told(
                "The setting, such as `agents.routing.strategy`.",
                min_length=1,
                max_length=300,
                pattern=ADDRESSED,
            ),
        ],
    ) -> SettingEntry:
        """Get one setting."""
        ...


class CalledSettings(Called):
    """`Settings` for synchronous code."""

    list = lists(Settings.list)
    get = calls(Settings.get)
