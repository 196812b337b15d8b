"""A person's message on the command line, and its recipient."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ekiden.cli.errors import BadInput, UsageError
from ekiden.core.values import loads

if TYPE_CHECKING:
    from ekiden.project.routing import AddressedMessage


def read_request(argument: str, more: Sequence[str] = ()) -> AddressedMessage:
    """The text and its recipient, from the argument or, if that is ``-``, standard input.

    `more` are extra words on the command line: `UsageError` shows how to quote them. `BadInput` for
    input that is not UTF-8 or empty.
    """
    from ekiden.project.routing import parse_address

    return parse_address(read_addressed(argument, more))


def read_addressed(argument: str, more: Sequence[str] = ()) -> str:
    """The same as one text."""
    from ekiden.project.routing import parse_address

    one_argument(argument, more)
    text = read_text(argument)
    address = parse_address(text)
    if not address.text.strip():
        raise BadInput(f"there is no text after @{address.to}")
    return text


def one_argument(argument: str, more: Sequence[str]) -> None:
    """`UsageError`, which shows how to quote them, if there are extra words."""
    if more:
        joined = shlex.quote(" ".join((argument, *more)))
        raise UsageError(f"the text must be one argument: put it in quotes, as {joined[:200]}")


def read_text(argument: str) -> str:
    """The message, from the argument or from standard input; `BadInput` if it is not text."""
    source = "standard input" if argument == "-" else "the text"
    try:
        if argument == "-":
            text = sys.stdin.buffer.read().decode("utf-8")
        else:
            # An argument that is not UTF-8 comes with its bytes as lone surrogates.
            text = argument
            text.encode("utf-8")
    except UnicodeError as exc:
        raise BadInput(f"{source} is not UTF-8; convert it first, for example with iconv") from exc
    if not text.strip():
        raise BadInput(f"{source} is empty; there is nothing to send")
    return text.removesuffix("\n") if argument == "-" else text


def parse_variables(given: Sequence[str]) -> dict[str, Any]:
    """What NAME=VALUE, once or more, sets; a value is JSON, or else text. `UsageError`."""
    from ekiden.cli.run.handoffs import plain_text

    variables: dict[str, Any] = {}
    for each in given:
        plain_text(each, "what is to be set")
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise UsageError(f"{each[:60]!r} sets nothing: write NAME=VALUE")
        if name in variables:
            raise UsageError(f"{name[:60]!r} is set twice")
        try:
            variables[name] = loads(value)
        except (ValueError, RecursionError):
            variables[name] = value
    return variables
