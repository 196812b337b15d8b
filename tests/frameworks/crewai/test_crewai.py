"""Flows and crews of CrewAI: killed in a method, asked about, streamed, cancelled; and the page."""

from __future__ import annotations

import asyncio
import signal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from crewai import Agent as CrewAgent, BaseLLM, Crew, Task
from crewai.flow import Flow, start
from crewai.llms.base_llm import LLMCallType
from crewai.tools import tool

from ekiden import Inbox, MemoryStore, Runner, Session, foreign_agent
from ekiden.project.stores import open_store
from tests.frameworks.crewai.flows import CONFIG, TripFlow, life, run
from tests.frameworks.effects import booked, done, effect, watched
from tests.frameworks.pages import run_page


class Scripted(BaseLLM):
    """Answers in ReAct's format, which needs no function calling."""

    def call(self, messages: Any, *args: Any, from_task: Any = None, **options: Any) -> str:
        told = str(messages)
        text = "Thought: I now can give a great answer\nFinal Answer: crew done"
        if "is booked" not in told and options.get("available_functions") is None:
            text = 'Thought: book\nAction: book\nAction Input: {"what": "crew"}'
        self._emit_call_completed_event(
            text,
            LLMCallType.LLM_CALL,
            from_task=from_task,
            usage={"prompt_tokens": 3, "completion_tokens": 1},
        )
        return text

    def supports_function_calling(self) -> bool:
        return False


@pytest.fixture(autouse=True)
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    monkeypatch.delenv("KILL", raising=False)


def crew() -> Crew:
    @tool("book")
    def book(what: str) -> str:
        """Book."""
        return effect("crew")

    agent = CrewAgent(
        role="booker", goal="book", backstory="-", llm=Scripted(model="scripted"), tools=[book]
    )
    task = Task(description="Book: {text}", expected_output="a word", agent=agent)
    return Crew(agents=[agent], tasks=[task])


async def test_a_flow_asks_a_person_and_repeats_no_method(tmp_path: Path) -> None:
    agent = foreign_agent(TripFlow, "flow")
    assert (agent.kind, agent.implementation.durability) == ("crewai", "method")
    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(agent, "Rome", session=session, run_config=CONFIG)
    [item] = (await Inbox(store).list()).items
    assert (item.subject, item.body) == ("Is the trip right?", "plan for Rome, 1 booked")
    await Inbox(store).answer(item.id, text="fine", by="ann")
    result = await Runner.resume(agent, session=session, run_config=CONFIG)
    assert result.final_output == "plan for Rome, 1 booked: fine"
    assert len(done(tmp_path / "effects")) == 1
    await Runner.run(agent, "Oslo", session=session, run_config=CONFIG)
    [item] = (await Inbox(store).list()).items
    assert item.body == "plan for Oslo, 2 booked"  # It remembers the state of its last turn.


def test_a_flow_killed_in_a_method_resumes_and_hands_off(tmp_path: Path) -> None:
    url = str(tmp_path / "s.db")
    # CrewAI's threads do not survive a fork.
    victim = get_context("spawn").Process(target=life, args=(url,))
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    asyncio.run(run(url))

    async def answer() -> None:
        async with open_store(url) as store:
            [item] = (await Inbox(store).list()).items
            await Inbox(store).answer(item.id, text="fine", by="ann")

    asyncio.run(answer())
    result = asyncio.run(run(url))
    assert (result.final_output, result.chain[-1]) == ("Booked for you.", "desk")
    made = done(tmp_path / "effects")
    assert len(made) == 2  # The method under way is repeated,
    assert len(set(made)) == 1  # under the same key.


async def test_a_crew_is_one_step_whose_tools_and_usage_are_recorded(tmp_path: Path) -> None:
    agent = foreign_agent(crew(), "crew")
    assert agent.implementation.durability == "turn"
    session = Session("s", store=MemoryStore())
    result = await Runner.run(agent, "a trip", session=session, run_config=CONFIG)
    assert result.final_output == "crew done"
    assert result.context_wrapper.usage.tokens > 0
    assert len(done(tmp_path / "effects")) == 1
    calls = [each.items[0]["name"] for each in await session.events() if each.type == "tool_call"]
    assert calls == ["book"]


async def test_cancelling_the_run_reaches_the_flow() -> None:
    begun, ended = asyncio.Event(), []

    class Hangs(Flow[dict[str, Any]]):
        @start()
        async def wait(self) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

    run = asyncio.create_task(Runner.run(foreign_agent(Hangs, "sleeper"), "Sleep."))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended


async def test_the_spans_of_a_flow_are_part_of_the_session_trace() -> None:
    class Books(Flow[dict[str, Any]]):
        @start()
        async def book(self) -> str:
            return await booked("flow")

    with watched() as inside:
        await Runner.run(foreign_agent(Books, "flow"), "Go.")
    below, ours = inside.traces
    assert below == ours


def test_the_examples_of_the_crewai_page_run() -> None:
    run_page("crewai/crewai.md", framed=True)
