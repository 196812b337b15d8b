"""Errors of clients, and the conversion of a server's error responses to exceptions.

EkidenError
├── ServerUnavailable
├── ServerProblem
└── UserError
    └── ClientMisconfigured
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from ekiden.core.errors import EkidenError, UserError


class ServerUnavailable(EkidenError):
    """The server cannot be reached, or the connection was lost. Started runs continue on the
    server."""

    code = "client.unavailable"

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"the server at {url} is unreachable: {problem}; is it running?")
        self.url, self.problem = url, problem


class ServerProblem(EkidenError):
    """The server returned an error code that this client does not know, or the server is not an
    Ekiden server. `code`, `status` and `facts` have the details."""

    code = "client.problem"

    def __init__(
        self, code: str, status: int, detail: str, *, facts: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(detail)
        vars(self)["code"] = code  # The server's own, such as ``request.invalid``.
        self.status, self.detail = status, detail
        self.facts = dict(facts or {})


class ClientMisconfigured(UserError):
    """The server's address or the API key is invalid, or a package is not installed."""

    code = "client.misconfigured"


_MODULES = (
    "ekiden.core.errors", "ekiden.core.errors.server", "ekiden.core.errors.messages",
    "ekiden.core.errors.memory", "ekiden.core.errors.stored_data",
    "ekiden.core.errors.collaboration", "ekiden.core.guardrails", "ekiden.core.plan",
)  # fmt: skip

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "session.not_found": {"session_id": ""},
    "session.exists": {"session_id": ""},
    "session.lease_lost": {"session_id": ""},
    "session.busy": {"session_id": "", "owner": "", "free_in_s": 0.0},
    "agent.unknown": {"name": "", "refusal": None, "handoff_id": None},
    "handoff.not_found": {"handoff_id": ""},
    "handoff.refused": {"refusal": None, "details": {}},
    "handoff.settled": {"handoff": {}},
    "session.not_waiting": {"session_id": ""},
    "inbox.not_found": {"item_id": ""},
    "inbox.closed": {"item_id": "", "status": "", "by": None, "reason": ""},
    "memory.not_found": {"key": ""},
    "run.not_found": {"run_id": ""},
    "auth.scope": {"scope": ""},
    "request.too_many": {"retry_after_s": 1.0},
    "server.stopping": {"retry_after_s": 5.0},
    "model.failed": {"status": None},
}
"""Defaults of the attributes of these errors, for servers that do not send them."""

_CODE = re.compile(r"[a-z0-9_.]{1,80}", re.ASCII)
_ALIASES = {"status_of_item": "status", "closed_by": "by"}
_OWN = frozenset({"type", "title", "status", "detail", "code"})


def error_of(status: int, body: Any) -> EkidenError:
    """Convert an error response to an exception. The code of the response determines the class, and
    the message comes from the server.

    A response with an unknown code or without a code becomes a `ServerProblem`.
    """
    if not isinstance(body, Mapping) or not _is_code(body.get("code")):
        return ServerProblem("client.problem", status, _words(status, body))
    code, detail = body["code"], str(body.get("detail") or body.get("title") or "")
    facts = {name: value for name, value in body.items() if name not in _OWN}
    kind = _kinds().get(code)
    if kind is None:
        return ServerProblem(code, status, detail, facts=facts)
    error = kind.__new__(kind, detail)
    error.args = (detail,)
    named = {_ALIASES.get(name, name): value for name, value in facts.items()}
    for name, value in {**_DEFAULTS.get(code, {}), **named}.items():
        if name.isidentifier() and not hasattr(kind, name):
            setattr(error, name, value)
    return error


def _is_code(code: Any) -> bool:
    """Whether it has the form of our codes. Programs compare codes, and terminals show them."""
    return isinstance(code, str) and _CODE.fullmatch(code) is not None


@cache
def _kinds() -> dict[str, type[EkidenError]]:
    for module in _MODULES:
        import_module(module)
    return {
        kind.code: kind
        for kind in _below(EkidenError)
        if "code" in vars(kind) and kind.__module__ in _MODULES
    }


def _below(kind: type[EkidenError]) -> Iterator[type[EkidenError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _words(status: int, body: Any) -> str:
    detail = body.get("detail") if isinstance(body, Mapping) else None
    extra = f": {str(detail)[:300]}" if detail else ""
    return f"the server answered with status {status}{extra}; is this an Ekiden server?"
