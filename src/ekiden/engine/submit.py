"""Leaving work for the workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.runtime import RunConfig, RunOptions
from ekiden.runtime import submit as store_message
from ekiden.sessions import Session


async def submit(
    team: Agent[Any] | Team,
    input: str | Iterable[Any],
    *,
    session: Session,
    run_config: RunConfig | None = None,
    variables: Mapping[str, Any] | None = None,
) -> None:
    """Store a message for the session, which is created if necessary, and return at once.

    The session is then `ready`: a `Worker` claims it and runs it to an outcome. `SessionBusy` when
    a run has the session for longer than the configuration waits. `variables` are as in
    `Runner.run`::

        await submit(team, "Where is my parcel?", session=Session("s1", store=store))
    """
    options = RunOptions(root=team, config=run_config or RunConfig(), variables=variables)
    await store_message(options, input, session)
