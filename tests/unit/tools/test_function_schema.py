"""What the model is shown of a function."""

from __future__ import annotations

import enum
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from ekiden import RunContextWrapper, ToolContext, UserError, function_tool
from ekiden.tools.schema import read_arguments
from ekiden.tools.signature import read_parameters


class Address(BaseModel):
    street: str
    number: int = 1


@dataclass
class Point:
    x: float
    y: float


class Options(TypedDict):
    fast: bool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def properties(tool: Any) -> dict[str, Any]:
    found: dict[str, Any] = tool.params_json_schema["properties"]
    return found


def test_the_decorator_works_without_parentheses() -> None:
    @function_tool
    def lookup(order: str) -> str:
        """Find an order."""
        return order

    assert (lookup.name, lookup.description) == ("lookup", "Find an order.")
    assert lookup.spec.parameters is lookup.params_json_schema


def test_the_decorator_works_with_options() -> None:
    @function_tool(name_override="find", description_override="Finds.", timeout=2.5)
    def lookup(order: str) -> str:
        """Ignored."""
        return order

    assert (lookup.name, lookup.description, lookup.timeout_seconds) == ("find", "Finds.", 2.5)


def test_a_strict_schema_is_closed_and_requires_everything() -> None:
    @function_tool
    def book(who: str, seats: int = 2, note: str | None = None) -> None: ...

    schema = book.params_json_schema
    assert schema["type"] == "object"
    assert schema["title"] == "book_args"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["who", "seats", "note"]
    assert book.spec.strict


def test_a_loose_schema_requires_parameters_without_a_default() -> None:
    @function_tool(strict_mode=False)
    def book(who: str, seats: int = 2, note: str | None = None) -> None: ...

    assert book.params_json_schema["required"] == ["who"]
    assert properties(book)["seats"]["default"] == 2
    assert properties(book)["note"]["default"] is None
    assert not book.spec.strict


def test_a_default_that_is_not_json_is_not_in_the_schema() -> None:
    marker = object()

    @function_tool(strict_mode=False)
    def f(a: Any = marker) -> None: ...

    assert "default" not in properties(f)["a"]


def test_types_are_converted_to_their_schemas() -> None:
    @function_tool
    def f(
        text: str,
        mode: Literal["fast", "slow"],
        colour: Colour,
        many: list[int],
        maybe: float | None,
        anything: Any,
    ) -> None: ...

    shown = properties(f)
    assert shown["text"]["type"] == "string"
    assert shown["mode"]["enum"] == ["fast", "slow"]
    assert f.params_json_schema["$defs"]["Colour"]["enum"] == ["red", "blue"]
    assert shown["many"]["items"] == {"type": "integer"}
    assert shown["maybe"]["anyOf"] == [{"type": "number"}, {"type": "null"}]
    assert "type" not in shown["anything"]


def test_models_dataclasses_and_typed_dicts_are_closed_objects() -> None:
    @function_tool
    def f(address: Address, point: Point, options: Options) -> None: ...

    for name in ("Address", "Point", "Options"):
        definition = f.params_json_schema["$defs"][name]
        assert definition["additionalProperties"] is False
        assert definition["required"] == list(definition["properties"])


def test_a_parameter_without_a_type_accepts_any_value() -> None:
    @function_tool
    def f(a, b=1):  # type: ignore[no-untyped-def]  # the point of the test
        return a, b

    assert list(properties(f)) == ["a", "b"]
    assert "type" not in properties(f)["a"]


def test_a_description_in_annotated_overrides_the_docstring() -> None:
    @function_tool
    def f(
        a: Annotated[int, "from Annotated"],
        b: Annotated[int, Field(description="from Field", ge=1)],
        c: int = Field(3, description="from the default"),
        d: int = 4,
    ) -> None:
        """Do it.

        Args:
            a: no
            b: no
            c: no
            d: from the docstring
        """

    assert [shown["description"] for shown in properties(f).values()] == [
        "from Annotated",
        "from Field",
        "from the default",
        "from the docstring",
    ]
    assert properties(f)["b"]["minimum"] == 1
    assert properties(f)["c"]["default"] == 3


def test_an_alias_is_the_name_in_the_schema() -> None:
    @function_tool
    def f(order_id: Annotated[str, Field(alias="order-id")]) -> None: ...

    assert list(properties(f)) == ["order-id"]


def test_names_reserved_by_pydantic_are_ordinary_parameters() -> None:
    @function_tool
    def f(model_extra: str, schema: str, _hidden: int, copy: bool) -> None: ...

    assert list(properties(f)) == ["model_extra", "schema", "_hidden", "copy"]


def test_variadic_arguments_are_a_list_and_an_object() -> None:
    @function_tool(strict_mode=False)
    def f(*numbers: float, **options: str) -> None:
        """Do it.

        Args:
            *numbers: Any numbers.
            **options: Any options.
        """

    assert properties(f)["numbers"]["items"] == {"type": "number"}
    assert properties(f)["options"]["additionalProperties"] == {"type": "string"}
    assert properties(f)["numbers"]["description"] == "Any numbers."
    assert properties(f)["options"]["description"] == "Any options."
    assert "required" not in f.params_json_schema


def test_arbitrary_keys_have_no_strict_schema_and_the_error_has_advice() -> None:
    with pytest.raises(UserError, match=r"'f'.*strict_mode=False"):

        @function_tool
        def f(options: dict[str, str]) -> None: ...


def test_a_type_without_a_schema_is_refused() -> None:
    with pytest.raises(UserError, match="tool 'f' has a parameter whose type has no JSON Schema"):

        @function_tool
        def f(callback: Callable[[], None]) -> None: ...


@pytest.mark.parametrize("kind", [RunContextWrapper, ToolContext, RunContextWrapper[int]])
def test_the_context_is_not_part_of_the_schema(kind: Any) -> None:
    def f(ctx: Any, a: int) -> None: ...

    f.__annotations__["ctx"] = kind
    assert list(properties(function_tool(f))) == ["a"]


def test_the_context_must_be_the_first_parameter() -> None:
    with pytest.raises(UserError, match="takes the context as 'ctx': make it the first parameter"):

        @function_tool
        def f(a: int, ctx: ToolContext[Any]) -> None: ...


def test_annotations_may_name_local_types() -> None:
    class Local(BaseModel):
        a: int

    @function_tool
    def f(value: Local) -> None: ...

    assert "Local" in f.params_json_schema["$defs"]


def test_a_context_imported_only_for_type_checking_is_recognised() -> None:
    namespace: dict[str, Any] = {}
    exec(
        "from __future__ import annotations\n"
        "def f(ctx: RunContextWrapper[Shop], a: int) -> Elsewhere: ...\n"
        "class Shop: ...\n",
        namespace,
    )
    assert list(properties(function_tool(namespace["f"]))) == ["a"]


def test_an_undefined_annotation_is_refused() -> None:
    def f(a: int) -> None: ...

    f.__annotations__["a"] = "Missing"
    with pytest.raises(UserError, match=r"name 'Missing' is not defined; import .* at run time"):
        function_tool(f)


def test_two_tools_of_one_function_differ_only_in_name() -> None:
    def f(a: int) -> None: ...

    one, two = function_tool(f, name_override="one"), function_tool(f, name_override="two")
    assert properties(one) == properties(two)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_timeout_that_is_not_positive_is_refused(timeout: float) -> None:
    with pytest.raises(UserError, match="`timeout` must be a number above 0"):
        function_tool(lambda: None, name_override="f", timeout=timeout)


@pytest.mark.parametrize("name", ["", "with space", "查询", "a" * 65, "a.b"])
def test_a_name_invalid_for_providers_is_refused(name: str) -> None:
    def f() -> None: ...

    f.__name__ = name
    with pytest.raises(UserError, match="give name_override"):
        function_tool(f)


def plain(order_id: str, _n: int = 3, x: float = 1, ok: bool = False, *, URLName: str = "a") -> str:
    """A tool.

    Args:
        order_id: The order's number.
    """
    return order_id


def named_only(*, text_2: str = "", naïve: bool, z: str | None, m: int | None = None) -> str:
    """A tool.

    Args:
        order_id: Nothing has this name.
        m: How many.
    """
    return text_2


def may_be_null(text: str | None = "", most: float | None = 2) -> str:
    return text or ""


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("function", [plain, named_only, may_be_null])
def test_plain_parameters_have_the_schema_pydantic_generates(
    function: Callable[..., str], strict: bool
) -> None:
    tool = function_tool(function, strict_mode=strict)
    written = read_arguments(
        read_parameters(function, {}).named,
        tool=function.__name__,
        descriptions={"order_id": "The order's number.", "m": "How many."},
        strict=strict,
    )
    assert json.dumps(tool.params_json_schema) == json.dumps(written.json_schema)


def test_a_tool_with_plain_parameters_is_created_without_pydantic() -> None:
    script = (
        "import sys; from ekiden import function_tool\n"
        "@function_tool\n"
        "def find(order: str, most: int | None = None) -> str: return order\n"
        "assert 'pydantic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
