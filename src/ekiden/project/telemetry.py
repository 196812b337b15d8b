"""Traces of all tenants to an OpenTelemetry collector, if the environment says where one is."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Protocol

from ekiden.core.errors import UserError
from ekiden.storage.base import Store

if TYPE_CHECKING:
    from ekiden.tracing.otel.follower import OtelFollower

_log = logging.getLogger("ekiden.otel")

TENANT = "ekiden.tenant"
"""The attribute of every span that names its tenant."""
_GRACE_S = 1.0


class Watched(Protocol):
    """A tenant's store: a desk, or what a worker serves."""

    @property
    def tenant(self) -> str:
        """Whose it is."""
        ...

    @property
    def store(self) -> Store:
        """Where it is kept."""
        ...


class Telemetry:
    """A follower for each tenant; of one event loop. It does nothing unless
    ``OTEL_EXPORTER_OTLP_ENDPOINT``, or another of the standard variables, asks for it.

    For example::

        telemetry = Telemetry()
        telemetry.watch(desk)
        ...
        await telemetry.close()
    """

    def __init__(self) -> None:
        self._followers: dict[str, tuple[OtelFollower, asyncio.Task[object]]] = {}
        self._is_wanted = _is_wanted()

    def watch(self, desk: Watched) -> None:
        """Send the tenant's spans; a second call does nothing.

        A failure is logged and affects nothing else.
        """
        if not self._is_wanted or desk.tenant in self._followers:
            return
        from ekiden.tracing.otel.follower import OtelFollower

        try:
            follower = OtelFollower(desk.store, attributes={TENANT: desk.tenant})
        except UserError as exc:
            self._is_wanted = False
            _log.warning("no traces are sent: %s", exc)
            return
        task = asyncio.create_task(follower.run(), name=f"ekiden-otel-{desk.tenant}")
        task.add_done_callback(_told)
        self._followers[desk.tenant] = (follower, task)

    async def close(self) -> None:
        """Stop; what was not sent is sent by the next one."""
        followers, self._followers = list(self._followers.values()), {}
        for follower, _ in followers:
            follower.stop()
        tasks = [task for _, task in followers]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _is_wanted() -> bool:
    if not any(name.startswith("OTEL_") for name in os.environ):
        return False  # The usual case, without loading the exporter.
    from ekiden.tracing.otel.exporter import is_wanted

    return is_wanted()


def _told(done: asyncio.Task[object]) -> None:
    if not done.cancelled() and done.exception() is not None:
        _log.error("traces are not sent any more: %s", done.exception())
