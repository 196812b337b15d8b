"""What the server tells, as values; each has what was sent in `raw`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, Self, TypeAlias

from ekiden.core.events import Event
from ekiden.core.model import ModelDelta
from ekiden.core.usage import Usage

RunStatus: TypeAlias = Literal[
    "queued", "running", "waiting", "stopped", "done", "refused", "failed", "out_of_budget"
]
ACTIVE: Final = frozenset({"queued", "running"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Something that the server told."""

    raw: Mapping[str, Any] = field(repr=False)
    """As it was sent: the JSON that the command prints with ``--json``."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """From JSON; what a newer server adds is in `raw` only."""
        own = {each.name: raw[each.name] for each in fields(cls) if each.name in raw}
        return cls(**{**own, **cls._read(raw), "raw": raw})

    @classmethod
    def _read(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Fields that are not as they stand in the JSON."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError:
    """Why a run failed."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Value):
    """A run as it stands."""

    run_id: str
    session_id: str
    status: RunStatus
    agent: str = ""
    """Who has the session."""
    output: Any = None
    """The answer; `None` unless the run is done."""
    outcome: str | None = None
    chain: tuple[str, ...] = ()
    """Who had the run, beginning with ``user``."""
    handoffs: tuple[str, ...] = ()
    """Ids of the handoffs that were made."""
    usage: Usage = field(default_factory=Usage)
    error: RunError | None = None
    questions: tuple[str, ...] = ()
    """Ids of the inbox items that it waits for."""
    started_at: float = 0.0
    updated_at: float = 0.0

    @property
    def is_active(self) -> bool:
        """Whether somebody works on it, or will."""
        return self.status in ACTIVE

    @classmethod
    def _read(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        error = raw.get("error")
        return {
            "chain": tuple(raw.get("chain") or ()),
            "handoffs": tuple(raw.get("handoffs") or ()),
            "questions": tuple(raw.get("questions") or ()),
            "usage": Usage.from_json(raw.get("usage") or {}),
            "error": None
            if not error
            else RunError(code=error.get("code", ""), message=error.get("message", "")),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A run that was just stored: from now on it goes on, whoever watches."""

    run_id: str
    session_id: str


Shown: TypeAlias = Begun | Event | ModelDelta | Run
"""What a stream shows: that the run is begun (if the stream begins one), what happened, pieces of
answers while they are made, and at the end the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary(Value):
    """A session without what was said in it."""

    session_id: str
    agent: str = ""
    status: str = "idle"
    outcome: str | None = None
    """How its last run ended."""
    user_id: str | None = None
    priority: int = 2
    """1 (low), 2 (normal), 3 (high) or 4 (urgent)."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    events: int = 0
    owner: str | None = None
    """The process that runs it now."""
    created_at: float = 0.0
    updated_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDetails(SessionSummary):
    """A session with its conversation."""

    variables: Mapping[str, Any] = field(default_factory=dict)
    items: tuple[Mapping[str, Any], ...] = ()
    """What was said, as the OpenAI Responses API has it."""
    handoffs: tuple[Mapping[str, Any], ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def _read(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "items": tuple(raw.get("items") or ()),
            "handoffs": tuple(raw.get("handoffs") or ()),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHit(Value):
    """A place in a session that was found."""

    session_id: str
    excerpt: str = ""
    where: str = "message"
    seq: int = 0
    """The number of the event that says it; 0 for the title."""
    agent: str | None = None
    """Whose words they are; `None`: a person's."""
    title: str | None = None
    user_id: str | None = None
    score: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain(Value):
    """Who had a session, and each handoff."""

    session_id: str
    chain: tuple[str, ...] = ()
    handoffs: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def _read(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "chain": tuple(raw.get("chain") or ()),
            "handoffs": tuple(raw.get("handoffs") or ()),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork(Value):
    """A session that was branched off another."""

    session_id: str
    forked_from: str = ""
    forked_at: int = 0
    agent: str = ""
    events: int = 0
    unfinished: bool = False
    """Whether its run can be resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound(Value):
    """What a step back came to."""

    session_id: str
    to_seq: int = 0
    undone: int = 0
    agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported(Value):
    """A session that was taken over."""

    session_id: str
    agent: str = ""
    user_id: str | None = None
    events: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned(Value):
    """What was let go of, or would be."""

    sessions: int = 0
    messages: int = 0
    questions: int = 0
    busy: int = 0
    """Sessions that somebody ran just then, and that stay."""
    dry_run: bool = False


def event_of(raw: Mapping[str, Any]) -> Event:
    """The inverse of `Event.to_json`."""
    duration_ms = raw.get("duration_ms")
    return Event(
        session_id=raw["session_id"],
        seq=raw["seq"],
        type=raw["event_type"],
        at_us=round(raw["timestamp"] * 1e6),
        agent=raw.get("agent_name"),
        step=raw.get("step"),
        duration_us=None if duration_ms is None else round(duration_ms * 1e3),
        details=raw.get("details"),
        items=tuple(raw.get("items") or ()),
        error=raw.get("error"),
    )


def delta_of(raw: Mapping[str, Any]) -> ModelDelta:
    """A piece of an answer."""
    return ModelDelta(
        kind=raw["kind"],
        text=raw["text"],
        index=raw.get("index", 0),
        data=raw.get("data"),
        session_id=raw.get("session_id"),
    )
