"""What the loopback servers of vendors share: they check strictly, and fail as they are told."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ekiden.testing.servers.loopback import HttpReply, HttpRequest, LoopbackServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """How one request goes wrong."""

    how: Literal["status", "hang", "drop", "garbled", "lost"] = "status"
    """`lost`: what was asked is done, and the answer never comes."""
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)


def status(code: int, **headers: str) -> Trouble:
    """Answered with an error; ``retry_after="1"`` sends that header."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Trouble(status=code, headers=named)


HANG = Trouble(how="hang")
DROP = Trouble(how="drop")
GARBLED = Trouble(how="garbled")
LOST = Trouble(how="lost")


class VendorServer(LoopbackServer):
    """Answers with `answer`, unless there is trouble.

    A request that the vendor would not take is refused with 400 and is a complaint when the block
    is left, so that a wrong wire format fails the test.
    """

    def __init__(self, troubles: Iterable[Trouble | None] = ()) -> None:
        super().__init__()
        self.troubles = deque(troubles)
        """What goes wrong with the next requests, one after the other; `None` is nothing."""
        self.away: Trouble | None = None
        """What goes wrong with every request until it is taken back."""
        self.requests: list[HttpRequest] = []
        """All that came."""
        self.complaints: list[str] = []
        self._came = asyncio.Condition()

    async def answer(self, request: HttpRequest) -> Any:
        """The JSON for a request; `AssertionError` for one that is wrong."""
        raise NotImplementedError

    def error(self, code: int, message: str) -> Any:
        """The JSON of an error, as the vendor writes it."""
        raise NotImplementedError

    async def until_asked(self, count: int = 1) -> None:
        """Return once `count` requests have come."""
        async with self._came:
            await self._came.wait_for(lambda: len(self.requests) >= count)

    async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
        async with self._came:
            self.requests.append(request)
            self._came.notify_all()
        trouble = self._trouble(request)
        if trouble is not None and trouble.how != "lost":
            await self._fail(trouble, reply)
            return
        try:
            body = await self.answer(request)
        except Refused as exc:
            await reply.json(self.error(exc.status, str(exc)), status=exc.status)
            return
        except (AssertionError, KeyError, TypeError, ValueError) as exc:
            self.complaints.append(f"{request.method} {request.path}: {exc!r}")
            await reply.json(self.error(400, repr(exc)), status=400)
            return
        if trouble is not None:
            await reply.drop()
        else:
            await reply.json(body)

    def is_spared(self, request: HttpRequest) -> bool:
        """Whether the request goes well whatever trouble there is."""
        return False

    def _trouble(self, request: HttpRequest) -> Trouble | None:
        if self.is_spared(request):
            return None
        return self.troubles.popleft() if self.troubles else self.away

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        await super().__aexit__(kind, *rest)
        if kind is None:
            assert self.complaints == []

    async def _fail(self, trouble: Trouble, reply: HttpReply) -> None:
        match trouble.how:
            case "hang":
                await reply.unless_gone(asyncio.Event().wait())
            case "drop":
                await reply.drop()
            case "garbled":
                await reply.text('{"half": ')
            case _:
                error = self.error(trouble.status, "scripted")
                await reply.json(error, status=trouble.status, headers=trouble.headers)


class Refused(Exception):
    """The vendor's own refusal of a request that is well formed: no complaint."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
