"""What can be a tool, and how it is called."""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from pydantic import Field

from ekiden import RunContextWrapper, ToolContext, UserError, function_tool
from ekiden.tools import ToolResult

Run = Callable[..., Awaitable[ToolResult]]

MANY: Any = Field(default_factory=list)

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id")


class Desk:
    """Answers at a desk."""

    def __init__(self, name: str) -> None:
        self.name = name

    def ask(self, question: str) -> str:
        """Ask the desk."""
        return f"{self.name}: {question}"

    async def ask_later(self, ctx: ToolContext[Any], question: str) -> str:
        return f"{self.name} ({ctx.tool_name}): {question}"

    @classmethod
    def open(cls, hour: int) -> str:
        return f"{cls.__name__} opens at {hour}"

    @staticmethod
    def price(cents: int) -> str:
        return f"{cents / 100:.2f}"

    async def __call__(self, question: str) -> str:
        return self.name + question


async def test_an_async_function_runs_on_the_event_loop(run: Run) -> None:
    @function_tool
    async def where() -> int:
        return threading.get_ident()

    assert (await run(where)).value == threading.get_ident()


async def test_a_sync_function_runs_in_a_thread_with_the_context_variables(run: Run) -> None:
    @function_tool
    def where() -> tuple[int, str]:
        return threading.get_ident(), request_id.get()

    request_id.set("r-7")
    ident, seen = (await run(where)).value
    assert ident != threading.get_ident()
    assert seen == "r-7"


async def test_the_context_is_passed_with_its_idempotency_key(run: Run) -> None:
    @function_tool
    async def pay(ctx: ToolContext[dict[str, int]], cents: int) -> str:
        ctx.set("paid", cents)
        return f"{ctx.context['account']} {ctx.idempotency_key} {ctx.get('paid')}"

    assert (await run(pay, context={"account": 7}, cents=5)).output == "7 key_1 5"


async def test_a_sync_function_gets_the_context(run: Run) -> None:
    @function_tool
    def who(ctx: RunContextWrapper[str]) -> str:
        return ctx.context

    assert (await run(who, context="me")).output == "me"


async def test_bound_methods_are_tools(run: Run) -> None:
    desk = Desk("front")
    ask, later = function_tool(desk.ask), function_tool(desk.ask_later)

    assert (ask.name, ask.description) == ("ask", "Ask the desk.")
    assert (await run(ask, question="hi")).output == "front: hi"
    assert (await run(later, question="hi")).output == "front (ask_later): hi"
    assert (await run(function_tool(Desk.open), hour=9)).output == "Desk opens at 9"
    assert (await run(function_tool(Desk.price), cents=250)).output == "2.50"


def test_an_unbound_method_is_refused() -> None:
    with pytest.raises(UserError, match=r"make the tool from the bound method.*obj\.ask"):
        function_tool(Desk.ask)


async def test_an_object_with_an_async_call_method_is_a_tool(run: Run) -> None:
    tool = function_tool(Desk("back"), name_override="desk")

    assert tool.description == "Answers at a desk."
    assert list(tool.params_json_schema["properties"]) == ["question"]
    assert (await run(tool, question="?")).output == "back?"


async def test_an_object_is_named_after_its_class() -> None:
    assert function_tool(Desk("back")).name == "Desk"


async def test_arguments_bound_by_a_partial_are_not_in_the_schema(run: Run) -> None:
    async def pay(account: str, cents: int, currency: str = "EUR") -> str:
        """Pay."""
        return f"{account} {cents} {currency}"

    by_keyword = function_tool(functools.partial(pay, account="mine"))
    assert (by_keyword.name, by_keyword.description) == ("pay", "Pay.")
    assert list(by_keyword.params_json_schema["properties"]) == ["cents", "currency"]
    assert (await run(by_keyword, account="yours", cents=1)).output == "mine 1 EUR"

    by_position = function_tool(functools.partial(functools.partial(pay, "mine"), 5))
    assert list(by_position.params_json_schema["properties"]) == ["currency"]
    assert (await run(by_position, currency="CHF")).output == "mine 5 CHF"


async def test_a_partial_of_a_sync_method_is_a_tool(run: Run) -> None:
    tool = function_tool(functools.partial(Desk("front").ask, question="fixed"))
    assert (await run(tool)).output == "front: fixed"


async def test_a_sync_wrapper_of_an_async_function_is_awaited(run: Run) -> None:
    async def slow(a: int) -> int:
        return a + 1

    @functools.wraps(slow)
    def wrapper(*args: Any, **kwargs: Any) -> Awaitable[int]:
        return slow(*args, **kwargs)

    assert (await run(function_tool(wrapper), a=1)).value == 2


async def test_a_lambda_needs_a_name(run: Run) -> None:
    assert (await run(function_tool(lambda: "ok", name_override="ok"))).output == "ok"
    with pytest.raises(UserError, match="'<lambda>' cannot be the name of a tool"):
        function_tool(lambda: "ok")


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_positional_only_and_variadic_arguments_are_passed(
    run: Run, asynchronous: bool
) -> None:
    def plain(
        ctx: ToolContext[Any], a: int, /, b: int = 2, *rest: int, flag: bool = False, **more: int
    ) -> Any:
        return [a, b, list(rest), flag, more]

    async def awaited(
        ctx: ToolContext[Any], a: int, /, b: int = 2, *rest: int, flag: bool = False, **more: int
    ) -> Any:
        return plain(ctx, a, b, *rest, flag=flag, **more)

    tool = function_tool(awaited if asynchronous else plain, strict_mode=False)

    full = await run(tool, a=1, b=5, rest=[6, 7], flag=True, more={"z": 9, "a": 3})
    assert full.value == [1, 5, [6, 7], True, {"z": 9, "a": 3}]
    assert (await run(tool, a=1)).value == [1, 2, [], False, {}]
    assert (await run(tool, a=1, rest=[8])).value == [1, 2, [8], False, {}]


async def test_keyword_arguments_cannot_replace_a_parameter_or_the_context(run: Run) -> None:
    @function_tool(strict_mode=False)
    def f(ctx: ToolContext[Any], a: int, **more: Any) -> str:
        return "called"

    for name in ("a", "ctx"):
        result = await run(f, a=1, more={name: 2})
        assert result.error is not None
        assert f"'{name}' is given twice" in result.output


async def test_defaults_of_pydantic_fields_are_used(run: Run) -> None:
    @function_tool
    async def f(a: int = Field(3, ge=1), b: Any = MANY) -> Any:
        return [a, b]

    assert (await run(f)).value == [3, []]
    assert (await run(f, a=0)).error is not None


def test_a_field_without_a_default_is_required() -> None:
    def f(a: int = Field(ge=1)) -> None: ...

    assert function_tool(f, strict_mode=False).params_json_schema["required"] == ["a"]


def test_generators_are_refused() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    for func in (numbers, later, functools.partial(numbers)):
        with pytest.raises(UserError, match="is a generator: a tool returns one result"):
            function_tool(func)


@pytest.mark.parametrize("thing", [Desk, 7, "name", classmethod(lambda cls: None)])
def test_an_object_that_is_no_function_is_refused(thing: Any) -> None:
    with pytest.raises(UserError, match="a tool is made from a function, not from"):
        function_tool(thing)


def test_a_builtin_without_a_signature_is_refused() -> None:
    with pytest.raises(UserError, match="has no readable signature: wrap it in a def"):
        function_tool(max)
