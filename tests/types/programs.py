"""What type checkers say of programs: right ones are right, and each mistake is one.

Nothing here is run. `mypy` reads it with the rest, and an expected error that is none any more is
itself an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from ekiden import (
    Agent,
    CodeContext,
    Done,
    Ekiden,
    FunctionTool,
    RunContextWrapper,
    Runner,
    RunResult,
    Team,
    ToolContext,
    function_tool,
)


@dataclass
class Shop:
    """A context."""

    name: str


@dataclass
class Bank:
    """Another one."""

    name: str


@dataclass
class Report:
    """An answer."""

    text: str


def for_shop(ctx: RunContextWrapper[Shop], agent: Agent) -> str:
    """Instructions that need a shop."""
    return ctx.context.name


def for_bank(ctx: RunContextWrapper[Bank], agent: Agent) -> str:
    """Instructions that need a bank."""
    return ctx.context.name


@function_tool
def add(first: int, second: int) -> int:
    """A tool without a context."""
    return first + second


@function_tool(timeout=3)
async def shelf(ctx: ToolContext[Shop], order: str) -> str:
    """A tool that needs a shop."""
    return f"{ctx.context.name} {order}"


@function_tool
async def balance(ctx: RunContextWrapper[Bank]) -> Report:
    """A tool that needs a bank; what it gives comes back as JSON."""
    return Report(ctx.context.name)


assert_type(add, FunctionTool[Any, int])
assert_type(shelf, FunctionTool[Shop, str])
assert_type(balance, FunctionTool[Bank, Any])

plain = Agent("plain")
assert_type(plain, Agent[Any, Any])
reporter = Agent("reporter", output_type=Report)
assert_type(reporter, Agent[Any, Report])
seller = Agent[Shop]("seller", instructions=for_shop, tools=[add, shelf])
assert_type(Agent("seller", instructions=for_shop), Agent[Shop, Any])
both = Agent[Shop, Report]("both", tools=[add], handoffs=[plain, seller], output_type=Report)

Agent[Shop]("wrong", instructions=for_bank)  # type: ignore[arg-type]
Agent[Shop]("wrong", tools=[balance])  # type: ignore[list-item]
Agent[Shop, Report]("wrong", output_type=Bank)  # type: ignore[arg-type]


async def results() -> None:
    """What runs give."""
    found = await Runner.run(both, "hello", context=Shop("corner"))
    assert_type(found, RunResult[Shop, Report])
    assert_type(found.final_output, Report | None)
    assert_type(found.last_agent, Agent[Shop, Any])
    assert_type(found.context_wrapper.context, Shop)
    assert_type(found.raise_for_outcome(), RunResult[Shop, Report])
    if isinstance(found.outcome, Done):
        assert_type(found.outcome.output, Report)
    assert_type(Runner.run_streamed(reporter, "hello").result.final_output, Report | None)
    assert_type(await Runner.run(Team(plain), "hello"), RunResult[Any, Any])
    untyped: RunResult = await Runner.run(plain, "hello", context=Bank("north"))
    print(untyped)

    await Runner.run(seller, "hello", context=Bank("north"))  # type: ignore[misc]
    Runner.run_streamed(seller, "hello", context=Bank("north"))  # type: ignore[misc]
    Runner.run_sync(both, "hello", context="north")  # type: ignore[misc]
    print(found.final_output.text)  # type: ignore[union-attr]


async def resources() -> None:
    """What a store or a server has."""
    async with Ekiden.open("memory:") as ek:
        assert_type((await ek.runs.get("s:1")).output, Any)
        async for session in ek.sessions.list():
            assert_type(session.session_id, str)
        await ek.sessions.get(5)  # type: ignore[arg-type]
        print(ek.nothing)  # type: ignore[attr-defined]


async def code(ctx: CodeContext[Shop]) -> str:
    """What tools give to an agent that is code."""
    assert_type(await ctx.call(add, first=1, second=2), int)
    assert_type(await ctx.call("add", first=1, second=2), Any)
    assert_type(await ctx.call(balance), Any)
    assert_type(ctx.context, Shop)
    return await ctx.call(add, first=1, second=2)  # type: ignore[arg-type]
