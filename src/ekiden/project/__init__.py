"""Opens stores by address, and loads settings, teams and projects."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.project.project import (
        Project as Project,
        load_project as load_project,
        load_team as load_team,
    )
    from ekiden.project.settings import Settings as Settings, load_settings as load_settings
    from ekiden.project.stores import open_store as open_store

__getattr__ = lazy_names(__name__)
