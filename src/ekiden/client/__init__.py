"""The Python client of an Ekiden server, asynchronous or synchronous, with typed methods for all
resources."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.api.methods.values import Page as Page
    from ekiden.api.sessions import (
        SessionDetails as SessionDetails,
        SessionSummary as SessionSummary,
    )
    from ekiden.api.traces import LiveEvent as LiveEvent, Position as Position
    from ekiden.client.clients import AsyncClient as AsyncClient, Client as Client
    from ekiden.client.ekiden import Ekiden as Ekiden
    from ekiden.client.errors import (
        ClientMisconfigured as ClientMisconfigured,
        ServerProblem as ServerProblem,
        ServerUnavailable as ServerUnavailable,
    )
    from ekiden.core.runs import Run as Run, RunStarted as RunStarted

__all__ = [
    "AsyncClient",
    "Client",
    "ClientMisconfigured",
    "Ekiden",
    "LiveEvent",
    "Page",
    "Position",
    "Run",
    "RunStarted",
    "ServerProblem",
    "ServerUnavailable",
    "SessionDetails",
    "SessionSummary",
]

__getattr__ = lazy_names(__name__)
