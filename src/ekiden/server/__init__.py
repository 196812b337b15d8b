"""The server: HTTP, WebSocket, and standard agent protocols."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.server.application import create_app as create_app
    from ekiden.server.configuration import ServerConfig as ServerConfig

__getattr__ = lazy_names(__name__)
