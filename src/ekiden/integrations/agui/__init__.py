"""Serves the team over AG-UI, the protocol between agents and web pages. Needs `ekiden[server]`."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.integrations.agui.events import agui_run_stream as agui_run_stream
    from ekiden.integrations.agui.routes import install as install

__getattr__ = lazy_names(__name__)
