"""A fork after any event comes to the same end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings, strategies as st

from ekiden.audit import verify_audit
from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.events import Event
from ekiden.core.handoffs import HandoffTrigger
from ekiden.handoff import handoff, remove_all_tools
from ekiden.runtime import Limits, RunConfig, Runner
from ekiden.runtime.history.fork import fork_session, rewind_session
from ekiden.sessions import Session, conversation, variables_at
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from ekiden.tools import function_tool
from tests.support.examples import examples

NAMES = ("a", "b", "c")
CONFIG = RunConfig(limits=Limits(turns=40, depth=20))


@dataclass(frozen=True)
class Move:
    """What the model does in one turn."""

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
    max_size=5,
)


class Relay:
    """Three agents that may hand to each other and follow a script by turn alone."""

    def __init__(self, script: list[Move]) -> None:
        self.script = script
        self.seen: dict[str, list[Any]] = {}
        model = ScriptedModel(respond=self.answer)

        @function_tool
        async def act(ctx: ToolContext[Any], n: int) -> str:
            ctx.variables["last"] = n
            ctx.variables[f"done {n}"] = ctx.variables.get(f"done {n}", 0) + 1
            if n == 2:
                ctx.variables.pop("done 0", None)
                ctx.publish("two")
            return f"did {n}"

        self.agents = {name: Agent(name, model=model, tools=[act]) for name in NAMES}
        for name, agent in self.agents.items():
            for other in NAMES:
                if other != name:
                    keep = None if other != "c" else remove_all_tools
                    agent.handoffs.append(
                        handoff(self.agents[other], input_filter=keep, allow_return="always")
                    )
        self.agents["b"].handoffs.append(
            handoff(
                self.agents["a"],
                tool_name_override="because_of_two",
                trigger=HandoffTrigger(type="event", event="two"),
                allow_return="always",
            )
        )

    def answer(self, request: Any) -> Any:
        self.seen[request.step] = list(request.input)
        turn = int(request.step.split(".")[1]) - 1
        if turn >= len(self.script):
            return say(f"{request.agent} ends")
        move = self.script[turn]
        tools = [call("act", n=n) for n in range(move.tools)]
        match move.kind:
            case "tools":
                return tools
            case "transfer":
                return transfer(move.target, reason=f"because of {turn}")
            case "tools and transfer":
                return [*tools, transfer(move.target, context={"turn": turn})]
            case "nonsense":
                return call("no_such_tool")
            case _:
                return fail(ConnectionError("model away"))

    async def run(self, session: Session, text: str) -> str:
        try:
            result = await Runner.run(self.agents["a"], text, session=session, run_config=CONFIG)
            return result.outcome.kind
        except Exception as exc:
            return type(exc).__name__

    async def go_on(self, session: Session) -> str:
        try:
            result = await Runner.resume(self.agents["a"], session, run_config=CONFIG)
            return result.outcome.kind
        except Exception as exc:
            return type(exc).__name__


def later_undone(events: list[Event], seq: int) -> bool:
    """Whether a handoff is open after event `seq` that is undone later."""
    made = {
        (event.details or {})["id"]
        for event in events
        if event.type == "handoff"
        and event.seq <= seq
        and (event.details or {}).get("status") == "transferring"
    }
    return any(
        (event.details or {}).get("id") in made
        for event in events
        if event.type == "handoff"
        and event.seq > seq
        and (event.details or {}).get("status") == "rolled_back"
    )


async def check(first: list[Move], second: list[Move]) -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    relay = Relay(first)
    ended = await relay.run(session, "go")
    middle = (await session.row()).seq
    views = [relay.seen]
    if ended == "done":
        relay = Relay(second)
        views.append(relay.seen)
        ended = await relay.run(session, "and again")
    row, events = await session.row(), list(await session.events())
    for seq in range(1, len(events)):
        if seq == middle and len(views) == 2:
            continue
        script, last = (first, middle) if seq < middle else (second, len(events))
        branch = await fork_session(store, "s", at_seq=seq, new_id=f"at-{seq}")
        again = Relay(script)
        stood = await branch.row()
        assert stood.seq >= seq
        if stood.meta["forked_at"] in (middle, len(events)):
            assert conversation(await branch.events()) == conversation(
                events[: stood.meta["forked_at"]]
            )
            continue
        how = await again.go_on(branch)
        at = stood.meta["forked_at"]
        if (ended != "done" and last == len(events)) or later_undone(events, at):
            continue
        assert how == "done", (seq, how)
        assert conversation(await branch.events()) == conversation(events[:last]), seq
        mine = await branch.row()
        assert mine.cursor["p"] == "end"
        if last == len(events):
            assert (mine.agent, mine.variables) == (row.agent, row.variables), seq
            assert mine.cursor["ch"] == row.cursor["ch"]
            assert {k: mine.cursor.get(k) for k in COUNTED} == {
                k: row.cursor.get(k) for k in COUNTED
            }
        old = views[0 if seq < middle else 1]
        assert again.seen == {step: old[step] for step in again.seen}


COUNTED = ("t", "b", "a", "rc", "to", "bu", "fi", "pa", "h", "u")


async def check_rewinds(first: list[Move], second: list[Move], points: list[float]) -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    await Relay(first).run(session, "go")
    middle = (await session.row()).seq
    if (await session.row()).outcome == "done":
        await Relay(second).run(session, "and again")
    row, events = await session.row(), list(await session.events())
    for share in points:
        seq = 1 + int(share * (len(events) - 1))
        script, last = (first, middle) if seq < middle else (second, len(events))
        back = await rewind_session(store, "s", to_seq=seq)
        now = await session.events()
        stood = await session.row()
        assert back.to_seq >= seq
        assert conversation(now) == conversation(now[: back.to_seq])
        assert list(now[: len(events)]) == events
        assert stood.status == "idle"
        assert stood.variables == variables_at(now, back.to_seq) == variables_at(now, stood.seq)
        assert (await verify_audit(store)).ok
        if stood.cursor["p"] == "end":
            continue
        how = await Relay(script).go_on(session)
        if later_undone(events, back.to_seq) or (last == len(events) and row.outcome != "done"):
            continue
        assert how == "done"
        assert plain(conversation(await session.events())) == plain(conversation(events[:last]))
        assert (await session.row()).variables == variables_at(events, last)


def plain(items: list[Any]) -> list[Any]:
    """Without the ids of calls, which no two runs share."""
    return [{**item, "call_id": None, "id": None} for item in items]


@settings(max_examples=examples(40), deadline=None)
@given(
    first=moves,
    second=moves,
    points=st.lists(st.floats(0, 1), min_size=1, max_size=6),
)
def test_a_session_rewound_repeatedly_continues_as_before(
    first: list[Move], second: list[Move], points: list[float]
) -> None:
    asyncio.run(check_rewinds(first, second, points))


@settings(max_examples=examples(40), deadline=None)
@given(first=moves, second=moves)
def test_a_branch_from_any_event_reaches_the_same_end(
    first: list[Move], second: list[Move]
) -> None:
    asyncio.run(check(first, second))
