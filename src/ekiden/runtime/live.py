"""The runs of this process that somebody may want something of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from ekiden.runtime.state import RunState
from ekiden.storage.base import Store

_runs: dict[tuple[int, int, str], RunState] = {}
"""By event loop, store and session; a run is in here while it is worked on."""


@contextmanager
def on_display(run: RunState) -> Iterator[None]:
    """The run can be found during the body."""
    key = _key(run.store, run.session_id)
    _runs[key] = run
    if run.hold is not None:
        run.hold.may_interrupt = partial(_may_interrupt, run)
    try:
        yield
    finally:
        if _runs.get(key) is run:
            del _runs[key]


def live_run(store: Store, session_id: str) -> RunState | None:
    """The run of the session in this event loop, if there is one."""
    return _runs.get(_key(store, session_id))


def _may_interrupt(run: RunState, request: Mapping[str, Any]) -> bool:
    from ekiden.runtime.request_documents import Asked
    from ekiden.runtime.requests import is_hopeless

    return not is_hopeless(run, Asked.from_json(request))


def _key(store: Store, session_id: str) -> tuple[int, int, str]:
    return id(asyncio.get_running_loop()), id(store), session_id
