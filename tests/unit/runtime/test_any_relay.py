"""Whatever agents do and wherever a run is cut: it ends the same, and its record is sound."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import given, strategies as st

from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.events import Event
from ekiden.handoff import handoff, remove_all_tools
from ekiden.runtime import Limits, RunConfig, Runner
from ekiden.sessions import Session, conversation
from ekiden.storage.base import Commit
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from ekiden.tools import function_tool

NAMES = ("a", "b", "c")
CONFIG = RunConfig(limits=Limits(turns=40, depth=20))


class Cut(BaseException):
    """Ends a run as a crash would."""


class CuttingStore(MemoryStore):
    """Breaks off at the given commits, each before or after storing it."""

    def __init__(self, cuts: dict[int, bool]) -> None:
        super().__init__()
        self.cuts = cuts
        self.commits = 0

    async def commit(self, claim: Any, commit: Commit) -> None:
        self.commits += 1
        after = self.cuts.get(self.commits)
        if after is False:
            raise Cut
        await super().commit(claim, commit)
        if after:
            raise Cut


@dataclass(frozen=True)
class Move:
    """What the model does in one turn of the run."""

    kind: str
    target: str
    tools: int


moves = st.lists(
    st.builds(
        Move,
        kind=st.sampled_from(["tools", "transfer", "tools and transfer", "nonsense", "fail"]),
        target=st.sampled_from(NAMES),
        tools=st.integers(1, 3),
    ),
    max_size=10,
)


class Relay:
    """Three agents that may hand to each other and follow a script by turn alone."""

    def __init__(self, script: list[Move]) -> None:
        self.script = script
        self.effects: list[str] = []
        self.failing: set[str] = set()
        model = ScriptedModel(respond=self.answer)

        @function_tool
        async def act(ctx: ToolContext[Any], n: int) -> str:
            # Two runs are compared, of sessions that were made at different times.
            session_id, _, step = ctx.idempotency_key.split(":")
            self.effects.append(f"{session_id}:{step}")
            return f"did {n}"

        self.agents = {name: Agent(name, model=model, tools=[act]) for name in NAMES}
        for name, agent in self.agents.items():
            for other in NAMES:
                if other != name:
                    keep = None if other != "c" else remove_all_tools
                    agent.handoffs.append(
                        handoff(self.agents[other], input_filter=keep, allow_return="always")
                    )

    def answer(self, request: Any) -> Any:
        turn = int(request.step.split(".")[1]) - 1
        if turn >= len(self.script):
            return say(f"{request.agent} ends")
        move = self.script[turn]
        tools = [call("act", n=n) for n in range(move.tools)]
        match move.kind:
            case "tools":
                return tools
            case "transfer":
                return transfer(move.target)
            case "tools and transfer":
                return [*tools, transfer(move.target)]
            case "nonsense":
                return call("no_such_tool")
            case _:
                return fail(ConnectionError("model away"))


async def play(script: list[Move], cuts: dict[int, bool]) -> tuple[Any, list[Event], Relay]:
    relay = Relay(script)
    store = CuttingStore(cuts)
    session = Session("s", store=store)
    root = relay.agents["a"]
    ending: Any = None
    for attempt in range(40):
        try:
            row = await store.get("s") if attempt else None
            if row is None or not row.cursor:
                result = await Runner.run(root, "go", session=session, run_config=CONFIG)
            elif row.outcome is not None:
                ending = (row.outcome, row.agent)
                break
            else:
                result = await Runner.resume(root, session, run_config=CONFIG)
            ending = (result.outcome.kind, result.last_agent.name)
            break
        except Cut:
            continue
        except Exception as exc:
            ending = ("failed", type(exc).__name__)
            break
    return ending, list(await session.events()), relay


def check_sound(events: list[Event]) -> None:
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    steps = [event.step for event in events if event.step]
    assert len(steps) == len(set(steps))
    active = "a"
    for event in events:
        details = event.details or {}
        if event.type == "handoff" and details["status"] == "transferring":
            assert details["from"] == active
            active = details["to"]
        elif event.type == "handoff" and details["status"] == "rolled_back":
            assert details["to"] == active
            active = details["from"]
        else:
            assert event.agent == active
    open_calls: set[str] = set()
    for item in conversation(events):
        if item.get("type") == "function_call":
            open_calls.add(item["call_id"])
        elif item.get("type") == "function_call_output":
            assert item["call_id"] in open_calls, "an output follows its call"
            open_calls.discard(item["call_id"])


@given(script=moves, cuts=st.dictionaries(st.integers(1, 30), st.booleans(), max_size=6))
def test_a_run_crashed_at_any_point_resumes_to_the_same_result(
    script: list[Move], cuts: dict[int, bool]
) -> None:
    whole, events, relay = asyncio.run(play(script, {}))
    check_sound(events)
    assert len(relay.effects) == len(set(relay.effects))
    harmed, harmed_events, harmed_relay = asyncio.run(play(script, cuts))
    check_sound(harmed_events)
    assert set(harmed_relay.effects) <= set(relay.effects) or whole[0] == "failed"
    if whole[0] != "failed":
        assert harmed == whole
        assert conversation(harmed_events) == conversation(events)
        assert set(harmed_relay.effects) == set(relay.effects)
