"""The Python client: what a server can do, typed, to be awaited or to be called."""

from typing import TYPE_CHECKING

from ekiden.core.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.client.clients import AsyncClient as AsyncClient
    from ekiden.client.clients import Client as Client
    from ekiden.client.errors import ClientMisconfigured as ClientMisconfigured
    from ekiden.client.errors import ServerProblem as ServerProblem
    from ekiden.client.errors import ServerUnavailable as ServerUnavailable
    from ekiden.client.events import LiveEvent as LiveEvent
    from ekiden.client.events import Position as Position
    from ekiden.client.handoffs import Handoff as Handoff
    from ekiden.client.handoffs import HandoffEnd as HandoffEnd
    from ekiden.client.streams import Page as Page
    from ekiden.client.values import Begun as Begun
    from ekiden.client.values import Run as Run
    from ekiden.client.values import SessionDetails as SessionDetails
    from ekiden.client.values import SessionSummary as SessionSummary

__all__ = [
    "AsyncClient",
    "Begun",
    "Client",
    "ClientMisconfigured",
    "Handoff",
    "HandoffEnd",
    "LiveEvent",
    "Page",
    "Position",
    "Run",
    "ServerProblem",
    "ServerUnavailable",
    "SessionDetails",
    "SessionSummary",
]

__getattr__ = lazy_names(
    __name__,
    {
        "AsyncClient": "ekiden.client.clients",
        "Begun": "ekiden.client.values",
        "Client": "ekiden.client.clients",
        "ClientMisconfigured": "ekiden.client.errors",
        "Handoff": "ekiden.client.handoffs",
        "HandoffEnd": "ekiden.client.handoffs",
        "LiveEvent": "ekiden.client.events",
        "Page": "ekiden.client.streams",
        "Position": "ekiden.client.events",
        "Run": "ekiden.client.values",
        "ServerProblem": "ekiden.client.errors",
        "ServerUnavailable": "ekiden.client.errors",
        "SessionDetails": "ekiden.client.values",
        "SessionSummary": "ekiden.client.values",
    },
)
