"""The two clients: the same resources, asynchronous or synchronous."""

from __future__ import annotations

from typing import Any, Self

from ekiden.api.administration import (
    CalledAudit,
    CalledKeys,
    CalledReplicas,
    CalledSettings,
    CalledWorkers,
)
from ekiden.api.agents import CalledAgents
from ekiden.api.collaborations import CalledCollaborations
from ekiden.api.handoffs import CalledHandoffs
from ekiden.api.inbox import CalledInbox
from ekiden.api.memory import CalledMemory
from ekiden.api.messages import CalledMessages
from ekiden.api.methods.called import Portal
from ekiden.api.plans import CalledPlans
from ekiden.api.runs import CalledRuns
from ekiden.api.sessions import CalledSessions
from ekiden.api.state import CalledState
from ekiden.api.traces import CalledCosts, CalledEvents, CalledTraces
from ekiden.client.ekiden import Ekiden, at_server
from ekiden.client.wire import ConnectionPolicy, Wire, api_key_of, server_address


class _Connected:
    """The common part of both clients."""

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout_s: float = 120.0,
        retries: int = 4,
        backoff_s: float = 0.25,
        transport: Any = None,
    ) -> None:
        """`url` is the address of the server; the default is EKIDEN_SERVER. The default of
        `api_key` is EKIDEN_API_KEY, or the content of the file that EKIDEN_API_KEY_FILE names.

        `timeout_s` is the timeout of one response. If the server is unavailable or busy, the client
        sends the request again, at most `retries` times. The first retry waits `backoff_s` seconds.
        Retries are idempotent. `transport` is an `httpx2` transport that replaces the network.
        """
        policy = ConnectionPolicy(timeout_s=timeout_s, retries=retries, backoff_s=backoff_s)
        self._wire = Wire(server_address(url), api_key_of(api_key), policy, transport)
        self._add(at_server(self._wire))

    def _add(self, remote: Ekiden) -> None:
        """Set the resources as attributes of the client."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """The server's address."""
        return self._wire.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._wire.url!r})"


class AsyncClient(_Connected):
    """An asynchronous client of an Ekiden server.

    For example::

        async with AsyncClient("http://127.0.0.1:8321") as client:
            async for shown in client.runs.stream("Where is my order 1042?"):
                print(shown)
    """

    def _add(self, remote: Ekiden) -> None:
        self.ekiden = remote
        self.agents = remote.agents
        self.audit = remote.audit
        self.collaborations = remote.collaborations
        self.costs = remote.costs
        self.events = remote.events
        self.handoffs = remote.handoffs
        self.inbox = remote.inbox
        self.keys = remote.keys
        self.mirror = remote.mirror
        self.plans = remote.plans
        self.runs = remote.runs
        self.settings = remote.settings
        self.memory = remote.memory
        self.state = remote.state
        self.messages = remote.messages
        self.sessions = remote.sessions
        self.traces = remote.traces
        self.workers = remote.workers

    async def close(self) -> None:
        """Close the connections. Runs continue at the server."""
        await self._wire.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


class Client(_Connected):
    """A synchronous client of an Ekiden server. Any number of threads can use one client.

    For example::

        with Client("http://127.0.0.1:8321") as client:
            print(client.runs.run("Where is my order 1042?").output)
    """

    def _add(self, remote: Ekiden) -> None:
        self._portal = Portal()
        self.agents = CalledAgents(remote.agents, self._portal)
        self.audit = CalledAudit(remote.audit, self._portal)
        self.collaborations = CalledCollaborations(remote.collaborations, self._portal)
        self.costs = CalledCosts(remote.costs, self._portal)
        self.events = CalledEvents(remote.events, self._portal)
        self.handoffs = CalledHandoffs(remote.handoffs, self._portal)
        self.inbox = CalledInbox(remote.inbox, self._portal)
        self.keys = CalledKeys(remote.keys, self._portal)
        self.mirror = CalledReplicas(remote.mirror, self._portal)
        self.plans = CalledPlans(remote.plans, self._portal)
        self.runs = CalledRuns(remote.runs, self._portal)
        self.settings = CalledSettings(remote.settings, self._portal)
        self.memory = CalledMemory(remote.memory, self._portal)
        self.state = CalledState(remote.state, self._portal)
        self.messages = CalledMessages(remote.messages, self._portal)
        self.sessions = CalledSessions(remote.sessions, self._portal)
        self.traces = CalledTraces(remote.traces, self._portal)
        self.workers = CalledWorkers(remote.workers, self._portal)

    def close(self) -> None:
        """Close the connections. Runs continue at the server."""
        if not self._portal.is_closed:
            self._portal.run(self._wire.close())
            self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
