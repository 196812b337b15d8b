"""Wiring: from names, addresses and folders to stores, teams and projects."""

from typing import TYPE_CHECKING

from ekiden.core.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.app.project import Project as Project
    from ekiden.app.project import load_project as load_project
    from ekiden.app.settings import Settings as Settings
    from ekiden.app.settings import load_settings as load_settings
    from ekiden.app.stores import open_store as open_store
    from ekiden.app.teams import load_team as load_team

__all__ = [
    "Project",
    "Settings",
    "load_project",
    "load_settings",
    "load_team",
    "open_store",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Project": "ekiden.app.project",
        "Settings": "ekiden.app.settings",
        "load_project": "ekiden.app.project",
        "load_settings": "ekiden.app.settings",
        "load_team": "ekiden.app.teams",
        "open_store": "ekiden.app.stores",
    },
)
