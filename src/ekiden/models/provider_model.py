"""A model of a provider: retries, time-outs and translated errors around the exchange itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ekiden.core.model import ModelEvent, ModelRequest, ModelResponse
from ekiden.models.guard import check_not_blocked, origin
from ekiden.models.target import Target

if TYPE_CHECKING:
    from ekiden.models.exchange import Exchange


class ProviderModel:
    """`Model` over a provider's API.

    An attempt that fails for a passing reason (429, 5xx, no connection, time-out) is repeated as
    the target's policy says, but only as long as nothing of it was given out: once the consumer
    has seen a delta, a second attempt would tell another story, so the failure is raised.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        # A connection belongs to the event loop it was opened on, and a program may have several
        # loops after each other: every `asyncio.run` makes one.
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, _Held] = WeakKeyDictionary()

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See `Model.respond`. Raises `UserError` for a request that cannot be sent."""
        check_not_blocked(self._target.base_url)
        exchange = await self._exchange()
        call = exchange.prepare(request)
        failed = 0
        while True:
            is_seen = False
            try:
                async with aclosing(exchange.attempt(call)) as events:
                    async for event in events:
                        is_seen = True
                        if isinstance(event, ModelResponse):
                            event.attempt = failed + 1
                        yield event
                return
            except Warning:
                raise
            except Exception as exc:
                failure = exchange.failure_of(exc)
            failed += 1
            again = failure.again and not is_seen
            wait_s = self._target.retry.wait_s(failed, failure.retry_after) if again else None
            if wait_s is None:
                raise failure.error
            await self._target.retry.sleep(wait_s)

    async def aclose(self) -> None:
        """Close the connections of the running loop; the next call opens new ones.

        Not needed at the end of a program: `asyncio.run` closes what its loop has open.
        """
        held = self._open.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held.aclose()

    async def _exchange(self) -> Exchange:
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            # The packages behind it take seconds to import; the loop goes on meanwhile.
            exchange = await asyncio.to_thread(_make_exchange, self._target)
            for other in [other for other in self._open if other.is_closed()]:
                del self._open[other]
            if loop not in self._open:
                held = _Held(exchange)
                await held.start()
                self._open[loop] = held
        return self._open[loop].exchange

    def __repr__(self) -> str:
        return f"<ProviderModel {self._target.label} at {origin(self._target.base_url)}>"


class _Held:
    """An exchange that is closed with its loop.

    asyncio has no hook for the end of a loop, but `asyncio.run` closes the asynchronous
    generators that are still open then: one that waits at its `yield` is such a hook.
    """

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._keeper = _keep(exchange)

    async def start(self) -> None:
        await anext(self._keeper)

    async def aclose(self) -> None:
        await self._keeper.aclose()


async def _keep(exchange: Exchange) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await exchange.aclose()


def _make_exchange(target: Target) -> Exchange:
    from ekiden.models.exchange import Exchange

    return Exchange(target)
