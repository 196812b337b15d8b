"""Errors of the server's door; all are `EkidenError`.

ServerError
├── Unauthenticated
│   └── KeyExpired
├── Forbidden
├── BadOrigin
├── CsrfFailed
├── KeyNotFound
├── NotServed
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

from collections.abc import Collection

from ekiden.core.errors import EkidenError
from ekiden.core.text.suggest import did_you_mean


class ServerError(EkidenError):
    """Something about a request to the server."""

    code = "server.failed"


class Unauthenticated(ServerError):
    """Nobody is told by the request, or somebody unknown; the message says how to tell."""

    code = "auth.required"

    def __init__(self, problem: str = "no API key was given") -> None:
        super().__init__(
            f"{problem}; send `Authorization: Bearer KEY`, which `ekiden keys create` makes"
        )


class KeyExpired(Unauthenticated):
    """The key was good once."""

    code = "auth.expired"

    def __init__(self) -> None:
        super().__init__("the API key has expired or was revoked")


class Forbidden(ServerError):
    """The key is good, but not for this."""

    code = "auth.scope"

    def __init__(self, scope: str) -> None:
        super().__init__(f"this needs a key with the scope {scope!r}; ask for one that has it")
        self.scope = scope


class BadOrigin(ServerError):
    """The request comes from a page, or goes to a name, that the server does not know."""

    code = "auth.origin"


class CsrfFailed(ServerError):
    """The console's cookie alone does not change anything: the token of its page is missing."""

    code = "auth.csrf"

    def __init__(self, header: str) -> None:
        super().__init__(
            f"a request with the console's cookie needs {header}, as `csrf_token` of "
            "/api/v1/me says it; or send the key in a header"
        )
        self.header = header


class KeyNotFound(ServerError):
    """No API key has this id; the message does not repeat it, since it may be a whole key."""

    code = "auth.unknown_key"

    def __init__(self) -> None:
        super().__init__("no API key has this id; `ekiden keys list` shows those that there are")


class NotServed(ServerError):
    """There is nothing at this address, or not for this method."""

    code = "request.not_found"


class RequestInvalid(ServerError):
    """The request cannot be read; the message says where."""

    code = "request.invalid"


class UnknownParameter(RequestInvalid):
    """The query of a request has a parameter that the route does not know."""

    code = "request.unknown_parameter"

    def __init__(self, name: str, *, known: Collection[str]) -> None:
        meant = did_you_mean(name, known)
        hint = f" Did you mean {meant!r}?" if meant else ""
        there_are = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"the query has {name[:80]!r}, which is not known here.{hint} Known parameters: "
            f"{there_are}"
        )
        self.name = name
        self.known = tuple(sorted(known))


class RequestTooLarge(ServerError):
    """The request's body is longer than is allowed."""

    code = "request.too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is longer than {limit} bytes, which is all that is read")
        self.limit = limit


class TooManyRequests(ServerError):
    """The caller is too fast, or there is too much at once; try again after `retry_after_s`."""

    code = "request.too_many"

    def __init__(self, problem: str, *, retry_after_s: float) -> None:
        super().__init__(f"{problem}; try again in {retry_after_s:.0f} s")
        self.retry_after_s = retry_after_s


class IdempotencyConflict(ServerError):
    """The same `Idempotency-Key` was sent with another request, or that one is under way."""

    code = "request.idempotency"

    def __init__(self, problem: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(problem)
        self.retry_after_s = retry_after_s
        """`None`: trying again is of no use."""


class PreconditionFailed(ServerError):
    """Somebody changed it since it was read: read it again, and decide again."""

    code = "request.stale"


class AuditRecordNotFound(ServerError):
    """The audit has no such record, and no handoff with that id."""

    code = "audit.not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"the audit has no record and no handoff {name[:80]!r}")
        self.name = name


class TookTooLong(ServerError):
    """What was asked for takes longer than a request may; the message says what to do instead."""

    code = "request.took_too_long"


class RunNotFound(ServerError):
    """No run has this id."""

    code = "run.not_found"

    def __init__(self, run_id: str) -> None:
        super().__init__(f"no run is called {run_id[:80]!r}; runs are called SESSION:NUMBER")
        self.run_id = run_id


class ServerBusy(ServerError):
    """The server has as much to do as it takes on; try again after `retry_after_s`."""

    code = "server.busy"

    def __init__(self, problem: str = "too much is under way") -> None:
        super().__init__(f"{problem}; try again in a few seconds")
        self.retry_after_s = 2.0


class ServerExposed(ServerError):
    """The server would listen to other machines, and there is no key that they could need."""

    code = "server.exposed"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"others can reach {host}, and there is no API key: make one with "
            "`ekiden keys create NAME --scope admin`, or listen on 127.0.0.1"
        )
        self.host = host


class ServerStopping(ServerError):
    """The server takes nothing new, because it is about to end; the next one does."""

    code = "server.stopping"

    def __init__(self) -> None:
        super().__init__("the server is stopping; try again in a few seconds")
        self.retry_after_s = 5.0
