"""`/events`: a WebSocket that shows what happens."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocket

from ekiden.core.errors import EkidenError
from ekiden.server.access.access import needs
from ekiden.server.access.authorization import subprotocol_of
from ekiden.server.middleware.query_marks import takes_query
from ekiden.server.problem_responses import response_of
from ekiden.server.streams.live import IN_QUERY, LiveConnection, from_query
from ekiden.server.streams.sse import Streams

router = APIRouter(tags=["events"])

_reads = needs("read")


@router.websocket("/events")
@takes_query(*IN_QUERY)
async def watch_events(socket: WebSocket) -> None:
    """Live events of all sessions, of an agent, or of the inbox.

    A caller without the scope `read` is refused before the connection is accepted.
    """
    streams: Streams = socket.app.state.streams
    try:
        desk = await _reads(HTTPConnection(socket.scope))
        first = from_query(socket.query_params)
        leave = streams.admit("websocket")
    except EkidenError as exc:
        await socket.send_denial_response(response_of(exc))
        return
    try:
        await socket.accept(subprotocol=subprotocol_of(socket))
        heartbeat_s: float = socket.app.state.config.heartbeat_s
        await LiveConnection(socket, desk, heartbeat_s=heartbeat_s).run(first)
    finally:
        leave()
