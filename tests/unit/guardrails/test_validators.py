"""Validators as guardrails."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.context import RunContextWrapper, ToolContext
from ekiden.core.errors import UserError
from ekiden.core.guardrails import Violation
from ekiden.core.handoffs import HandoffContext, HandoffRequest
from ekiden.core.tools.guardrails import ToolInputGuardrailData, ToolOutputGuardrailData
from ekiden.guardrails import (
    GuardrailUnusable,
    handoff_validator_guardrail,
    input_validator_guardrail,
    tool_input_validator_guardrail,
    tool_output_validator_guardrail,
    validator_guardrail,
)
from tests.support.cases import each_case

CTX: RunContextWrapper[Any] = RunContextWrapper(None)


async def found(validator: Any, output: Any = "hello") -> tuple[bool, list[str]]:
    result = (await validator_guardrail(validator).run(CTX, None, output)).output
    return result.tripwire_triggered, [str(each) for each in result.violations]


def polite(output: str) -> tuple[bool, str | None]:
    return "please" in output, "say please"


async def test_valid_output_passes_and_errors_are_reported() -> None:
    assert await found(polite, "yes please") == (False, [])
    assert await found(polite, "yes") == (True, ["say please"])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (False, ["it was not accepted by check"]),
        ((False, None), ["it was not accepted by check"]),
        ((False, ""), ["it was not accepted by check"]),
        ((False, []), ["it was not accepted by check"]),
        ((False, "no"), ["no"]),
        ([False, "no"], ["no"]),
        ((False, ["a", "b"]), ["a", "b"]),
        ((False, Violation(message="no", path="/a")), ["/a: no"]),
        ((False, (Violation(message="no"), "b")), ["no", "b"]),
    ],
)
async def test_a_failure_may_carry_messages(given: Any, told: list[str]) -> None:
    def check(output: Any) -> Any:
        return given

    async def check_later(output: Any) -> Any:
        return given

    check_later.__name__ = "check"
    assert await found(check) == (True, told)
    assert await found(check_later) == (True, told)


@pytest.mark.parametrize("given", [True, (True, None), (True, "anything")])
async def test_a_true_result_passes(given: Any) -> None:
    assert await found(lambda output: given) == (False, [])


@pytest.mark.parametrize(
    "given",
    [None, 0, 1, "", "ok", (), (True,), (1, "x"), (None, None), (False, 7), (False, [7]), {}],
)
async def test_any_other_result_is_refused(given: Any) -> None:
    with pytest.raises(UserError, match=r"return \(True, None\)"):
        await found(lambda output: given)


@pytest.mark.parametrize("kind", [ValueError, KeyError, RecursionError, SystemExit])
async def test_an_exception_of_a_validator_is_never_a_pass(kind: type[BaseException]) -> None:
    def crash(output: Any) -> bool:
        raise kind("gone")

    async def crash_later(output: Any) -> bool:
        raise kind("gone")

    for check in (crash, crash_later):
        with pytest.raises(UserError if kind is SystemExit else kind):
            await found(check)


async def test_a_long_list_of_long_errors_is_truncated() -> None:
    _, told = await found(lambda output: (False, ["x" * 10_000] * 1000))
    assert len(told) == 50
    assert len(told[0]) == 2_000


async def test_any_callable_is_a_validator() -> None:
    class Longer:
        def __init__(self, than: int) -> None:
            self.than = than

        def __call__(self, output: str) -> bool:
            return len(output) > self.than

        def method(self, output: str) -> bool:
            return self(output)

    for check in (Longer(3), Longer(3).method, functools.partial(lambda n, out: len(out) > n, 3)):
        assert await found(check) == (False, [])
    assert validator_guardrail(Longer(3)).get_name() == "Longer"


@each_case(
    ("validator", "told"),
    [
        ("polite", "write module:function"),
        ("no_such_module_here:polite", "there is no module 'no_such_module_here'"),
        ("json:no_such_function", "module 'json' has no 'no_such_function'"),
        ("json:decoder.none", "module 'json' has no 'decoder.none'"),
        ("math:pi", "math:pi is float, not a function"),
        (7, "not a function"),
        (lambda: True, "must be callable with one argument"),
        (lambda a, b: True, "must be callable with one argument"),
    ],
)
def test_an_invalid_validator_is_refused_when_it_is_created(validator: Any, told: str) -> None:
    with pytest.raises(GuardrailUnusable, match=told) as caught:
        validator_guardrail(validator)
    assert caught.value.code == "guardrail.unusable"


async def test_a_validator_is_imported_from_the_project(tmp_path: Path) -> None:
    (tmp_path / "guard_checks_a.py").write_text(
        "class Checks:\n    @staticmethod\n    def short(output): return len(output) < 3, 'long'\n"
    )
    made = validator_guardrail("guard_checks_a:Checks.short", root=tmp_path, on_failure="warn")
    assert (made.get_name(), made.on_failure) == ("guard_checks_a:Checks.short", "warn")
    assert (await made.run(CTX, None, "hello")).output.violations == (Violation(message="long"),)


def test_a_failing_module_is_reported(tmp_path: Path) -> None:
    (tmp_path / "guard_checks_b.py").write_text("1 / 0\n")
    with pytest.raises(GuardrailUnusable, match="fails: ZeroDivisionError"):
        validator_guardrail("guard_checks_b:x", root=tmp_path)


async def test_an_input_is_checked_before_the_model() -> None:
    strict = input_validator_guardrail(polite)
    assert strict.run_in_parallel is False
    assert (await strict.run(None, "yes", CTX)).output.tripwire_triggered
    mild = (await input_validator_guardrail(polite, on_failure="warn").run(None, "yes", CTX)).output
    assert not mild.tripwire_triggered
    assert mild.violations == (Violation(message="say please"),)
    repaired = input_validator_guardrail(polite, on_failure="repair")
    assert (await repaired.run(None, "yes", CTX)).output.tripwire_triggered


async def test_a_handoff_is_checked_with_its_request() -> None:
    guardrail = handoff_validator_guardrail(lambda request: "4111" not in request.reason)
    request = HandoffRequest(
        id="h", source="a", target="b", context=HandoffContext(task_id="t"), reason="card 4111"
    )
    assert (await guardrail.run(CTX, None, request)).output.tripwire_triggered
    assert guardrail.on_failure == "repair"


def call(arguments: str) -> ToolContext[Any]:
    return ToolContext(tool_name="refund", tool_call_id="c", tool_arguments=arguments)


def small(tool: str, given: Any) -> tuple[bool, str]:
    return given == {"cents": 1}, f"too much for {tool}"


@pytest.mark.parametrize(
    ("on_failure", "behavior"),
    [
        ("reject", {"type": "raise_exception"}),
        ("repair", {"type": "reject_content", "message": "too much for refund"}),
        ("warn", {"type": "allow"}),
    ],
)
async def test_calls_and_outputs_of_tools_are_checked(on_failure: Any, behavior: Any) -> None:
    before = tool_input_validator_guardrail(small, on_failure=on_failure)
    refused = await before.run(ToolInputGuardrailData(call('{"cents": 2}'), None))
    assert refused.behavior == behavior
    assert refused.output_info == {"violations": ["too much for refund"]}
    allowed = await before.run(ToolInputGuardrailData(call('{"cents": 1}'), None))
    assert (allowed.behavior, allowed.output_info) == ({"type": "allow"}, None)
    after = tool_output_validator_guardrail(small, on_failure=on_failure)
    given = await after.run(ToolOutputGuardrailData(call("{}"), None, {"cents": 2}))
    assert given.behavior == behavior


@pytest.mark.parametrize("arguments", ["{", "[" * 100_000])
async def test_arguments_that_are_invalid_json_are_reported_to_the_model(arguments: str) -> None:
    guardrail = tool_input_validator_guardrail(small, on_failure="warn")
    told = await guardrail.run(ToolInputGuardrailData(call(arguments), None))
    assert told.behavior == {
        "type": "reject_content",
        "message": "The arguments are not valid JSON.",
    }


@pytest.mark.parametrize(
    "make",
    [
        validator_guardrail,
        input_validator_guardrail,
        handoff_validator_guardrail,
        tool_input_validator_guardrail,
        tool_output_validator_guardrail,
    ],
)
def test_an_unknown_on_failure_is_refused_with_the_three_options(make: Any) -> None:
    with pytest.raises(UserError, match="on_failure.*reject.*repair.*warn"):
        make(lambda *given: True, on_failure="explode")
