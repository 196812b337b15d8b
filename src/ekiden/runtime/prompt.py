"""The system prompt of the active agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.core.errors import UserError
from ekiden.handoff import received_block
from ekiden.runtime.calls import settled
from ekiden.runtime.state import RunState

_SHOWN_CHAIN = 12


async def system_prompt(run: RunState) -> str | None:
    """The agent's instructions, and after a handoff a fenced block of what it received."""
    instructions = run.agent.instructions
    if instructions is not None and not isinstance(instructions, str):
        instructions = await settled(instructions(run.context, run.agent))
        if instructions is not None and not isinstance(instructions, str):
            raise UserError(
                f"the instructions of agent {run.agent.name!r} gave "
                f"{type(instructions).__name__}, not text"
            )
    received = run.cursor.received
    if received is None:
        return instructions
    if run.prompt_block is None:
        run.prompt_block = prompt_block(received, run.cursor.chain)
    return f"{instructions}\n\n{run.prompt_block}" if instructions else run.prompt_block


def prompt_block(received: Mapping[str, Any], chain: Sequence[str]) -> str:
    """What an agent that was handed `received` is told of it."""
    return received_block(
        from_agent=received["from"],
        reason=received.get("reason"),
        summary=received.get("summary"),
        context=received.get("context"),
        payload=received.get("payload"),
        priority=received.get("priority"),
        metadata=received.get("metadata"),
        chain=chain[-_SHOWN_CHAIN:],
    )
