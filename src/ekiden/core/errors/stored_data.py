"""Errors of stored data: copies, backups, replicas, imported sessions, changes of state.

EkidenError
├── StoreError
│   ├── StoreUnfinished        a copy into the store was not completed
│   ├── CopyDiffers            the copy differs from its source
│   └── SourceInUse            a final copy while other processes still write
├── UserError
│   ├── StoreNotEmpty          the target of a copy has content
│   ├── NotCopyable            the target cannot hold what the source has
│   ├── ToolMissing            pg_dump or pg_restore is missing or too old
│   └── SessionImportInvalid   an imported document is not a session
├── ReplicaFailed
│   ├── ReplicaUnavailable     try again later
│   └── ReplicaRefused         the replica will never accept this event
├── StaleState                 the state changed after the caller read it
└── StateRefused               an agent's code tried to change the state
"""

from __future__ import annotations

from ekiden.core.errors import EkidenError, StoreError, UserError


class StoreUnfinished(StoreError):
    """A copy into this store is incomplete. Complete the copy with `--resume`, or remove the
    store."""

    code = "store.unfinished"

    def __init__(self, where: str, *, source: str) -> None:
        super().__init__(
            f"{where} is an unfinished copy of {source}: copy, back up or restore again with "
            "--resume, which completes it, or remove it"
        )
        self.source = source


class CopyDiffers(StoreError):
    """The target of a copy differs from the source. Stop other programs that write to them, and
    copy with `--resume`."""

    code = "store.copy_differs"

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(
            f"the copy in {where} differs from its source: {problem}; it stays unfinished: "
            "make sure that nothing else writes to it, and copy again with --resume"
        )
        self.problem = problem


class SourceInUse(StoreError):
    """A copy with `--final` needs a source that is not in use. Stop the servers and workers
    first."""

    code = "store.in_use"

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(
            f"{where} is in use: {problem}; stop the workers and servers on it first, or leave out "
            "--final"
        )


class StoreNotEmpty(UserError):
    """The target of a copy, backup or restore is not empty. Name another target."""

    code = "store.not_empty"

    def __init__(self, where: str, found: str) -> None:
        super().__init__(
            f"{where} is not empty, it has {found}: name a new store; two stores are never mixed"
        )


class NotCopyable(UserError):
    """Data in the source is missing, unreadable, or not supported by the target."""

    code = "store.not_copyable"

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where} cannot be copied: {problem}")


class ToolMissing(UserError):
    """`pg_dump` or `pg_restore` is not in `PATH`, or is older than the server. Install the program,
    or run the command in the message."""

    code = "store.tool_missing"

    def __init__(self, name: str, problem: str, *, needed: int, command: str) -> None:
        super().__init__(
            f"{name} is needed, and {problem}: install the client programs of PostgreSQL {needed} "
            f"or newer (apt install postgresql-client-{needed}, dnf install postgresql{needed}, "
            f"brew install libpq) and put them first in PATH, or run by hand, with the password in "
            f"PGPASSWORD: {command}"
        )


class ReplicaFailed(EkidenError):
    """A replica did not accept an event. The event stays in the store. Runs never raise this
    error."""

    code = "mirror.failed"

    def __init__(self, mirror: str, problem: str) -> None:
        super().__init__(f"{mirror}: {problem}")
        self.mirror, self.problem = mirror, problem


class ReplicaUnavailable(ReplicaFailed):
    """The replica is unavailable, slow or busy, or denies access. Ekiden tries again later."""

    code = "mirror.unavailable"

    def __init__(self, mirror: str, problem: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(mirror, problem)
        self.retry_after_s = retry_after_s
        """Seconds to wait before a retry."""


class ReplicaRefused(ReplicaFailed):
    """The replica refused this event permanently. Ekiden skips the event and does not send it
    again."""

    code = "mirror.refused"


class SessionImportInvalid(UserError):
    """The document was not written by `export_session` or `ekiden session export`. `place` is the
    position of the error. Nothing was stored.

    An example of a `place` is ``events[3].seq``.
    """

    code = "session.import_invalid"

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(
            f"the session cannot be imported: {place}: {problem}; nothing was stored. "
            "Export it again with `ekiden session export`"
        )
        self.place, self.problem = place, problem


class StaleState(EkidenError):
    """The state has changed since it was read. Nothing was written. `expected` is the version that
    the caller read, and `found` the current version."""

    code = "state.stale"

    def __init__(self, what: str, *, expected: int, found: int) -> None:
        super().__init__(
            f"{what} has version {found}, expected {expected}: it has changed; read it again, then "
            "retry"
        )
        self.expected, self.found = expected, found


class StateRefused(EkidenError):
    """Code of an agent tried to change the state with a function that only programs outside of runs
    may call. Use `ctx.get`, `ctx.set` and `ctx.delete` instead."""

    code = "state.refused"

    def __init__(self, agent: str) -> None:
        super().__init__(
            f"the code of agent {agent!r} may not do this: use ctx.get, ctx.set and ctx.delete "
            "to read and change variables"
        )
        self.agent = agent
