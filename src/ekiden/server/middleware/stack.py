"""The order of what every request goes through."""

from __future__ import annotations

from fastapi import FastAPI

from ekiden.server.configuration import ServerConfig
from ekiden.server.middleware.access_log import AccessLog
from ekiden.server.middleware.authentication import Authentication
from ekiden.server.middleware.bodies import Bodies
from ekiden.server.middleware.concurrency_limit import ConcurrencyLimit, Shares
from ekiden.server.middleware.origins import Origins
from ekiden.server.middleware.queries import Queries
from ekiden.server.middleware.repeats import Repeats
from ekiden.server.middleware.standards_on_demand import StandardsOnDemand
from ekiden.server.standards import Standards


def install(app: FastAPI, config: ServerConfig, standards: Standards) -> None:
    """Put everything around the application, the innermost first.

    So a request is told of, whatever becomes of it; its host and origin are known before anything
    else is asked; there is a caller, who has room, and whose query is known before its body is
    read, and a body that was checked before it is compared with an earlier one.
    """
    app.add_middleware(Repeats)
    app.add_middleware(Bodies, config=config)
    app.add_middleware(Queries)
    app.add_middleware(StandardsOnDemand, standards=standards)
    app.add_middleware(Shares, config=config)
    app.add_middleware(Authentication)
    app.add_middleware(ConcurrencyLimit, config=config)
    app.add_middleware(Origins, config=config)
    app.add_middleware(AccessLog)
