"""Wiring: from names and addresses to stores and teams."""

from typing import TYPE_CHECKING

from ekiden.core.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.app.stores import open_store as open_store
    from ekiden.app.teams import load_team as load_team

__all__ = ["load_team", "open_store"]

__getattr__ = lazy_names(
    __name__, {"load_team": "ekiden.app.teams", "open_store": "ekiden.app.stores"}
)
