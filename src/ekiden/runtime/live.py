"""The runs of this process that somebody may want something of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ekiden.runtime.state import RunState
from ekiden.storage.base import Store

_runs: dict[tuple[int, int, str], RunState] = {}
"""By event loop, store and session; a run is in here while it is worked on."""


@contextmanager
def on_display(run: RunState) -> Iterator[None]:
    """The run can be found during the body."""
    key = _key(run.store, run.session_id)
    _runs[key] = run
    try:
        yield
    finally:
        if _runs.get(key) is run:
            del _runs[key]


def live_run(store: Store, session_id: str) -> RunState | None:
    """The run of the session in this event loop, if there is one."""
    return _runs.get(_key(store, session_id))


def _key(store: Store, session_id: str) -> tuple[int, int, str]:
    return id(asyncio.get_running_loop()), id(store), session_id
