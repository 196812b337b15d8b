"""Hooks of a live session and of its agents."""

from __future__ import annotations

from typing import Any

from ekiden import AgentHooks, RunHooks
from ekiden.integrations.realtime import RealtimeAgent
from ekiden.testing import say, transfer
from tests.integration.realtime.conftest import outputs, talking


class Diary(RunHooks[Any]):
    """Records each call of a hook."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.lines.append(f"start {agent.name}")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.lines.append(f"end {agent.name}: {output}")

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self.lines.append(f"{from_agent.name} to {to_agent.name}")


class Own(AgentHooks[Any]):
    """Writes into the same diary."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        self.lines.append(f"own: {source.name} to {agent.name}")

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        raise RuntimeError("no ink left")


async def test_hooks_of_the_session_and_of_the_agents_are_called(
    triage: RealtimeAgent[Any], billing: RealtimeAgent[Any]
) -> None:
    diary = Diary()
    triage.hooks = billing.hooks = Own(diary.lines)
    async with talking([transfer("billing"), say("Paid.")], triage, hooks=diary) as (_, live):
        await live.session.send_message("Hi")
        error = await live.until_type("error")
    assert str(error.error) == "no ink left"
    assert diary.lines == [
        "start triage",
        "triage to billing",
        "own: triage to billing",
        "start billing",
        "end billing: Paid.",
    ]


async def test_a_failing_hook_refuses_a_handoff(triage: RealtimeAgent[Any]) -> None:
    class Strict(AgentHooks[Any]):
        async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
            raise PermissionError("not today")

        async def on_start(self, context: Any, agent: Any) -> None:
            raise RuntimeError("not awake yet")

    triage.hooks = Strict()
    async with talking([transfer("billing"), say("I stay.")], triage) as (server, live):
        await live.session.send_message("Hi")
        await live.until_said("I stay.")
        assert live.session.agent is triage
    assert "PermissionError: not today" in outputs(server)[0]
    assert str(live.of("error")[0].error) == "not awake yet"
