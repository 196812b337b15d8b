"""Agents that call this server do not decide what people are asked."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from ekiden.core.acting import AGENT_HEADER
from ekiden.server.access.access import Caller


def may_answer(caller: Caller, connection: HTTPConnection) -> bool:
    """Whether the caller has the scope `answer`, and is no agent of an Ekiden that uses it.

    The clients with which our agents call others say so in a header that models and tools cannot
    leave out. Whoever has a key with the scope and writes requests of their own can: do not give
    such a key to what an agent runs.
    """
    return caller.may("answer") and not caller.is_agent and AGENT_HEADER not in connection.headers
