"""What is read from a docstring."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden import function_tool
from ekiden.tools import DocstringStyle

GOOGLE = """Move money.

    Between two accounts.

    Args:
        amount (int): How much, in cents:
            never negative.
        to: Who gets it.

    Returns:
        The receipt.

    Raises:
        ValueError: Never.
    """

NUMPY = """Move money.

    Between two accounts.

    Parameters
    ----------
    amount : int
        How much, in cents:
        never negative.
    to : str, optional
        Who gets it.

    Returns
    -------
    str
        The receipt.
    """

SPHINX = """Move money.

    Between two accounts.

    :param amount: How much, in cents:
        never negative.
    :type amount: int
    :param str to: Who gets it.
    :returns: The receipt.
    """


def tool_with(doc: str | None, **options: Any) -> Any:
    def move(amount: int, to: str) -> str:
        return to

    move.__doc__ = doc
    return function_tool(move, **options)


def described(tool: Any) -> dict[str, str | None]:
    return {
        name: shown.get("description")
        for name, shown in tool.params_json_schema["properties"].items()
    }


@pytest.mark.parametrize(
    ("doc", "style"), [(GOOGLE, "google"), (NUMPY, "numpy"), (SPHINX, "sphinx")]
)
@pytest.mark.parametrize("told", [True, False])
def test_every_docstring_style_is_parsed_and_recognised(
    doc: str, style: DocstringStyle, told: bool
) -> None:
    tool = tool_with(doc, docstring_style=style if told else None)

    assert tool.description == "Move money.\n\nBetween two accounts."
    assert described(tool) == {
        "amount": "How much, in cents:\nnever negative.",
        "to": "Who gets it.",
    }


def test_numpy_parameters_may_share_a_description() -> None:
    tool = tool_with("Move.\n\nParameters\n----------\namount, to : Any\n    Both.\n")
    assert described(tool) == {"amount": "Both.", "to": "Both."}


def test_a_docstring_of_parameters_only_has_no_description() -> None:
    tool = tool_with("\n    Args:\n        to: Who.\n    ")
    assert tool.description == ""
    assert described(tool) == {"amount": None, "to": "Who."}


def test_a_documented_parameter_that_does_not_exist_is_ignored() -> None:
    tool = tool_with("Move.\n\nArgs:\n    ghost: Boo.\n    to: Who.\n")
    assert described(tool) == {"amount": None, "to": "Who."}


def test_docstrings_in_other_scripts_are_kept() -> None:
    tool = tool_with("转账 💸。\n\nArgs:\n    to: 收款人。\n")
    assert tool.description == "转账 💸。"
    assert described(tool)["to"] == "收款人。"


@pytest.mark.parametrize("doc", [None, "", "   "])
def test_without_a_docstring_the_description_is_empty(doc: str | None) -> None:
    assert tool_with(doc).description == ""


@pytest.mark.parametrize(
    "doc",
    [
        "Args:",
        "Returns: nothing: at: all",
        ":param",
        "Parameters\n----------",
        "Args:\n\n\nReturns:\n:param x:",
        "Text: with colon\n  and: another\n-----\n",
    ],
)
@pytest.mark.parametrize("style", [None, "google", "numpy", "sphinx"])
def test_a_malformed_docstring_raises_no_exception(doc: str, style: DocstringStyle | None) -> None:
    assert isinstance(tool_with(doc, docstring_style=style).description, str)


def test_an_unparsable_docstring_becomes_the_description() -> None:
    assert tool_with("Move it.\n\n:param", docstring_style="sphinx").description == (
        "Move it.\n\n:param"
    )


def test_docstring_parsing_can_be_disabled() -> None:
    tool = tool_with(GOOGLE, use_docstring_info=False)
    assert tool.description == ""
    assert described(tool) == {"amount": None, "to": None}


def test_an_override_replaces_the_description_but_not_those_of_parameters() -> None:
    tool = tool_with(GOOGLE, description_override="Pay.")
    assert tool.description == "Pay."
    assert described(tool)["to"] == "Who gets it."
