"""Handlers that give a final output where a run would fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypedDict

from ekiden.core.context import TContext


@dataclass
class RunErrorData:
    """The work of the run before the error."""

    input: Any
    new_items: list[Any]
    history: list[Any]
    output: list[Any]
    raw_responses: list[Any]
    last_agent: Any


@dataclass
class RunErrorHandlerInput(Generic[TContext]):
    """The argument of a handler."""

    error: Any
    context: Any
    run_data: RunErrorData


@dataclass
class RunErrorHandlerResult:
    """The final output instead of the error."""

    final_output: Any
    include_in_history: bool = True


RunErrorHandler: TypeAlias = Callable[[RunErrorHandlerInput[Any]], Any]
"""Gives a `RunErrorHandlerResult`, a dict with ``final_output``, the output itself, or `None` to
let the error through."""


class RunErrorHandlers(TypedDict, total=False):
    """Handlers by type of error."""

    max_turns: RunErrorHandler
    model_refusal: RunErrorHandler
    invalid_final_output: RunErrorHandler
