"""Asking the model for one answer at a time: it refuses a request while it is answering."""

from __future__ import annotations

from itertools import count

from ekiden.realtime.errors import RealtimeServerError
from ekiden.realtime.model import RealtimeConnection, RealtimeModelRequestResponse

_ALREADY_ACTIVE = "conversation_already_has_active_response"


class ResponseGate:
    """Passes a request on at once, or when the answer under way is over; several become one."""

    def __init__(self, connection: RealtimeConnection) -> None:
        self._connection = connection
        self._numbers = count(1)
        self._asked: str | None = None
        self._is_wanted = False
        self.is_busy = False
        """Whether an answer is under way, or was asked for and has not begun."""

    async def request(self) -> None:
        """The model shall answer."""
        if self.is_busy:
            self._is_wanted = True
            return
        self.is_busy, self._is_wanted = True, False
        self._asked = f"ask_{next(self._numbers)}"
        await self._connection.send(RealtimeModelRequestResponse(event_id=self._asked))

    def started(self) -> None:
        """An answer began, asked for or not."""
        self.is_busy, self._asked = True, None

    async def ended(self, *, goes_on: bool) -> None:
        """The answer is over; `goes_on` if a request follows anyway, once its calls are made."""
        self.is_busy = False
        if self._is_wanted and not goes_on:
            await self.request()

    def failed(self, error: Exception) -> bool:
        """Look at an error of the model's; gives whether it was one that the gate deals with."""
        if not isinstance(error, RealtimeServerError):
            return False
        if error.server_code == _ALREADY_ACTIVE:
            self.is_busy = self._is_wanted = True
            return True
        if self._asked is not None and error.event_id in (None, self._asked):
            self.is_busy, self._asked = False, None
        return False
