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


def _add_middleware(app: FastAPI, config: ServerConfig, standards: Standards) -> None:
    """Put the middleware around the application, the innermost first.

    So every request is logged; host and origin are checked before anything else; the caller, its
    limits and the query are checked before the body is read, and the body before it is compared
    with an earlier request.
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
