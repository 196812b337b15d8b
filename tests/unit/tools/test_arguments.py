"""Arguments as models send them: right, odd, and wrong."""

from __future__ import annotations

import json
import keyword
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import date
from inspect import Parameter, Signature
from typing import Any, Literal

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel
from typing_extensions import TypedDict

from ekiden import FunctionTool, ModelBehaviorError, ToolContext, function_tool
from ekiden.tools import ToolResult, invoke
from tests.support.examples import examples

Run = Callable[..., Awaitable[ToolResult]]


class Address(BaseModel):
    street: str
    lines: list[str] = []


@dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict):
    fast: bool


@function_tool
async def echo(text: str, times: int = 1) -> str:
    return text * times


def context(tool: FunctionTool, text: str) -> ToolContext[None]:
    return ToolContext(None, tool_name=tool.name, tool_call_id="c", tool_arguments=text)


async def test_nested_values_are_converted_to_their_types(run: Run) -> None:
    @function_tool
    async def f(address: Address, point: Point, options: Options, day: date) -> Any:
        return address, point, options, day

    result = await run(
        f, address={"street": "駅前"}, point={"x": 1}, options={"fast": True}, day="2026-01-02"
    )
    assert result.value == (
        Address(street="駅前"),
        Point(x=1),
        {"fast": True},
        date(2026, 1, 2),
    )


@pytest.mark.parametrize("text", ["你好，世界", "🚀👩‍👩‍👧", "e\u0301", "\u202eabc", "\x00", 'q"\\'])
async def test_every_script_is_passed_unchanged(run: Run, text: str) -> None:
    assert (await run(echo, text=text)).output == text
    assert (await run(echo, json.dumps({"text": text}, ensure_ascii=False))).output == text


@pytest.mark.parametrize("text", ["", "{}", "null", "  {} "])
async def test_a_tool_without_parameters_accepts_every_empty_argument_text(
    run: Run, text: str
) -> None:
    @function_tool
    async def now() -> str:
        return "noon"

    assert (await run(now, text)).output == "noon"


async def test_unknown_arguments_are_ignored(run: Run) -> None:
    assert (await run(echo, text="a", colour="red", ctx=1)).output == "a"


async def test_a_number_in_quotes_is_converted(run: Run) -> None:
    assert (await run(echo, text="a", times="2")).output == "aa"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "text: Field required"),
        ('{"text": 5}', "text: Input should be a valid string"),
        ('{"text": "a", "times": "many"}', "times: Input should be a valid integer"),
        ("not json", "Invalid JSON"),
        ('{"text": "a"', "Invalid JSON"),
        ('{"text": "a"} trailing', "Invalid JSON"),
        ("[1, 2]", "Input should be an object"),
        ('"text"', "Input should be an object"),
        ('{"text": "\\ud800"}', "Invalid JSON"),
        ('{"text": "\ud800"}', "unicode"),
        ('{"text": ' + "[" * 5000 + "]" * 5000 + "}", "recursion limit"),
    ],
)
async def test_invalid_arguments_are_reported_to_the_model(run: Run, text: str, told: str) -> None:
    result = await run(echo, text)
    assert told in result.output
    assert "'echo'" in result.output
    assert "call it again" in result.output
    assert result.value is None
    assert result.error is not None
    assert result.error.startswith("ModelBehaviorError")


async def test_an_error_in_nested_arguments_has_its_path(run: Run) -> None:
    @function_tool
    async def f(addresses: list[Address]) -> None: ...

    result = await run(f, addresses=[{"street": "a"}, {"street": "b", "lines": ["x", 1]}])
    assert "addresses.1.lines.1: Input should be a valid string" in result.output


async def test_invalid_arguments_are_raised_when_failures_end_the_run(run: Run) -> None:
    tool = function_tool(lambda a: a, name_override="f", failure_error_function=None)
    with pytest.raises(ModelBehaviorError, match="a: Field required"):
        await run(tool, "{}")


async def test_huge_arguments_are_read(run: Run) -> None:
    huge = "长" * 3_000_000
    assert len((await run(echo, text=huge)).output) == 3_000_000


async def test_the_error_for_huge_invalid_arguments_is_short(run: Run) -> None:
    @function_tool
    async def f(numbers: list[int]) -> None: ...

    result = await run(f, numbers=["x" * 10_000] * 500)
    assert "and 492 more" in result.output
    assert len(result.output) < 3_000


async def test_the_last_of_repeated_keys_wins(run: Run) -> None:
    assert (await run(echo, '{"text": "a", "text": "b"}')).output == "b"


KINDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (str, st.text()),
    (bool, st.booleans()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (list[int], st.lists(st.integers(), max_size=4)),
    (str | None, st.none() | st.text()),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (Point, st.builds(Point, x=st.integers(), y=st.integers())),
    (Options, st.fixed_dictionaries({"fast": st.booleans()})),
    (Any, st.recursive(st.none() | st.text(), lambda inner: st.lists(inner, max_size=3))),
]

names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name) and name not in ("self", "cls")
)


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Types, defaults and values of a function's parameters."""
    types, defaults, values = {}, {}, {}
    for name in draw(st.lists(names, unique=True, max_size=5)):
        types[name], strategy = draw(st.sampled_from(KINDS))
        values[name] = draw(strategy)
        if draw(st.booleans()):
            defaults[name] = draw(strategy)
    return types, defaults, values


def made(types: dict[str, Any], defaults: dict[str, Any]) -> Callable[..., Any]:
    async def given_back(**arguments: Any) -> Any:
        return arguments

    given_back.__annotations__ = dict(types)
    given_back.__signature__ = Signature(  # type: ignore[attr-defined]  # read by inspect
        [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                annotation=kind,
                default=defaults.get(name, Parameter.empty),
            )
            for name, kind in types.items()
        ]
    )
    return given_back


@settings(max_examples=examples(80), deadline=None)
@given(calls())
async def test_valid_arguments_are_passed_unchanged(
    call: tuple[dict[str, Any], dict[str, Any], dict[str, Any]],
) -> None:
    types, defaults, values = call
    tool = function_tool(made(types, defaults), failure_error_function=None)
    text = json.dumps(values, default=vars)

    assert (await invoke(tool, context(tool, text))).value == values
    assert tool.params_json_schema["required"] == list(types)
    for name, default in defaults.items():
        if default is not None and types[name] is not Point:
            assert tool.params_json_schema["properties"][name]["default"] == default


@settings(max_examples=examples(80), deadline=None)
@given(calls())
async def test_omitted_arguments_take_the_defaults_of_the_function(
    call: tuple[dict[str, Any], dict[str, Any], dict[str, Any]],
) -> None:
    types, defaults, values = call
    tool = function_tool(made(types, defaults), strict_mode=False)
    sent = {name: value for name, value in values.items() if name not in defaults}

    result = await invoke(tool, context(tool, json.dumps(sent, default=vars)))
    assert result.value == sent
    assert sorted(tool.params_json_schema.get("required", [])) == sorted(sent)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.text(st.characters(categories=None))
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).map(json.dumps)
)
async def test_arbitrary_argument_texts_raise_no_exception(text: str) -> None:
    result = await invoke(echo, context(echo, text))
    assert isinstance(result.output, str)
