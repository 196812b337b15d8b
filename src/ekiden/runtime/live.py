"""The runs of this process that somebody may want something of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ekiden.runtime.state import RunState
from ekiden.storage.base import Store

_runs: dict[tuple[int, str], RunState] = {}
"""By store and session; a run is in here while it is worked on."""


@contextmanager
def on_display(run: RunState) -> Iterator[None]:
    """The run can be found during the body."""
    key = (id(run.store), run.session_id)
    _runs[key] = run
    try:
        yield
    finally:
        if _runs.get(key) is run:
            del _runs[key]


def live_run(store: Store, session_id: str) -> RunState | None:
    """The run of the session in this process, if there is one."""
    return _runs.get((id(store), session_id))
