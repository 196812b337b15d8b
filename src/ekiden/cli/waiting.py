"""Waiting for a session that another process has, and saying so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from ekiden.cli.onlooker import Onlooker
from ekiden.cli.output import note
from ekiden.core.errors import SessionBusy
from ekiden.core.jsonio import dumps
from ekiden.runtime import RunConfig, RunResult, RunResultStreaming

Start: TypeAlias = Callable[[RunConfig], RunResultStreaming]
"""Gives the run, which happens while it is read."""


async def read_in_turn(
    onlooker: Onlooker, start: Start, config: RunConfig, *, session_id: str
) -> RunResult:
    """Read the run that `start` gives; if the session is taken and `config` is to wait, say so.

    The first try does not wait: whoever looks on is told at once by whom the session is held, and
    how long this takes at most. Raises what `Onlooker.read` does.
    """
    if config.on_busy == "refuse":
        return await onlooker.read(start(config))
    try:
        return await onlooker.read(start(replace(config, on_busy="refuse")))
    except SessionBusy as busy:
        # A run under way can meet a session that is busy, too, even its own.
        if onlooker.seen or busy.session_id != session_id:
            raise
        _tell(busy, config.busy_timeout_s, as_json=onlooker.as_json)
    return await onlooker.read(start(config))


def _tell(busy: SessionBusy, at_most_s: float, *, as_json: bool) -> None:
    free_in_s = max(busy.free_in_s, 0)
    if as_json:
        facts = {"session_id": busy.session_id, "owner": busy.owner}
        times = {"lease_s": round(free_in_s, 1), "at_most_s": at_most_s}
        note(dumps({"waiting": {**facts, **times}}))
    else:
        note(
            f"waiting for session {busy.session_id}, held by {busy.owner}, at most "
            f"{at_most_s:g} s; unless it is renewed, its lease ends in {free_in_s:.0f} s …"
        )
