"""Versions of tools and agents."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ekiden import Agent, FunctionTool, ModelSettings, ToolContext, function_tool, handoff
from ekiden.core.versions import agent_version, digest, tool_version

FEE = 2


def _charge(amount: int) -> int:
    return amount + FEE


def made(source: str, name: str = "pay", **known: Any) -> Any:
    """The function with this name in a module with this source."""
    module: dict[str, Any] = {"__name__": "shop", **known}
    exec(source, module)
    return module[name]


def versions(*sources: str) -> set[str]:
    return {tool_version(function_tool(made(source))) for source in sources}


def tool(function: Callable[..., Any], **options: Any) -> FunctionTool:
    return function_tool(function, **options)


def test_the_order_of_keys_does_not_change_a_digest() -> None:
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1}) != digest({"a": 1, "b": [3]})


def test_a_tool_that_is_made_again_has_the_same_version() -> None:
    source = "def pay(cents: int) -> str:\n    return f'paid {cents}'\n"
    assert len(versions(source, source)) == 1


def test_lines_and_comments_do_not_change_a_version() -> None:
    plain = "def pay(cents: int) -> int:\n    return cents\n"
    moved = "\n\ndef pay(cents: int) -> int:\n    # All of it.\n\n    return cents\n"
    assert len(versions(plain, moved)) == 1


@pytest.mark.parametrize(
    "changed",
    [
        "def pay(cents: int = 1) -> int:\n    return cents * 100\n",
        "def pay(cents: int = 1) -> int:\n    return cents * -1\n",
        "def pay(cents: int = 2) -> int:\n    return cents * 1\n",
        "def pay(cents: float = 1) -> int:\n    return cents * 1\n",
        "def pay(cents: int = 1) -> int:\n    'Pay.'\n    return cents * 1\n",
        "async def pay(cents: int = 1) -> int:\n    return cents * 1\n",
    ],
)
def test_other_code_or_another_definition_is_another_version(changed: str) -> None:
    assert len(versions("def pay(cents: int = 1) -> int:\n    return cents * 1\n", changed)) == 2


def test_functions_and_constants_of_the_module_count() -> None:
    source = (
        "FEE = {fee}\ndef add(x):\n    return x {sign} FEE\ndef pay(x: int):\n    return add(x)"
    )
    every = [source.format(fee=fee, sign=sign) for fee in (1, 2) for sign in "+-"]
    assert len(versions(*every, every[0])) == 4


def test_recursion_has_a_version() -> None:
    assert versions("def pay(x: int):\n    return pay(x - 1) if x else 0")


def test_what_a_closure_holds_counts_unless_it_may_change() -> None:
    def make(fee: int, log: list[int]) -> FunctionTool:
        count = fee

        def pay(cents: int) -> int:
            nonlocal count
            count += 1
            log.append(cents)
            return cents + fee2

        fee2 = fee
        return function_tool(pay)

    assert tool_version(make(1, [])) == tool_version(make(1, [7]))
    assert tool_version(make(1, [])) != tool_version(make(2, []))


def test_partial_functions_methods_and_objects_have_versions() -> None:
    class Till:
        def pay(self, cents: int) -> int:
            return cents

        def refund(self, cents: int) -> int:
            return -cents

        def __call__(self, cents: int) -> int:
            return 0

    def pay(rate: int, cents: int) -> int:
        return rate * cents

    found = [
        *(tool(partial(pay, rate), name_override="pay") for rate in (1, 2)),
        *(tool(each, name_override="pay") for each in (Till().pay, Till().refund, Till())),
    ]
    assert len({tool_version(each) for each in found}) == len(found)
    assert tool_version(tool(Till().pay)) == tool_version(tool(Till().pay))


def test_a_given_version_replaces_the_code() -> None:
    def pay(cents: int) -> int:
        return cents

    other = made("def pay(cents: int) -> int:\n    return 2 * cents")
    assert tool_version(tool(pay, version="1")) == tool_version(tool(other, version="1"))
    assert tool_version(tool(pay, version="1")) != tool_version(tool(pay, version="2"))


def test_the_origin_of_a_tool_counts() -> None:
    async def call(ctx: ToolContext[Any], arguments: str) -> str:
        return ""

    def remote(server: str) -> FunctionTool:
        return FunctionTool("pay", "Pay.", {"type": "object"}, call, origin={"mcp": server})

    assert tool_version(remote("a")) == tool_version(remote("a")) != tool_version(remote("b"))


def test_a_changed_tool_or_agent_gets_another_version() -> None:
    @function_tool
    def pay(cents: int) -> int:
        return cents

    agent = Agent("till", instructions="Be quick.", tools=[pay])
    before = agent_version(agent)
    assert agent_version(Agent("till", instructions="Be quick.", tools=[pay])) == before
    agent.tools.append(tool(_charge, name_override="charge"))
    with_tool = agent_version(agent)
    agent.instructions = "Be kind."
    assert len({before, with_tool, agent_version(agent)}) == 3


def test_every_part_of_an_agent_counts() -> None:
    def instructions(ctx: Any, agent: Any) -> str:
        return "Be kind."

    async def run(ctx: Any) -> str:
        return "done"

    async def run_twice(ctx: Any) -> str:
        return "done, done"

    target = Agent("b")
    every = [
        Agent("a"),
        Agent("a", instructions="Be kind."),
        Agent("a", instructions=instructions),
        Agent("a", model="openai:one"),
        Agent("a", model_settings=ModelSettings(temperature=0.5)),
        Agent("a", handoffs=[target]),
        Agent("a", handoffs=[handoff(target, policy="immediate")]),
        Agent("a", handoffs=[handoff(target, include_context=False)]),
        Agent("a", output_type=int),
        Agent("a", output_type=list[int]),
        Agent("a", can_ask=["b"]),
        Agent("a", run=run),
        Agent("a", run=run_twice),
    ]
    assert len({agent_version(each) for each in every}) == len(every)


_PROGRAM = """
from ekiden import Agent, function_tool
from ekiden.core.versions import agent_version

@function_tool
def pay(cents: int, to: str = "shop") -> bool:
    return to in {"shop", "bank", "till"} and cents > 1.5

print(agent_version(Agent("till", instructions="Be kind.", tools=[pay], handoffs=[Agent("b")])))
"""


def test_versions_are_equal_in_all_processes() -> None:
    def run(seed: str) -> str:
        command = [sys.executable, "-c", _PROGRAM]
        done = subprocess.run(
            command, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert run("1") == run("2") != ""


def test_the_version_of_an_agent_as_a_tool_covers_what_the_agent_does() -> None:
    def tool_of(instructions: str, *, inner: str = "x") -> FunctionTool:
        helper = Agent("helper", instructions=inner).as_tool("help", "Helps.")
        cleaner = Agent("cleaner", instructions=instructions, tools=[helper])
        return cleaner.as_tool("clean", "Cleans.")

    assert tool_version(tool_of("Report.")) == tool_version(tool_of("Report.", inner="y"))
    assert tool_version(tool_of("Report.")) != tool_version(tool_of("Delete everything."))


def test_agents_that_are_tools_of_each_other_have_versions() -> None:
    one, two = Agent("one"), Agent("two")
    one.tools.append(two.as_tool("ask_two", "Asks."))
    two.tools.append(one.as_tool("ask_one", "Asks."))
    assert agent_version(one) != agent_version(two)


def test_functions_without_a_module_have_versions() -> None:
    names: dict[str, Any] = {"__name__": None}
    exec("def made(): return 1", names)
    made = names["made"]

    async def run(ctx: Any) -> str:
        return str(made())

    assert agent_version(Agent("a", run=run))
