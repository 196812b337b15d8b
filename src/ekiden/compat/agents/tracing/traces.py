"""Traces: what belongs to one piece of work for a user."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextvars import Token
from dataclasses import dataclass, field
from typing import Any

from ekiden.compat.agents.tracing.scope import Scope, new_trace_id


class Trace(ABC):
    """A trace. Use it in a ``with`` statement, or call `start` and `finish`."""

    @property
    @abstractmethod
    def trace_id(self) -> str:
        """The id of the trace."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the workflow."""

    @abstractmethod
    def start(self, mark_as_current: bool = False) -> None:
        """Start the trace."""

    @abstractmethod
    def finish(self, reset_current: bool = False) -> None:
        """End the trace."""

    @abstractmethod
    def export(self) -> dict[str, Any] | None:
        """The trace as JSON; `None` if the trace is not recorded."""

    @property
    def tracing_api_key(self) -> str | None:
        """The key for sending the trace to OpenAI."""
        return None

    def to_json(self, *, include_tracing_api_key: bool = False) -> dict[str, Any] | None:
        """The trace as JSON, for `TraceState.from_json`."""
        state = TraceState.from_trace(self)
        if state is None:
            return None
        return state.to_json(include_tracing_api_key=include_tracing_api_key)

    def __enter__(self) -> Trace:
        self.start(mark_as_current=True)
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.finish(reset_current=kind is not GeneratorExit)


class _Silent(Trace):
    """A trace that can be the current one, but that processors do not see."""

    _before: Token[Any] | None = None

    def start(self, mark_as_current: bool = False) -> None:
        if mark_as_current:
            self._before = Scope.set_current_trace(self)

    def finish(self, reset_current: bool = False) -> None:
        if reset_current and self._before is not None:
            Scope.reset_current_trace(self._before)
            self._before = None


class NoOpTrace(_Silent):
    """A trace that is not recorded, because tracing is off."""

    trace_id: str = "no-op"
    name: str = "no-op"

    def export(self) -> dict[str, Any] | None:
        return None


class _NamedTrace(_Silent):
    """A trace with a name, an id and a group."""

    trace_id: str = ""
    name: str = ""
    tracing_api_key: str | None = None

    def __init__(
        self,
        name: str,
        trace_id: str,
        group_id: str | None,
        metadata: dict[str, Any] | None,
        tracing_api_key: str | None,
    ) -> None:
        self.name, self.trace_id, self.tracing_api_key = name, trace_id, tracing_api_key
        self.group_id = group_id
        self.metadata = metadata

    def export(self) -> dict[str, Any] | None:
        return {
            "object": "trace",
            "id": self.trace_id,
            "workflow_name": self.name,
            "group_id": self.group_id,
            "metadata": self.metadata,
        }


class ReattachedTrace(_NamedTrace):
    """A trace that began in another process. Processors see its spans, but not its start."""


class TraceImpl(_NamedTrace):
    """A trace that processors see."""

    def __init__(
        self,
        name: str,
        trace_id: str | None,
        group_id: str | None,
        metadata: dict[str, Any] | None,
        processor: Any,
        tracing_api_key: str | None = None,
    ) -> None:
        super().__init__(name, trace_id or new_trace_id(), group_id, metadata, tracing_api_key)
        self._processor = processor
        self._is_started = self._is_finished = False

    def start(self, mark_as_current: bool = False) -> None:
        if not self._is_started:
            self._is_started = True
            self._processor.on_trace_start(self)
            super().start(mark_as_current)

    def finish(self, reset_current: bool = False) -> None:
        if self._is_started and not self._is_finished:
            self._is_finished = True
            self._processor.on_trace_end(self)
            super().finish(reset_current)


NO_OP_TRACE = NoOpTrace()


@dataclass
class TraceState:
    """A trace as it is stored with a run that waits."""

    trace_id: str | None = None
    workflow_name: str | None = None
    group_id: str | None = None
    metadata: dict[str, Any] | None = None
    tracing_api_key: str | None = None
    tracing_api_key_hash: str | None = None
    object_type: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_trace(cls, trace: Trace | None) -> TraceState | None:
        """The state of a trace; `None` if there is nothing to show."""
        payload = None if trace is None else trace.export()
        if trace is None or payload is None:
            return None
        state = cls.from_json(payload)
        if state is not None and trace.tracing_api_key is not None:
            state.tracing_api_key = trace.tracing_api_key
            state.tracing_api_key_hash = _hashed(trace.tracing_api_key)
        return state

    @classmethod
    def from_json(cls, payload: Mapping[str, Any] | None) -> TraceState | None:
        """The inverse of `to_json`."""
        if not payload:
            return None
        data = dict(payload)
        known = {
            "trace_id": data.pop("id", None) or data.pop("trace_id", None),
            "object_type": data.pop("object", None),
        }
        names = ("workflow_name", "group_id", "metadata", "tracing_api_key", "tracing_api_key_hash")
        known |= {name: data.pop(name, None) for name in names}
        return cls(**known, extra=data)

    def to_json(self, *, include_tracing_api_key: bool = False) -> dict[str, Any] | None:
        """As JSON; a key only on request, else its hash."""
        if self.trace_id is None:
            return None
        named = {
            "object": self.object_type,
            "id": self.trace_id,
            "workflow_name": self.workflow_name,
            "group_id": self.group_id,
            "metadata": self.metadata,
            "tracing_api_key": self.tracing_api_key if include_tracing_api_key else None,
            "tracing_api_key_hash": self.tracing_api_key_hash,
        }
        return {**self.extra, **{key: value for key, value in named.items() if value is not None}}


def _hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def reattach_trace(trace_state: TraceState, *, tracing_api_key: str | None = None) -> Trace | None:
    """The trace that a stored state is of."""
    if trace_state.trace_id is None:
        return None
    return ReattachedTrace(
        name=trace_state.workflow_name or "Agent workflow",
        trace_id=trace_state.trace_id,
        group_id=trace_state.group_id,
        metadata=trace_state.metadata,
        tracing_api_key=tracing_api_key or trace_state.tracing_api_key,
    )
