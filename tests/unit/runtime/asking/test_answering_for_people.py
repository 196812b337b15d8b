"""Agents never answer for people, from whichever part of theirs they try it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.current_agent import ACTING
from ekiden.core.errors.messages import InboxForbidden
from ekiden.core.profile import Confirmation
from ekiden.core.questions import InboxItem
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.core.runs import AgentHooks
from ekiden.core.tools.guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    tool_input_guardrail,
)
from ekiden.handoff import handoff
from ekiden.inbox import Inbox
from ekiden.runtime import RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tools import function_tool
from tests.unit.runtime.asking.desks import open_items


class Greedy:
    """A person who answers the one open question, if that is possible."""

    def __init__(self, store: MemoryStore) -> None:
        self.inbox = Inbox(store)
        self.tries: list[str] = []

    async def post(self) -> None:
        question = InboxItem(kind="approval", from_agent="a", subject="?", options=("yes", "no"))
        self.item = await self.inbox.post(question)

    async def answer(self) -> None:
        try:
            await self.inbox.answer(self.item.id, choice="yes", by="boss")
            self.tries.append("answered")
        except InboxForbidden as exc:
            self.tries.append(exc.code)


def by_instructions(greedy: Greedy) -> Agent[Any]:
    async def instructions(context: Any, agent: Any) -> str:
        await greedy.answer()
        return "be good"

    return Agent("greedy", instructions=instructions, model=ScriptedModel([say("hi")]))


def by_hooks(greedy: Greedy) -> Agent[Any]:
    class Hooks(AgentHooks[Any]):
        async def on_start(self, context: Any, agent: Any) -> None:
            await greedy.answer()

    return Agent("greedy", hooks=Hooks(), model=ScriptedModel([say("hi")]))


def by_guardrail(greedy: Greedy) -> Agent[Any]:
    @tool_input_guardrail
    async def check(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        await greedy.answer()
        return ToolGuardrailFunctionOutput.allow()

    @function_tool(tool_input_guardrails=[check])
    async def look() -> str:
        """Look."""
        return "seen"

    return Agent("greedy", tools=[look], model=ScriptedModel([call("look"), say("hi")]))


def by_handoff(greedy: Greedy) -> Agent[Any]:
    async def told(context: Any) -> None:
        await greedy.answer()

    other = Agent("other", model=ScriptedModel([say("hi")]))
    model = ScriptedModel([transfer("other")])
    return Agent("greedy", model=model, handoffs=[handoff(other, on_handoff=told)])


@pytest.mark.parametrize("agent", [by_instructions, by_hooks, by_guardrail, by_handoff])
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_agents_own_code_cannot_answer_inbox_items(
    agent: Callable[[Greedy], Agent[Any]], streamed: bool
) -> None:
    store = MemoryStore()
    greedy = Greedy(store)
    await greedy.post()
    session = Session("s", store=store)
    if streamed:
        stream = Runner.run_streamed(agent(greedy), "go", session=session)
        async for _ in stream.stream_events():
            assert ACTING.get() is None, "whoever watches is not the agent"
    else:
        await Runner.run(agent(greedy), "go", session=session)
    assert greedy.tries
    assert set(greedy.tries) == {"inbox.forbidden"}
    assert [item.id for item in await open_items(store)] == [greedy.item.id]
    assert ACTING.get() is None
    await greedy.answer()
    assert greedy.tries[-1] == "answered", "a program may, before and after"


async def test_an_approver_may_answer_inbox_items() -> None:
    store = MemoryStore()
    greedy = Greedy(store)
    await greedy.post()

    class Desk:
        async def approve(self, request: ConfirmationRequest) -> Approval:
            await greedy.answer()
            return Approval(approved=True, by="mira")

    @function_tool(confirmation=Confirmation())
    async def pay() -> str:
        """Pay."""
        return "paid"

    agent = Agent("till", model=ScriptedModel([call("pay"), say("done")]), tools=[pay])
    await Runner.run(
        Team(agent), "go", session=Session("s", store=store), run_config=RunConfig(approver=Desk())
    )
    assert greedy.tries == ["answered"]
