"""What can go wrong between a realtime session and its model.

ModelError
├── RealtimeUnavailable       no connection could be made
├── RealtimeDisconnected      the connection broke; the session is over
└── RealtimeServerError       the provider complains; the session goes on
UserError
└── RealtimeClosed            something was sent after the session ended
"""

from __future__ import annotations

from ekiden.core.errors import ModelError, UserError


class RealtimeUnavailable(ModelError):
    """No connection to the realtime model could be made."""

    code = "realtime.unavailable"


class RealtimeDisconnected(ModelError):
    """The connection to the realtime model was lost; the session has ended.

    A durable session keeps what was recorded: run it again to continue with the same agent.
    """

    code = "realtime.disconnected"

    def __init__(self, message: str, *, close_code: int | None = None) -> None:
        super().__init__(message)
        self.close_code = close_code
        """As WebSocket numbers it; `None` when the other side just vanished."""


class RealtimeServerError(ModelError):
    """The provider reports an error in the conversation; the session continues."""

    code = "realtime.server_error"

    def __init__(
        self, message: str, *, server_code: str | None = None, event_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.server_code = server_code
        """The provider's own code for it."""
        self.event_id = event_id
        """Which of our messages it is about, if the provider says."""


class RealtimeClosed(UserError):
    """A realtime session was used while it is not open."""

    code = "realtime.closed"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: use a realtime session inside its `async with` block, "
            "and make a new one with RealtimeRunner.run()"
        )
