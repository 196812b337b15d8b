"""What a desk does by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ekiden import Agent, Team
from ekiden.bus import Bus
from ekiden.collaboration import Collaborations
from ekiden.core.context import RunContextWrapper
from ekiden.project import load_project
from ekiden.project.run_tasks import RunOrder
from ekiden.project.service import Service
from tests.support.relay_team import relay_team


async def test_an_agreement_is_executed_in_the_background(tmp_path: Path) -> None:
    project = load_project(tmp_path, home=tmp_path / "home")
    project.team = relay_team()
    async with Service(project, store=str(tmp_path / "s.db")) as service:
        desk = await service.tenant_service()
        async with Bus(desk.store) as bus:
            collaborations = Collaborations(bus)
            asked = await collaborations.as_agent("triage").request_handoff("desk", "Say hello.")
            await collaborations.as_agent("desk").acknowledge(asked.id)
            details: Mapping[str, Any] = {}
            async with desk.hub.subscribe(after="") as stream:
                async for found in stream:
                    details = found.event.details or {}
                    if found.event.type == "handoff" and details.get("status") == "completed":
                        break
        assert details["to"] == "desk"


async def test_a_run_that_waits_only_for_agents_is_running(tmp_path: Path) -> None:
    async def ask(ctx: RunContextWrapper[None]) -> str:
        answer = await ctx.ask("helper", "anything")
        return f"helper said {answer}"

    async def help(ctx: RunContextWrapper[None]) -> str:
        return "yes"

    project = load_project(tmp_path, home=tmp_path / "home")
    project.team = Team(Agent("asker", run=ask), Agent("helper", run=help))
    async with Service(project, store=str(tmp_path / "s.db")) as service:
        desk = await service.tenant_service()
        started, watching = await desk.runs.start_watched(RunOrder(input="go"))
        record = await desk.runs.wait(started.run_id, timeout_s=60)
        assert (record.status, record.output) == ("done", "helper said yes")
        numbers = [each.seq async for each in watching if hasattr(each, "seq")]
        assert numbers == list(range(1, numbers[-1] + 1))
