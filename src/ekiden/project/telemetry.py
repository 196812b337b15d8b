"""Sends the traces of all tenants to an OpenTelemetry collector, if the environment names one."""

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
    """A tenant and its store."""

    @property
    def tenant(self) -> str:
        """The name of the tenant."""
        ...

    @property
    def store(self) -> Store:
        """The store of the tenant."""
        ...


class Telemetry:
    """One `OtelFollower` for each tenant, in one event loop. Does nothing unless
    ``OTEL_EXPORTER_OTLP_ENDPOINT``, or another of the standard variables, is set.

    For example::

        telemetry = Telemetry()
        telemetry.watch(tenant_service)
        ...
        await telemetry.close()
    """

    def __init__(self) -> None:
        self._followers: dict[str, tuple[OtelFollower, asyncio.Task[object]]] = {}
        self._is_wanted = _is_wanted()

    def watch(self, tenant: Watched) -> None:
        """Send the spans of the tenant. A second call does nothing; a failure is only logged."""
        if not self._is_wanted or tenant.tenant in self._followers:
            return
        from ekiden.tracing.otel.follower import OtelFollower

        try:
            follower = OtelFollower(tenant.store, attributes={TENANT: tenant.tenant})
        except UserError as exc:
            self._is_wanted = False
            _log.warning("no traces are sent: %s", exc)
            return
        task = asyncio.create_task(follower.run(), name=f"ekiden-otel-{tenant.tenant}")
        task.add_done_callback(_log_failure)
        self._followers[tenant.tenant] = (follower, task)

    async def close(self) -> None:
        """Stop all followers. The next process sends the spans that were not sent."""
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
        return False  # The usual case: do not load the exporter.
    from ekiden.tracing.otel.exporter import is_wanted

    return is_wanted()


def _log_failure(done: asyncio.Task[object]) -> None:
    if not done.cancelled() and done.exception() is not None:
        _log.error("traces are not sent any more: %s", done.exception())
