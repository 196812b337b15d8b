"""Errors of clients of a server; all are `EkidenError`.

EkidenError
├── ServerUnavailable
├── ServerProblem
└── UserError
    └── ClientMisconfigured
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ekiden.core.errors import EkidenError, UserError


class ServerUnavailable(EkidenError):
    """The server is unreachable, or the connection was lost; its runs continue."""

    code = "client.unavailable"

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"the server at {url} is unreachable: {problem}; is it running?")
        self.url, self.problem = url, problem


class ServerProblem(EkidenError):
    """The server refused a request with a code that this version of Ekiden does not know."""

    code = "client.problem"

    def __init__(
        self, code: str, status: int, detail: str, *, facts: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(detail)
        vars(self)["code"] = code  # The server's own, such as ``request.invalid``.
        self.status, self.detail = status, detail
        self.facts = dict(facts or {})


class ClientMisconfigured(UserError):
    """The client's configuration is invalid; the message says what to change."""

    code = "client.misconfigured"
