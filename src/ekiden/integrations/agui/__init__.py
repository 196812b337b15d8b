"""The team behind AG-UI, the protocol between agents and the pages that show them."""

from ekiden.integrations import web as web
from ekiden.integrations.agui.routes import install
from ekiden.integrations.agui.stream import agui_run_stream

__all__ = ["agui_run_stream", "install"]
