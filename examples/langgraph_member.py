"""A LangGraph graph as a member of a team, with an approval in the inbox.

    pip install ekiden langgraph
    python examples/langgraph_member.py

`triage` is an Ekiden agent, and `billing` is an ordinary graph. Ekiden stores the graph's state
after each node. `interrupt()` becomes an inbox item, which a person can answer in any process.
"""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from ekiden import Agent, Inbox, MemoryStore, RunConfig, Runner, Session, foreign_agent
from ekiden.testing import ScriptedModel, transfer

MODEL = ScriptedModel([transfer("billing", reason="a refund")])
# With a key: MODEL = "openai:gpt-5-mini"


async def refund(state: MessagesState) -> dict[str, Any]:
    """A node that asks a person first."""
    answer = interrupt({"tool": "refund", "args": {"euros": 30}})
    if not answer["approved"]:
        return {"messages": [AIMessage("There is no refund.")]}
    return {"messages": [AIMessage(f"30 euros are refunded, approved by {answer['by']}.")]}


graph = StateGraph(MessagesState)
graph.add_node("refund", refund)
graph.add_edge(START, "refund")
graph.add_edge("refund", END)

billing = foreign_agent(graph, "billing", description="Refunds.")
triage = Agent("triage", instructions="Find the right agent.", model=MODEL, handoffs=[billing])


async def main() -> None:
    """Run the team until it waits, approve, and resume it."""
    store, config = MemoryStore(), RunConfig(approver="inbox")
    session = Session("customer-42", store=store)
    await Runner.run(triage, "I want my money back.", session=session, run_config=config)
    [item] = (await Inbox(store).list()).items
    print("the graph waits for:", item.tool, item.arguments)
    await Inbox(store).answer(item.id, choice="approve", by="ann")
    result = await Runner.resume(triage, session, run_config=config)
    print(result.final_output)
    print(" → ".join(result.chain))


if __name__ == "__main__":
    asyncio.run(main())
