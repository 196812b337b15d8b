"""Errors that only clients of a server meet; all are `EkidenError`.

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
    """The server cannot be reached, or it went away; what it had begun goes on there."""

    code = "client.unavailable"

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"the server at {url} cannot be reached: {problem}; is it running?")
        self.url, self.problem = url, problem


class ServerProblem(EkidenError):
    """The server refused a request in a way that this Ekiden has no class for."""

    code = "client.problem"

    def __init__(
        self, code: str, status: int, detail: str, *, facts: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(detail)
        vars(self)["code"] = code  # The server's own, such as ``request.invalid``.
        self.status, self.detail = status, detail
        self.facts = dict(facts or {})


class ClientMisconfigured(UserError):
    """The client cannot be used like this; the message says what to change."""

    code = "client.misconfigured"
