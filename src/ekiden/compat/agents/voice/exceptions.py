"""Errors of voice."""

from ekiden.compat.agents.exceptions import AgentsException


class STTWebsocketConnectionError(AgentsException):
    """The connection to the transcription model failed."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
