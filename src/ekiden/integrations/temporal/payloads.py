"""What goes through Temporal, and so into its histories: names, numbers and states.

Nothing of a conversation is among them. They are stored by clusters for as long as workflows are:
a field may be added with a default, and none may be removed or change its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionJob:
    """What the workflow of a session is started with."""

    session: str
    queue: str
    """The task queue of agents that run anywhere."""
    agent: str
    labels: list[str] = field(default_factory=list)
    """Where the agent runs."""
    heartbeat_s: float = 20.0
    """Who is not heard of for so long while it advances the session is taken for dead."""
    linger_s: float = 10.0
    """How long the workflow stays when there is nothing to do."""
    rounds: int = 1000
    """After so many it continues as new, if Temporal does not suggest it before."""
    indexed: bool = True
    """Whether the search attributes are known to the namespace."""
    store: str = ""
    """The name of the store, for search."""
    priority: int = 2
    """From 1, low, to 4, urgent."""
    look_s: float = 3600.0
    """After so long a session that waits is looked at, which may be gone or finished by others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """The signal that a session was seen `ready`."""

    agent: str
    labels: list[str] = field(default_factory=list)
    mark: list[int] | None = None
    """When the session was made, and its epoch as it was seen: a run that claimed it later knows
    more. `None`: to be looked at in any case."""
    priority: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What activities are told."""

    session: str
    mark: list[int] = field(default_factory=list)
    """As in `Wake`; for `leave`: only one that is still like that is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a session stands after `advance`."""

    status: str
    """That of its row, or `gone` if there is no such session any more."""
    agent: str = ""
    labels: list[str] = field(default_factory=list)
    outcome: str = ""
    mark: list[int] = field(default_factory=list)
    """As in `Wake`, read after everything else."""
    busy_s: float | None = None
    """Somebody else has it, whose lease lasts so long."""
    priority: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeJob:
    """What the timekeeper of a store is started with."""

    queue: str
    """The task queue of its activity."""
    rounds: int = 1000
    due_s: float | None = None
    """Something is due after so long; `None`: a signal tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """When something is due next, from now on; `None`: nothing is."""

    in_s: float | None
