"""Which agent would get a request, without running anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.app.addressing import AUTO, AddressedMessage

if TYPE_CHECKING:
    from ekiden.app.project import Project
    from ekiden.routing.decision import RouteDecision


async def decide(project: Project, address: AddressedMessage, *, limit: int = 20) -> RouteDecision:
    """What routing says of a request, with at most `limit` candidates; `UnknownAgent` for a name
    that nobody has."""
    if address.to is None or address.to == AUTO:
        return await project.router.route(address.text, strategy=address.strategy, limit=limit)
    return project.router.named(address.to)
