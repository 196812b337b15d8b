"""The HTTP servers of a soak, and the client that starts runs through them."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2

from tests.faults.soak_crew import Command, Crew, python
from tests.faults.soak_team import TEAM

_PAUSE_S = 0.2
_TIMEOUT_S = 10.0
_SERVERS = 2
_SESSIONS = 4
"""Each server runs so many sessions, beside the workers."""


class Servers:
    """Several `ekiden serve` on one store, each at a port that it keeps when it starts again."""

    def __init__(self, crews: Sequence[Crew], ports: Sequence[int]) -> None:
        self.crews = crews
        self._urls = [f"http://127.0.0.1:{port}/api/v1" for port in ports]
        self.repeats = 0
        """Requests that were sent again."""

    async def post(self, session: str, text: str, chance: random.Random) -> None:
        """Start a run, by the same request at one server or another until one accepts it."""
        body = {"input": text, "agent": "triage", "session_id": session, "background": True}
        async with httpx2.AsyncClient(timeout=_TIMEOUT_S) as client:
            while True:
                try:
                    answer = await client.post(
                        f"{chance.choice(self._urls)}/runs",
                        json=body,
                        headers={"Idempotency-Key": session},
                    )
                except httpx2.TransportError:
                    pass  # Killed, or on its way up.
                else:
                    if answer.is_success:
                        return
                    if "retry-after" not in answer.headers:
                        raise RuntimeError(f"{session}: {answer.status_code} {answer.text}")
                self.repeats += 1
                await asyncio.sleep(_PAUSE_S)


@contextmanager
def servers(store: str, *, folder: Path, extra: Mapping[str, str]) -> Iterator[Servers]:
    """Two servers, until the end of the body."""
    ports = [_free_port() for _ in range(_SERVERS)]
    with ExitStack() as stack:
        crews = [
            stack.enter_context(
                Crew(_serve(store, port), size=1, folder=folder, extra=extra, name=f"server-{port}")
            )
            for port in ports
        ]
        yield Servers(crews, ports)


def _serve(store: str, port: int) -> Command:
    given = ("--store", store, "--team", TEAM, "--port", str(port), "--workers", str(_SESSIONS))
    return python("ekiden.cli", "serve", *given, "--json")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
