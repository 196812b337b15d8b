"""The agents of a story as real ones: code and models that do what their programs say."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.context import RunContextWrapper, ToolContext
from ekiden.core.conversation.messages import BusLimits
from ekiden.core.conversation.model import ModelRequest, is_message, text_of
from ekiden.core.errors.messages import BusError, InboxItemClosed
from ekiden.core.profile import Confirmation
from ekiden.core.questions import Ask
from ekiden.core.tools.tool import FunctionTool
from ekiden.handoff import handoff
from ekiden.runtime import CodeContext, RunConfig
from ekiden.runtime.questions.due import run_timers
from ekiden.storage.base import Store
from ekiden.testing import ManualClock, ScriptedModel, call, fail, say, transfer
from ekiden.testing.steps import StepLike
from ekiden.tools import function_tool
from tests.unit.runtime.asking_machine.programs import LONG_S, Member, Move, Story

TOLD = "!"
"""The beginning of the path of an effect after a message."""
YES, NO = "yes", "no"
HANG_S = 0.2


class Broken(Exception):
    """An agent that fails."""


class Office:
    """A team at work, and what it did to the world.

    Everything is asked under a path that tells where it comes from, and the answer to it must be
    `answer_to` that path.
    """

    def __init__(self, story: Story, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.may_hang = False
        self.interruptions = 0
        """How often somebody stopped a run."""
        self.effects: list[str] = []
        """The keys of all calls of the tool that has an effect."""
        self.paid: list[tuple[str, str, str]] = []
        """Key, session and argument of all calls of the tool that needs a yes."""
        self.troubles: list[str] = []
        """What must not happen: an exception would pass for an agent's failure."""
        self.config = RunConfig(
            clock=clock, approver="inbox", bus=BusLimits(victim=story.victim), on_busy="refuse"
        )
        self._members = {member.name: member for member in story.members}
        self._tools = self._make_tools()
        agents = [self._agent(member) for member in story.members]
        for agent in agents:
            agent.handoffs = [handoff(each, completes="result") for each in agents if each != agent]
        self.team = Team(*agents)

    def team_of(self, entry: str) -> Team:
        """The team with somebody in front."""
        first = self.team[entry]
        return Team(first, *(agent for agent in self.team if agent is not first))

    def _agent(self, member: Member) -> Agent[Any]:
        if member.is_model:
            model = ScriptedModel(respond=self._think, record=False)
            return Agent(member.name, model=model, tools=self._tools)
        return Agent(member.name, run=self._run, tools=self._tools)

    def _make_tools(self) -> list[FunctionTool]:
        @function_tool
        async def effect(ctx: ToolContext[Any], at: str) -> str:
            """Do something that must not be done twice."""
            self.effects.append(ctx.idempotency_key)
            return at

        @function_tool(confirmation=Confirmation(timeout_s=LONG_S))
        async def pay(ctx: ToolContext[Any], at: str) -> str:
            """Do something that needs a yes."""
            self.paid.append((ctx.idempotency_key, ctx.session_id or "", at))
            return at

        @function_tool
        async def perform(ctx: ToolContext[Any], at: str, number: int) -> str:
            """Do a move of the agent's program."""
            await self._do(ctx, self._program(ctx.agent.name, at.rpartition("/")[0])[number], at)
            return at

        return [effect, pay, perform]

    def _program(self, name: str, path: str) -> tuple[Move, ...]:
        depth = path.count("/")
        programs = self._members[name].programs
        return programs[depth] if depth < len(programs) else ()

    # Agents that are code

    async def _run(self, ctx: CodeContext[Any]) -> Any:
        path, name = path_in(ctx.text), ctx.agent.name
        for number, move in enumerate(self._program(name, path)):
            at = f"{path}/{name}{number}"
            if move.kind == "answer":
                break
            if move.kind == "hand":
                target = self._target(move, name)
                if target is not None and target not in ctx.failed_handoffs:
                    return ctx.hand_off(target, reason=at)
            elif move.kind in ("effect", "pay"):
                try:
                    await ctx.call(move.kind, at=at)
                except Exception as exc:
                    if move.kind == "effect":
                        self.troubles.append(f"{at}: {exc!r}")
            else:
                await self._do(ctx, move, at)
        return answer_to(path)

    # Agents that are models

    def _think(self, request: ModelRequest) -> StepLike:
        said = [
            text_of(item) for item in request.input if is_message(item) and item["role"] == "user"
        ]
        name = request.agent or ""
        path = path_in(said[-1])
        begins = f"{path}/{name}"
        program = self._program(name, path)
        number = sum(
            begins in item["arguments"]
            for item in request.input
            if item.get("type") == "function_call"
        )
        moves = program[number : number + 2]
        if not moves or moves[0].kind == "answer":
            return say(answer_to(path))
        if moves[0].kind == "hand":
            target = self._target(moves[0], name)
            at = f"{begins}{number}"
            return say(answer_to(path)) if target is None else transfer(target, reason=at)
        if moves[0].kind == "fail" and not moves[0].is_careful:
            return fail(Broken(begins))
        calls = []
        for place, move in enumerate(moves, start=number):
            if move.kind in ("hand", "answer"):
                break
            at = f"{begins}{place}"
            if move.kind in ("effect", "pay"):
                calls.append(call(move.kind, at=at))
            else:
                calls.append(call("perform", at=at, number=place))
        return calls

    # What both do

    def _target(self, move: Move, name: str) -> str | None:
        there = [each for each in move.to if each in self._members and each != name]
        return there[0] if there else None

    async def _do(self, ctx: RunContextWrapper[Any], move: Move, at: str) -> None:
        try:
            match move.kind:
                case "ask":
                    answer = await ctx.ask(move.to[0], f"<{at}>", timeout_s=move.timeout_s)
                    self._check(answer, at)
                case "ask all":
                    asks = self._asks(move, at)
                    answers = await ctx.ask_all(asks)
                    for place, each in enumerate(answers):
                        self._check(each, f"{at}.{place}")
                case "ask any":
                    who, answer = await ctx.ask_any(self._asks(move, at))
                    places = [place for place, name in enumerate(move.to) if name == who]
                    if answer not in [answer_to(f"{at}.{place}") for place in places]:
                        self.troubles.append(f"{who} answered {at} with {answer!r}")
                case "tell":
                    await ctx.tell(move.to[0], f"<{TOLD}{at}>")
                case "approve":
                    await self._approve(ctx, move, at)
                case "late":
                    self.clock.advance(2 * LONG_S)
                    await run_timers(self.store)
                case "hang":
                    self.clock.advance(2 * LONG_S)
                    if self.may_hang and "/" in at.rpartition("/")[0] and not _is_told(at):
                        await asyncio.sleep(HANG_S)
                case "fail":
                    raise Broken(at)
        except (BusError, InboxItemClosed):
            if not move.is_careful:
                raise

    def _asks(self, move: Move, at: str) -> list[Ask]:
        return [
            Ask(agent=name, subject=f"<{at}.{place}>", timeout_s=move.timeout_s)
            for place, name in enumerate(move.to)
        ]

    async def _approve(self, ctx: RunContextWrapper[Any], move: Move, at: str) -> None:
        default = None if move.deadline_s is None else NO
        answer = await ctx.request_approval(
            f"<{at}>", (YES, NO), deadline_s=move.deadline_s, default=default
        )
        if answer.choice not in (YES, NO):
            self.troubles.append(f"{at} was decided as {answer}")

    def _check(self, answer: Any, at: str) -> None:
        if answer != answer_to(at):
            self.troubles.append(f"{at} was answered with {answer!r}")


def _is_told(at: str) -> bool:
    """Whether nobody waits for what is done there."""
    return TOLD in at.split("/")[-2]


def path_in(text: str) -> str:
    """The path of what was asked, told or written."""
    found: str = re.findall("<(.*?)>", text)[-1]
    return found


def answer_to(path: str) -> str:
    """What everybody answers."""
    return f"answer to {path}"
