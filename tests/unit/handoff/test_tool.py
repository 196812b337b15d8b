"""`handoff(...)`: what the model is shown, and what happens when it asks."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.handoff import handoff


class Ticket(BaseModel):
    number: int
    note: str | None = None


@pytest.fixture
def billing() -> Agent[Any]:
    return Agent("Billing", handoff_description="Knows invoices.")


async def test_a_plain_handoff_takes_no_arguments_and_runs_no_code_of_the_users(
    billing: Agent[Any],
) -> None:
    offer = handoff(billing)
    assert offer.spec.name == "transfer_to_billing"
    assert "Billing" in offer.spec.description
    assert offer.spec.description.endswith("Knows invoices.")
    assert offer.spec.parameters == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    assert not offer.has_callback
    assert offer.agent is billing
    assert await offer.on_invoke_handoff(RunContextWrapper(), "") is billing


async def test_the_callback_gets_the_arguments_as_the_input_type(billing: Agent[Any]) -> None:
    got: list[Any] = []
    context = RunContextWrapper("mine")
    offer = handoff(billing, on_handoff=lambda *args: got.append(args), input_type=Ticket)
    assert offer.has_callback
    assert offer.input_json_schema["required"] == ["number", "note"]
    assert await offer.on_invoke_handoff(context, '{"number": 7, "note": null}') is billing
    assert got == [(context, Ticket(number=7))]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("", "needs arguments"),
        ("{", "Invalid JSON"),
        ('{"number": "7", "note": null}', "number: Input should be a valid integer"),
        ("[]", "arguments: "),
    ],
)
async def test_invalid_arguments_are_a_model_error_that_names_the_correction(
    billing: Agent[Any], arguments: str, told: str
) -> None:
    offer = handoff(billing, on_handoff=lambda ctx, data: None, input_type=Ticket)
    with pytest.raises(ModelBehaviorError, match=told) as caught:
        await offer.on_invoke_handoff(RunContextWrapper(), arguments)
    assert "errors.pydantic.dev" not in str(caught.value)


@pytest.mark.parametrize(
    ("on_handoff", "input_type"),
    [
        (lambda: None, None),
        (lambda ctx, data: None, None),
        (lambda ctx: None, Ticket),
        (lambda ctx, data, more: None, Ticket),
        (lambda ctx, *, key: None, None),
        ("not a function", None),
        (None, Ticket),
        (lambda ctx, data: None, dict[str, int]),
        (lambda ctx, data: None, int),
    ],
)
def test_an_invalid_callback_or_input_type_is_refused(
    billing: Agent[Any], on_handoff: Any, input_type: Any
) -> None:
    with pytest.raises(UserError):
        handoff(billing, on_handoff=on_handoff, input_type=input_type)


@pytest.mark.parametrize("function", [print, lambda *args: None, lambda ctx, more=None: None])
def test_any_function_that_takes_the_context_can_be_a_callback(
    billing: Agent[Any], function: Any
) -> None:
    assert handoff(billing, on_handoff=function).has_callback


async def test_an_error_of_the_callback_is_raised(billing: Agent[Any]) -> None:
    def fail(ctx: RunContextWrapper[Any]) -> None:
        raise RuntimeError("the desk is closed")

    with pytest.raises(RuntimeError, match="the desk is closed"):
        await handoff(billing, on_handoff=fail).on_invoke_handoff(RunContextWrapper(), "")


def test_a_plain_handoff_loads_no_pydantic() -> None:
    code = (
        "import sys; from ekiden.core.agent import Agent; from ekiden.handoff import handoff; "
        "handoff(Agent('a')); sys.exit('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_a_check_given_as_a_plain_function_can_be_awaited(billing: Agent[Any]) -> None:
    check = handoff(billing, is_enabled=lambda ctx, agent: agent.name == "triage").is_enabled
    assert callable(check)
    answers = [check(RunContextWrapper(), Agent(name)) for name in ("triage", "other")]
    assert [await answer for answer in answers if not isinstance(answer, bool)] == [True, False]


async def test_a_callback_without_input_gets_the_context_only(billing: Agent[Any]) -> None:
    got: list[Any] = []

    async def remember(ctx: RunContextWrapper[Any]) -> None:
        got.append(ctx.context)

    offer = handoff(billing, on_handoff=remember)
    assert await offer.on_invoke_handoff(RunContextWrapper("mine"), "{}") is billing
    assert got == ["mine"]


@pytest.mark.parametrize("target", ["billing", None, Agent])
def test_a_handoff_leads_to_an_agent(target: Any) -> None:
    with pytest.raises(UserError, match=r"handoff\(\) needs an Agent"):
        handoff(target)


def test_a_handoff_can_leave_the_conversation_behind(billing: Agent[Any]) -> None:
    assert handoff(billing).include_context
    assert not handoff(billing, include_context=False).include_context
