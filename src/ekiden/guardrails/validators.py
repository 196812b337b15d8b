"""Guardrails made of validator functions.

A validator returns ``(valid, error)``, or only `valid`. It may be async. Guardrails fail closed: an
exception, or a result of any other form, is not an approval.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import Item
from ekiden.core.errors import UserError
from ekiden.core.guardrails import (
    GuardrailFunctionOutput,
    HandoffGuardrail,
    InputGuardrail,
    OnFailure,
    OutputGuardrail,
    Violation,
    name_of,
)
from ekiden.core.handoffs import HandoffRequest
from ekiden.core.integrations.registry import NotImportable, import_by_name
from ekiden.core.tools.guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
)
from ekiden.guardrails.compile import GuardrailUnusable

Validator: TypeAlias = Callable[..., Any]
"""A sync or async function that returns a `bool`, or a pair of a `bool` and the error. The error is
a text, a `Violation`, a list of these, or `None`. A sync validator runs on the event loop and must
be fast."""

_MAX_ERRORS = 50
_MAX_ERROR = 2_000


def validator_guardrail(
    validator: str | Validator,
    *,
    on_failure: OnFailure = "reject",
    tries: int = 2,
    name: str | None = None,
    root: Path | None = None,
) -> OutputGuardrail[Any]:
    """Make an output guardrail from a function that gets the answer. You can also pass the
    function's name, ``module:function``.

    For example::

        def polite(output: str) -> tuple[bool, str]:
            return "please" in output, "say please"

        clerk = Agent("clerk", output_guardrails=[validator_guardrail(polite, on_failure="repair")])

    The module of a named function is searched first in the folder `root`. Raises
    `GuardrailUnusable` for an unknown name, and for a function that does not take one argument.
    """
    check = _Check.of(validator, arguments=1, root=root)

    async def is_valid(
        ctx: RunContextWrapper[Any], agent: Any, output: Any
    ) -> GuardrailFunctionOutput:
        violations = await check(output)
        return GuardrailFunctionOutput(tripwire_triggered=bool(violations), violations=violations)

    return OutputGuardrail(is_valid, name or check.name, on_failure, tries)


def input_validator_guardrail(
    validator: str | Validator,
    *,
    on_failure: OnFailure = "reject",
    name: str | None = None,
    root: Path | None = None,
) -> InputGuardrail[Any]:
    """Like `validator_guardrail`, for an agent's input: a text, or items. The guardrail runs before
    the model call.

    `repair` has the same effect as `reject`, because the input cannot be requested again.
    """
    check = _Check.of(validator, arguments=1, root=root)

    async def is_valid(
        ctx: RunContextWrapper[Any], agent: Any, given: str | list[Item]
    ) -> GuardrailFunctionOutput:
        violations = await check(given)
        return GuardrailFunctionOutput(
            tripwire_triggered=bool(violations) and on_failure != "warn", violations=violations
        )

    _check_on_failure(on_failure)
    return InputGuardrail(is_valid, name or check.name, run_in_parallel=False)


def handoff_validator_guardrail(
    validator: str | Validator,
    *,
    on_failure: OnFailure = "repair",
    name: str | None = None,
    root: Path | None = None,
) -> HandoffGuardrail[Any]:
    """Like `validator_guardrail`, for handoffs of an agent. The function gets a
    `HandoffRequest`."""
    check = _Check.of(validator, arguments=1, root=root)

    async def is_valid(
        ctx: RunContextWrapper[Any], agent: Any, request: HandoffRequest
    ) -> GuardrailFunctionOutput:
        violations = await check(request)
        return GuardrailFunctionOutput(tripwire_triggered=bool(violations), violations=violations)

    return HandoffGuardrail(is_valid, name or check.name, on_failure)


def tool_input_validator_guardrail(
    validator: str | Validator,
    *,
    on_failure: OnFailure = "repair",
    name: str | None = None,
    root: Path | None = None,
) -> ToolInputGuardrail[Any]:
    """Like `validator_guardrail`, for tool calls. The function gets the tool's name and parsed
    arguments.

    `reject` ends the run. `repair` gives the model the reason why the tool did not run. `warn` runs
    the tool. For arguments that are not JSON, the model gets an error, and the function is not
    called.
    """
    check = _Check.of(validator, arguments=2, root=root)

    async def is_valid(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        try:
            arguments = json.loads(data.context.tool_arguments or "{}")
        except (ValueError, RecursionError):
            return ToolGuardrailFunctionOutput.reject_content("The arguments are not valid JSON.")
        return _decided(await check(data.context.tool_name, arguments), on_failure)

    _check_on_failure(on_failure)
    return ToolInputGuardrail(is_valid, name or check.name)


def tool_output_validator_guardrail(
    validator: str | Validator,
    *,
    on_failure: OnFailure = "repair",
    name: str | None = None,
    root: Path | None = None,
) -> ToolOutputGuardrail[Any]:
    """Like `validator_guardrail`, for tool outputs. The function gets the tool's name and output.

    The tool has already run. `reject` ends the run. `repair` gives the model the reason why it does
    not see the output. `warn` shows the output.
    """
    check = _Check.of(validator, arguments=2, root=root)

    async def is_valid(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        return _decided(await check(data.context.tool_name, data.output), on_failure)

    _check_on_failure(on_failure)
    return ToolOutputGuardrail(is_valid, name or check.name)


class _Check:
    """A validator with its name; converts its results to violations."""

    def __init__(self, name: str, function: Validator) -> None:
        self.name = name
        self._function = function

    @classmethod
    def of(cls, validator: str | Validator, *, arguments: int, root: Path | None) -> _Check:
        function: Any = validator
        name = validator if isinstance(validator, str) else name_of(validator)
        if isinstance(validator, str):
            try:
                function = import_by_name(validator, root=root)
            except NotImportable as exc:
                raise GuardrailUnusable(str(exc)) from exc
        if not callable(function):
            raise GuardrailUnusable(f"{name} is {type(function).__name__}, not a function")
        _check_signature(name, function, arguments)
        return cls(name, function)

    async def __call__(self, *given: Any) -> tuple[Violation, ...]:
        """The violations. Raises `UserError` for an invalid result of the validator."""
        try:
            found = self._function(*given)
            if inspect.isawaitable(found):
                found = await found
        except SystemExit as exc:
            raise UserError(f"the validator {self.name} ended with SystemExit") from exc
        return self._read(found)

    def _read(self, found: Any) -> tuple[Violation, ...]:
        match found:
            case True | (True, _):
                return ()
            case False | (False, None):
                return self._violations(())
            case (False, str() | Violation() as error):
                return self._violations((error,))
            case (False, list() | tuple() as errors) if all(
                isinstance(each, str | Violation) for each in errors
            ):
                return self._violations(errors)
        raise UserError(
            f"the validator {self.name} returned {repr(found)[:80]}: return (True, None), or "
            '(False, "what is wrong")'
        )

    def _violations(self, errors: Iterable[str | Violation]) -> tuple[Violation, ...]:
        violations = [
            each if isinstance(each, Violation) else Violation(message=each[:_MAX_ERROR])
            for each in errors
            if not isinstance(each, str) or each.strip()
        ]
        if not violations:
            return (Violation(message=f"it was not accepted by {self.name}"),)
        return tuple(violations[:_MAX_ERRORS])


def _check_signature(name: str, function: Validator, arguments: int) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*range(arguments))
    except TypeError as exc:
        wanted = "one argument" if arguments == 1 else "the tool's name and one more argument"
        raise GuardrailUnusable(f"{name} must be callable with {wanted}: {exc}") from None


def _check_on_failure(on_failure: object) -> None:
    if on_failure not in ("reject", "repair", "warn"):
        raise UserError(f"`on_failure` must be reject, repair or warn, not {on_failure!r:.40}")


def _decided(
    violations: tuple[Violation, ...], on_failure: OnFailure
) -> ToolGuardrailFunctionOutput:
    if not violations:
        return ToolGuardrailFunctionOutput.allow()
    texts = [str(each) for each in violations]
    info = {"violations": texts}
    match on_failure:
        case "warn":
            return ToolGuardrailFunctionOutput.allow(info)
        case "repair":
            return ToolGuardrailFunctionOutput.reject_content("; ".join(texts), info)
        case "reject":
            return ToolGuardrailFunctionOutput.raise_exception(info)
