"""Each framework's member alone: memory, approvals, spending, failures; and the pages."""

from __future__ import annotations

import asyncio
import runpy
from pathlib import Path
from typing import Any

import agent_framework as af
import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from ekiden import (
    ForeignAgentError,
    Inbox,
    MemoryStore,
    RunConfig,
    Runner,
    Session,
    UserError,
    foreign_agent,
)
from tests.frameworks.claude_api import claude_api
from tests.frameworks.effects import done, watched
from tests.frameworks.main import members
from tests.frameworks.pages import DOCS, run_page

MADE = {
    "lg": (members.graph, "langgraph", "node"),
    "pyd": (lambda: members.pydantic_agent(approval=True), "pydantic_ai", "call"),
    "oai": (members.sdk_agent, "openai_agents", "call"),
    "maf": (lambda: members.framework_agent(approval=True), "agent_framework", "call"),
    "ag": (lambda: members.assistant(("transfer_to_user", "{}")), "autogen", "turn"),
}
ASKS = {"lg": [], "pyd": ["book"], "oai": ["book"], "maf": ["book"], "ag": [None]}


@pytest.fixture(autouse=True)
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    monkeypatch.delenv("KILL", raising=False)


@pytest.mark.parametrize("name", MADE)
async def test_a_member_asks_people_books_once_and_remembers(name: str, tmp_path: Path) -> None:
    make, framework, durability = MADE[name]
    agent = foreign_agent(make(), name)
    assert (agent.kind, agent.implementation.durability) == (framework, durability)
    store, config = MemoryStore(), RunConfig(approver="inbox")
    session = Session("s", store=store)
    result = await Runner.run(agent, "please book", session=session, run_config=config)
    items = (await Inbox(store).list()).items
    assert [item.tool for item in items] == ASKS[name]
    for item in items:
        given: Any = {"text": "yes"} if item.tool is None else {"choice": "approve"}
        await Inbox(store).answer(item.id, by="ann", **given)
    if items:
        result = await Runner.resume(agent, session=session, run_config=config)
    assert result.final_output == f"{name} done"
    assert result.context_wrapper.usage.tokens > 0
    assert len(done(tmp_path / "effects")) == 1
    calls = [each for each in await session.events() if each.type == "tool_call"]
    assert calls[0].items[0]["name"] == "book"
    again = await Runner.run(agent, "again", session=session, run_config=config)
    assert again.outcome is not None


PLAIN = {
    "lg": members.graph,
    "pyd": members.pydantic_agent,
    "oai": lambda: members.sdk_agent(approval=False),
    "maf": members.framework_agent,
    "ag": members.assistant,
    "flow": lambda: af.WorkflowBuilder(start_executor=members.framework_agent()).build(),
}


@pytest.mark.parametrize("name", PLAIN)
async def test_cancelling_the_run_reaches_the_tool_of_a_member(name: str) -> None:
    with watched(hangs=True) as inside:
        run = asyncio.create_task(Runner.run(foreign_agent(PLAIN[name](), name), "please book"))
        await inside.begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert inside.cancelled


@pytest.mark.parametrize("name", PLAIN)
async def test_the_spans_of_a_member_are_part_of_the_session_trace(name: str) -> None:
    with watched() as inside:
        await Runner.run(foreign_agent(PLAIN[name](), name), "please book")
    below, ours = inside.traces
    assert below == ours


@pytest.mark.parametrize("name", ["lg", "pyd", "oai", "flow"])
async def test_the_text_of_a_member_is_streamed(name: str) -> None:
    streamed = Runner.run_streamed(foreign_agent(PLAIN[name](), name), "please book")
    shown = [
        event.data.text
        async for event in streamed.stream_events()
        if event.type == "raw_response_event"
    ]
    assert "".join(shown) == f"{name.replace('flow', 'maf')} done"
    assert len(shown) > 1


async def test_the_exception_of_a_member_is_the_cause() -> None:
    def breaks(state: Any) -> Any:
        raise KeyError("lost")

    graph = StateGraph(MessagesState)
    graph.add_node("breaks", breaks)
    graph.add_edge(START, "breaks")
    graph.add_edge("breaks", END)
    with pytest.raises(ForeignAgentError, match="langgraph") as failed:
        await Runner.run(foreign_agent(graph, "g"), "Go.")
    assert isinstance(failed.value.__cause__, KeyError)


@pytest.mark.parametrize("breaks", ["beside", "last"])
async def test_a_finished_node_is_not_repeated(breaks: str) -> None:
    ran: list[str] = []

    def node(name: str) -> Any:
        async def run(state: Any) -> Any:
            ran.append(name)
            if name == breaks and ran.count(name) == 1:
                raise KeyError("lost")
            return {"messages": [AIMessage(name)]}

        return run

    graph = StateGraph(MessagesState)
    for name in ("first", "beside", "last"):
        graph.add_node(name, node(name))
    graph.add_edge(START, "first")
    graph.add_edge(START, "beside")
    graph.add_edge(["first", "beside"], "last")
    agent, session = foreign_agent(graph, "g"), Session("s", store=MemoryStore())
    with pytest.raises(ForeignAgentError):
        await Runner.run(agent, "Go.", session=session)
    result = await Runner.resume(agent, session=session)
    assert result.final_output == "last"
    assert sorted(ran) == sorted(["first", "beside", "last", breaks])


async def test_messages_of_a_subgraph_are_recorded_once() -> None:
    def call(state: Any) -> Any:
        used = {"input_tokens": 2, "output_tokens": 1, "total_tokens": 3}
        wanted = [{"id": f"c{len(state['messages'])}", "name": "look", "args": {}}]
        message = AIMessage("", usage_metadata=used, tool_calls=wanted)
        return {"messages": [message, ToolMessage("found", tool_call_id=wanted[0]["id"])]}

    inner, outer = StateGraph(MessagesState), StateGraph(MessagesState)
    inner.add_node("call", call)
    inner.add_edge(START, "call")
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    agent, store = foreign_agent(outer, "g"), MemoryStore()
    session = Session("s", store=store)
    for _ in range(2):
        result = await Runner.run(agent, "Go.", session=session)
        assert result.context_wrapper.usage.tokens == 3
    assert len([each for each in await session.events() if each.type == "tool_call"]) == 2


def test_an_unsupported_object_is_refused_as_member() -> None:
    with pytest.raises(UserError, match="is neither an Agent nor a Workflow"):
        foreign_agent(af.Message("user", ["hi"]), "m")


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_the_examples_of_a_framework_page_run(page: str, tmp_path: Path) -> None:
    with claude_api(("mcp__shop__refund", {"amount": 30})) as api:
        run_page(page, api={**api, "CLAUDE_CONFIG_DIR": str(tmp_path)})


def test_the_example_with_a_graph_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(DOCS.parents[1] / "examples" / "langgraph_member.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        'the graph waits for: refund {"euros":30}',
        "30 euros are refunded, approved by ann.",
        "user → triage → billing",
    ]
