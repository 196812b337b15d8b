"""Events of Codex's JSON stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from ekiden.compat.agents.extensions.experimental.codex.items import (
    Payload,
    ThreadItem,
    coerce_thread_item,
    read,
)


@dataclass(frozen=True)
class ThreadStartedEvent(Payload):
    """A thread has started; use its id to resume the thread."""

    thread_id: str
    type: Literal["thread.started"] = field(default="thread.started", init=False)


@dataclass(frozen=True)
class TurnStartedEvent(Payload):
    """Codex begins to work on an input."""

    type: Literal["turn.started"] = field(default="turn.started", init=False)


@dataclass(frozen=True)
class Usage(Payload):
    """Token counts of a turn."""

    input_tokens: int
    cached_input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class TurnCompletedEvent(Payload):
    """The turn has ended."""

    usage: Usage | None = None
    type: Literal["turn.completed"] = field(default="turn.completed", init=False)


@dataclass(frozen=True)
class ThreadError(Payload):
    """Why a turn failed."""

    message: str


@dataclass(frozen=True)
class TurnFailedEvent(Payload):
    """The turn failed."""

    error: ThreadError
    type: Literal["turn.failed"] = field(default="turn.failed", init=False)


@dataclass(frozen=True)
class ItemStartedEvent(Payload):
    """Work on an item has started."""

    item: ThreadItem
    type: Literal["item.started"] = field(default="item.started", init=False)


@dataclass(frozen=True)
class ItemUpdatedEvent(Payload):
    """An item has changed."""

    item: ThreadItem
    type: Literal["item.updated"] = field(default="item.updated", init=False)


@dataclass(frozen=True)
class ItemCompletedEvent(Payload):
    """An item is complete, or has failed."""

    item: ThreadItem
    type: Literal["item.completed"] = field(default="item.completed", init=False)


@dataclass(frozen=True)
class ThreadErrorEvent(Payload):
    """The stream ends with an error."""

    message: str
    type: Literal["error"] = field(default="error", init=False)


@dataclass(frozen=True)
class UnknownEvent(Payload):
    """An event of a newer Codex."""

    type: str
    payload: Mapping[str, Any] = field(default_factory=dict)


ThreadEvent: TypeAlias = (
    ThreadStartedEvent
    | TurnStartedEvent
    | TurnCompletedEvent
    | TurnFailedEvent
    | ItemStartedEvent
    | ItemUpdatedEvent
    | ItemCompletedEvent
    | ThreadErrorEvent
    | UnknownEvent
)

_KINDS: dict[str, type[Payload]] = {
    each.type: each for each in get_args(ThreadEvent) if each is not UnknownEvent
}


def coerce_usage(raw: Usage | Mapping[str, Any]) -> Usage:
    """Token counts from JSON."""
    return read(Usage, raw)


_PARTS: Mapping[str, Callable[[Any], Any]] = {
    "usage": coerce_usage,
    "error": lambda raw: read(ThreadError, raw),
    "item": lambda raw: coerce_thread_item({"type": "unknown"} if raw is None else raw),
}


def coerce_thread_event(raw: ThreadEvent | Mapping[str, Any]) -> ThreadEvent:
    """An event from JSON; an unknown type is kept with its `payload`."""
    if isinstance(raw, Payload):
        return raw
    if not isinstance(raw, Mapping):
        raise TypeError(f"an event is read from a mapping, not {type(raw).__name__}")
    kind = _KINDS.get(str(raw.get("type")))
    if kind is None:
        name = "unknown" if raw.get("type") is None else raw["type"]
        return UnknownEvent(type=name, payload=dict(raw))
    absent: dict[str, Any] = {"error": {}} if kind is TurnFailedEvent else {"item": None}
    event: Any = read(kind, {**absent, **raw}, _PARTS)
    return event  # type: ignore[no-any-return]
