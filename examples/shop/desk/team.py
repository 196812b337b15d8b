"""The team: the agents of the files in `.ekiden/agents`, and one agent that is code.

An agent file cannot name a code agent. So commands get the team with `--team desk.team:team`.
"""

from __future__ import annotations

import json
from pathlib import Path

from ekiden import Agent, CodeContext, Team, load_project

SUSPICIOUS = 5
"""So many earlier refunds need a look by a person."""


async def fraud_check(ctx: CodeContext) -> str:
    """Answer the refund desk's question with `low` or `high`."""
    facts = json.loads(ctx.received["context"])
    return "high" if facts["earlier_refunds"] >= SUSPICIOUS else "low"


_files = load_project(Path(__file__).parents[1]).team
_fraud = Agent("fraud", handoff_description="Judges refunds.", run=fraud_check)
team = Team(*_files, _fraud, entry=_files.entry.name)
