"""Small teams that hand over."""

from __future__ import annotations

from ekiden.core.agent import Agent, Team
from ekiden.testing import ScriptedModel, say, transfer


def relay(source: str, target: str) -> Team:
    """`source` hands its first message to `target`, which answers everything."""
    last = Agent(target, model=ScriptedModel(respond=lambda request: say("Here you are.")))
    script = ScriptedModel(respond=lambda request: transfer(target, reason="not mine"))
    return Team(Agent(source, model=script, handoffs=[last]))
