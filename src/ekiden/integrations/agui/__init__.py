"""The team behind AG-UI, the protocol between agents and the pages that show them."""

from ekiden.integrations import web as web
from ekiden.integrations.agui.events import agui_run_stream as agui_run_stream
from ekiden.integrations.agui.routes import install as install
