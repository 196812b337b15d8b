"""The runs of this process, by session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any

from ekiden.handoff.requests import Asked
from ekiden.runtime.state.state import RunState
from ekiden.storage.base import Store

_runs: dict[tuple[int, int, str], RunState] = {}
"""The runs of this process, by event loop, store and session."""


class registered:
    """Let `live_run` find the run during the ``with`` block."""

    __slots__ = ("_key", "_run")

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._key = _key(run.store, run.session_id)

    def __enter__(self) -> None:
        run = self._run
        _runs[self._key] = run
        if run.hold is not None:
            run.hold.may_interrupt = partial(_may_interrupt, run)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if _runs.get(self._key) is self._run:
            del _runs[self._key]


def live_run(store: Store, session_id: str) -> RunState | None:
    """The run of the session in this event loop, if there is one."""
    return _runs.get(_key(store, session_id))


def _may_interrupt(run: RunState, request: Mapping[str, Any]) -> bool:
    from ekiden.runtime.handoff.requests import is_hopeless

    return not is_hopeless(run, Asked.from_json(request))


def _key(store: Store, session_id: str) -> tuple[int, int, str]:
    return id(asyncio.get_running_loop()), id(store), session_id
