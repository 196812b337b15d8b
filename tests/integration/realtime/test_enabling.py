"""What is enabled is asked anew for every turn."""

from __future__ import annotations

from typing import Any

from ekiden import RunContextWrapper, function_tool
from ekiden.integrations.realtime import RealtimeAgent, realtime_handoff
from ekiden.testing import say, transfer
from tests.integration.realtime.conftest import outputs, talking, tool_names


async def test_disabled_tools_and_handoffs_are_offered_once_enabled(
    billing: RealtimeAgent[Any],
) -> None:
    is_open = False

    async def opened(ctx: RunContextWrapper[Any], agent: Any) -> bool:
        assert agent.name == "triage"
        return is_open

    @function_tool(is_enabled=lambda ctx, agent: is_open)
    def pay() -> str:
        """Pay."""
        return "paid"

    edge = realtime_handoff(billing, is_enabled=opened)
    never = realtime_handoff(RealtimeAgent("never"), is_enabled=False)
    triage = RealtimeAgent("triage", tools=[pay], handoffs=[edge, never])
    async with talking([say("Closed."), transfer("billing"), say("Open.")], triage) as (
        server,
        live,
    ):
        await live.session.send_message("Hi")
        await live.until_said("Closed.")
        assert tool_names(server.sent("session.update")[0]) == []
        is_open = True
        await live.session.send_message("And now?")
        await live.until_said("Open.")
    assert tool_names(server.sent("session.update")[1]) == ["pay", "transfer_to_billing"]
    assert server.kinds[3:6] == ["conversation.item.create", "session.update", "response.create"]


async def test_a_call_of_a_tool_disabled_meanwhile_is_refused(billing: RealtimeAgent[Any]) -> None:
    answers = iter([True, True, False, False])
    edge = realtime_handoff(billing, is_enabled=lambda ctx, agent: next(answers))
    triage = RealtimeAgent("triage", handoffs=[edge])
    async with talking([transfer("billing"), say("No.")], triage) as (server, live):
        await live.session.send_message("Hi")
        await live.until_said("No.")
        assert live.session.agent is triage
    assert outputs(server)[0].startswith("Error: there is no tool called 'transfer_to_billing'")
    assert tool_names(server.sent("session.update")[-1]) == []


async def test_a_failing_is_enabled_is_reported_and_removes_the_offer(
    billing: RealtimeAgent[Any],
) -> None:
    failing = False

    def check(ctx: RunContextWrapper[Any], agent: Any) -> bool:
        if failing:
            raise RuntimeError("cannot tell")
        return True

    triage = RealtimeAgent("triage", handoffs=[realtime_handoff(billing, is_enabled=check)])
    async with talking([transfer("billing"), say("Hm.")], triage) as (server, live):
        failing = True
        await live.session.send_message("Hi")
        await live.until_said("Hm.")
        assert live.session.agent is triage
    assert {str(event.error) for event in live.of("error")} == {"cannot tell"}
    assert outputs(server)[0].startswith("Error: there is no tool called")
