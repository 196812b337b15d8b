"""Errors of the server's interfaces; all are `EkidenError`.

ServerError
├── Unauthenticated
│   └── KeyExpired
├── Forbidden
├── BadOrigin
├── CsrfFailed
├── KeyNotFound
├── NotServed
├── MethodNotAllowed
├── RequestInvalid
│   └── UnknownParameter
├── RequestTooLarge
├── TooManyRequests
├── IdempotencyConflict
├── PreconditionFailed
├── AuditRecordNotFound
├── RunNotFound
├── ServerBusy
├── ServerExposed
├── ServerStopping
└── TookTooLong
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ekiden.core.errors import EkidenError
from ekiden.core.text.wording import did_you_mean


class ServerError(EkidenError):
    """Base class of request errors."""

    code = "server.failed"


class Unauthenticated(ServerError):
    """The API key is missing or unknown. Send `Authorization: Bearer KEY`."""

    code = "auth.required"

    def __init__(self, problem: str = "no API key was given") -> None:
        super().__init__(
            f"{problem}; send `Authorization: Bearer KEY`, with a key from `ekiden keys create`"
        )


class KeyExpired(Unauthenticated):
    """The key expired or was revoked. Create another key with `ekiden keys create`."""

    code = "auth.expired"

    def __init__(self) -> None:
        super().__init__("the API key has expired or was revoked")


class Forbidden(ServerError):
    """The key lacks a required scope, which `scope` names."""

    code = "auth.scope"

    def __init__(self, scope: str) -> None:
        super().__init__(
            f"this needs a key with the scope {scope!r}; ask for one that has it. If the server "
            "has no keys, send the token that it printed when it started"
        )
        self.scope = scope


class BadOrigin(ServerError):
    """The host name or origin of the request is unknown. See the settings `server.hosts` and
    `server.origins`."""

    code = "auth.origin"


class CsrfFailed(ServerError):
    """The request used the console's cookie but has no CSRF token. Send the `csrf_token` of `GET
    /api/v1/me` in the header `X-CSRF-Token`, or send the API key in a header."""

    code = "auth.csrf"

    def __init__(self, header: str) -> None:
        super().__init__(
            f"a request with the console's cookie needs the header {header} with "
            "the `csrf_token` from /api/v1/me; or send the API key in a header"
        )
        self.header = header


class KeyNotFound(ServerError):
    """No API key has this id. See `ekiden keys list`. The message does not repeat the id, because
    it may be a complete key."""

    code = "auth.unknown_key"

    def __init__(self) -> None:
        super().__init__("no API key has this id; `ekiden keys list` shows the keys")


class NotServed(ServerError):
    """The server has no resource at this address."""

    code = "request.not_found"


class MethodNotAllowed(ServerError):
    """The address does not support this method. `allowed` lists the supported methods."""

    code = "request.method_not_allowed"

    def __init__(self, method: str, *, allowed: Sequence[str]) -> None:
        super().__init__(
            f"this address does not serve {method[:20]!r}; use {', '.join(allowed) or 'another'}"
        )
        self.allowed = tuple(allowed)


class RequestInvalid(ServerError):
    """The request cannot be parsed. The message shows the position of the error."""

    code = "request.invalid"


class UnknownParameter(RequestInvalid):
    """The query has an unknown parameter. `known` lists the valid parameters."""

    code = "request.unknown_parameter"

    def __init__(self, name: str, *, known: Collection[str]) -> None:
        meant = did_you_mean(name, known)
        hint = f" Did you mean {meant!r}?" if meant else ""
        there_are = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"the query has {name[:80]!r}, which is unknown here.{hint} Known parameters: "
            f"{there_are}"
        )
        self.name = name
        self.known = tuple(sorted(known))


class RequestTooLarge(ServerError):
    """The body exceeds the setting `server.max_body`."""

    code = "request.too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is longer than the limit of {limit} bytes")
        self.limit = limit


class TooManyRequests(ServerError):
    """The caller sends too many requests. Try again after `retry_after_s` seconds
    (`Retry-After`)."""

    code = "request.too_many"

    def __init__(self, problem: str, *, retry_after_s: float) -> None:
        super().__init__(f"{problem}; try again in {retry_after_s:.0f} s")
        self.retry_after_s = retry_after_s


class IdempotencyConflict(ServerError):
    """The `Idempotency-Key` was used for a different request, or the first request is still in
    progress. In the second case, try again after `retry_after_s` seconds."""

    code = "request.idempotency"

    def __init__(self, problem: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(problem)
        self.retry_after_s = retry_after_s
        """`None`: a retry does not help."""


class PreconditionFailed(ServerError):
    """The object has changed since the caller read it. Read the object again, then retry."""

    code = "request.stale"


class AuditRecordNotFound(ServerError):
    """The audit trail has no record and no handoff with this id."""

    code = "audit.not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"the audit has no record and no handoff {name[:80]!r}")
        self.name = name


class TookTooLong(ServerError):
    """The request took longer than its time limit. The message suggests another way."""

    code = "request.took_too_long"


class RunNotFound(ServerError):
    """No run has this id. Ids are `SESSION:NUMBER`."""

    code = "run.not_found"

    def __init__(self, run_id: str) -> None:
        super().__init__(f"no run is called {run_id[:80]!r}; runs are called SESSION:NUMBER")
        self.run_id = run_id


class ServerBusy(ServerError):
    """The server is at capacity. Try again after `retry_after_s` seconds."""

    code = "server.busy"

    def __init__(self, problem: str = "the server is at its limit") -> None:
        super().__init__(f"{problem}; try again in a few seconds")
        self.retry_after_s = 2.0


class StandardUnavailable(ServerError):
    """The implementation of a standard, such as MCP or A2A, cannot be loaded. The server's log has
    the reason."""

    code = "server.standard"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} cannot be loaded; the server's log says why: repair the installation"
        )


class ServerExposed(ServerError):
    """Without an API key, other machines could use the server that `ekiden serve` would start.
    Create a key, or listen on 127.0.0.1."""

    code = "server.exposed"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"other machines can reach {host}, and there is no API key: create one with "
            "`ekiden keys create NAME --scope admin`, or listen on 127.0.0.1"
        )
        self.host = host


class ServerStopping(ServerError):
    """The server is stopping. Try again."""

    code = "server.stopping"

    def __init__(self) -> None:
        super().__init__("the server is stopping; try again in a few seconds")
        self.retry_after_s = 5.0
