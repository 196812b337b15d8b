"""Runs as the doors need them: watched, with a result also when they fail."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.team import Team
from ekiden.routing.decision import Strategy
from ekiden.runtime import Circumstances, RunConfig, RunResult, RunResultStreaming
from ekiden.runtime.loop.loading import ended_run
from ekiden.runtime.loop.opening import begun, resumed
from ekiden.sessions import Session
from ekiden.storage.base import SessionRow


def begin(
    team: Team | Agent[Any],
    text: str,
    session: Session,
    *,
    config: RunConfig,
    live: bool = False,
    to: str | None = None,
    strategy: Strategy | None = None,
) -> RunResultStreaming:
    """A run of `text` in the session; `live` asks models for their answers piece by piece.

    `to` is an agent's name, or ``auto`` for the router, which `strategy` is passed to; without it
    the agent that has the session gets the message.
    """
    around = Circumstances(
        root=team,
        config=config,
        live=live,
        to=to,
        route_options=None if strategy is None else {"strategy": strategy},
    )
    return RunResultStreaming(lambda: begun(around, text, session))


def go_on(
    team: Team | Agent[Any], session: Session, *, config: RunConfig, live: bool = False
) -> RunResultStreaming:
    """The session's unfinished run; reading it raises `UserError` if there is none."""
    around = Circumstances(root=team, config=config, live=live)
    return RunResultStreaming(lambda: resumed(around, session))


async def ended(
    team: Team | Agent[Any], session: Session, row: SessionRow, *, config: RunConfig
) -> RunResult:
    """The session's last run, which somebody else took to an outcome."""
    around = Circumstances(root=team, config=config)
    return RunResult(await ended_run(around, session.store, row))
