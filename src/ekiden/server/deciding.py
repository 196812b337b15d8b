"""In whose name somebody decides what people are asked."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from ekiden.core.inbox_errors import InboxForbidden
from ekiden.core.server_errors import Forbidden
from ekiden.server.access import Caller
from ekiden.server.acting import may_answer


def decider(caller: Caller, connection: HTTPConnection, by: str | None) -> str:
    """The person who decides: the caller, or whom a caller with the scope `admin` names.

    `Forbidden` for another's name without that scope, `InboxForbidden` for agents that call.
    """
    if not may_answer(caller, connection):
        raise InboxForbidden("an agent tried to decide what people are asked: only people do that")
    if by is None or by == caller.name:
        return caller.name
    if not caller.may("admin"):
        raise Forbidden("admin")
    return by
