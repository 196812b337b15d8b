"""A research team: a supervisor plans, two agents work in parallel, a third joins their results.

    python examples/research_team.py

The plan and every result are stored in `research.db`. If you kill the program and
start it again, it continues with the remaining tasks.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ekiden import (
    Agent,
    ModelRequest,
    Runner,
    Session,
    SessionNotFound,
    SqliteStore,
    Supervisor,
    plan_state,
)
from ekiden.testing import ScriptedModel, say

PLAN = {
    "reasoning": "The report needs both findings.",
    "tasks": [
        {"id": "t1", "agent": "papers", "description": "Papers on heat pumps", "depends_on": []},
        {"id": "t2", "agent": "figures", "description": "Sales figures", "depends_on": []},
        {
            "id": "t3",
            "agent": "writer",
            "description": "A report of both",
            "depends_on": ["t1", "t2"],
        },
    ],
}
ANSWERS = {
    "papers": "Three studies report an efficiency of 3 to 4.",
    "figures": "Sales grew by 12 % in a year.",
    "writer": "Heat pumps are efficient (3 to 4), and sales grow by 12 % a year.",
}


def script(request: ModelRequest) -> Any:
    """Play the supervisor, who plans and then sums up, and its agents."""
    if request.agent in ANSWERS:
        return say(ANSWERS[request.agent])
    return say(ANSWERS["writer"] if "12 %" in str(request.input) else json.dumps(PLAN))


MODEL = ScriptedModel(respond=script)  # With a key: MODEL = "openai:gpt-5-mini"

team = Supervisor(
    "lead",
    model=MODEL,
    agents=[
        Agent("papers", instructions="Find and quote papers.", model=MODEL),
        Agent("figures", instructions="Find figures and their source.", model=MODEL),
        Agent("writer", instructions="Write short reports.", model=MODEL),
    ],
)


async def main() -> None:
    """Start the research, or continue it."""
    async with SqliteStore("research.db") as store:
        session = Session("heat-pumps", store=store)
        try:
            if (await session.row()).outcome != "done":
                await Runner.resume(team, session)
        except SessionNotFound:
            await Runner.run(team, "A report on heat pumps, please.", session=session)
        state = await plan_state(store, session.session_id)
        for result in state.results:
            print(f"{result.agent}: {result.data}")
        print(state.final_response)


if __name__ == "__main__":
    asyncio.run(main())
