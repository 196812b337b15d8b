"""Serves the team over AG-UI, the protocol between agents and web pages. Needs `ekiden[server]`."""

from ekiden.core.integrations.lazy import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "agui_run_stream": "ekiden.integrations.agui.events",
        "install": "ekiden.integrations.agui.routes",
    },
)
