"""A team that spills what it knows: its tools, guardrails and handoffs repeat planted secrets.

The file that `LEAKY_CANARIES` names has them by name. ``do:NAME`` in a request makes the model call
the tool NAME; ``do:hand_over`` hands the conversation over.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ekiden import (
    Agent,
    GuardrailFunctionOutput,
    RunContextWrapper,
    Team,
    Violation,
    function_tool,
    handoff,
    input_guardrail,
)
from ekiden.core.conversation.model import (
    ModelDelta,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    assistant_message,
    function_call,
    is_message,
    text_of,
)
from ekiden.integrations.a2a import RemoteA2A, a2a_agent
from tests.support.canaries import pem

CANARIES: dict[str, str] = json.loads(Path(os.environ["LEAKY_CANARIES"]).read_text())
_log = logging.getLogger("ekiden.leaky")


@function_tool
def fails() -> str:
    """Fail, and repeat a key."""
    raise RuntimeError(f"access denied for {CANARIES['tool_error']}")


@function_tool
def fails_to_connect() -> str:
    """Fail, and repeat an address with a password."""
    password = CANARIES["tool_error_address"]
    raise OSError(f"cannot connect to postgresql://app:{password}@db.example/shop")


@function_tool
def fails_below() -> str:
    """Fail because of something that failed."""
    try:
        raise ValueError(f"invalid key {CANARIES['tool_error_cause']}")
    except ValueError as exc:
        raise RuntimeError("the service said no") from exc


@function_tool(failure_error_function=None)
def ends_the_run() -> str:
    """Fail so that the run ends."""
    raise PermissionError(f"token {CANARIES['tool_error_unguarded']} has expired")


@function_tool
def shows_environment() -> str:
    """Return the environment, as careless tools do."""
    return "PATH=/bin\nVAULT_TOKEN=" + os.environ["VAULT_TOKEN"]


@function_tool
def uses_key(token: str, addresses: list[str]) -> str:
    """Take a key, and give another one."""
    return f"signed in; the new key is {CANARIES['tool_result']}"


@function_tool
def makes_certificate() -> str:
    """Give a private key."""
    return pem(CANARIES["tool_result_pem"])


@function_tool(confirmation=True)
def pays(token: str) -> str:
    """Pay, after an approval."""
    return "paid"


@function_tool
async def notes(ctx: RunContextWrapper[Any]) -> str:
    """Keep things."""
    ctx.set("card", CANARIES["variable"])
    ctx.publish("noted", {"token": CANARIES["published"]})
    return "noted"


@function_tool
def writes_log() -> str:
    """Write to the log, as loudly as can be."""
    logging.getLogger().setLevel(logging.DEBUG)
    logging.getLogger("ekiden").setLevel(logging.DEBUG)
    _log.warning("calling with %s", CANARIES["log_line"], extra={"sent": CANARIES["log_field"]})
    try:
        raise RuntimeError(CANARIES["tool_error"])
    except RuntimeError:
        _log.exception("a tool of the team failed with VAULT_TOKEN=%s", os.environ["VAULT_TOKEN"])
    return "written"


@input_guardrail(run_in_parallel=False)
def watchful(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
    """Refuses, or fails, on request."""
    said = str(input)
    if "guard:crash" in said:
        raise RuntimeError(f"policy server refused {CANARIES['guardrail_error']}")
    return GuardrailFunctionOutput(
        {"key": CANARIES["guardrail_info"]} if "guard:refuse" in said else None,
        tripwire_triggered="guard:refuse" in said,
        violations=(Violation(message=f"holds {CANARIES['guardrail_message']}"),),
    )


def _fails_to_hand_over(ctx: RunContextWrapper[Any]) -> None:
    raise RuntimeError(f"ticket system refused {CANARIES['handoff_error']}")


class LeakyModel:
    """Calls the tool named in the message, then says that it is done."""

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One call."""
        said = [text_of(item) for item in request.input if is_message(item)]
        wanted = re.search(r"do:(\w+)", said[-1] if said else "")
        is_done = request.input[-1].get("type") == "function_call_output"
        if wanted is None or is_done:
            yield ModelDelta(kind="text", text="done")
            yield ModelResponse(output=[assistant_message("done")])
            return
        name, arguments = wanted[1], _arguments(wanted[1])
        yield ModelResponse(output=[function_call("c1", name, json.dumps(arguments))])


def _arguments(name: str) -> dict[str, Any]:
    match name:
        case "uses_key":
            address = f"redis://:{CANARIES['tool_argument_nested']}@cache.example"
            return {"token": CANARIES["tool_argument"], "addresses": [address]}
        case "pays":
            return {"token": CANARIES["approval_argument"]}
        case "transfer_to_desk":
            return {"reason": f"has the key {CANARIES['handoff_reason']}"}
    return {}


_MODEL = LeakyModel()
desk = Agent("desk", model=_MODEL, tools=[uses_key])
archive = Agent("archive", model=_MODEL)
cloud = Agent("cloud", description="Works elsewhere.", model="openai:gpt-5")
partner = a2a_agent(
    RemoteA2A(card=os.environ["LEAKY_PARTNER"], token_env="PARTNER_TOKEN", patience_s=0.5),
    name="partner",
)
triage = Agent(
    "triage",
    model=_MODEL,
    tools=[
        fails,
        fails_to_connect,
        fails_below,
        ends_the_run,
        shows_environment,
        uses_key,
        makes_certificate,
        pays,
        notes,
        writes_log,
    ],
    handoffs=[desk, cloud, partner, handoff(archive, on_handoff=_fails_to_hand_over)],
    input_guardrails=[watchful],
)
team = Team(triage, desk, archive, cloud, partner)
