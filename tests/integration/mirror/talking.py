"""Conversations to be mirrored, through the public door."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ekiden import Agent, Runner, Session, function_tool
from ekiden.storage.base import Store
from ekiden.testing import ScriptedModel, say


@function_tool
def lookup(order: int) -> dict[str, Any]:
    """Find an order."""
    return {"order": order, "state": "on its way"}


async def talk(
    store: Store, session: str, *words: str, answers: Sequence[Any] = (), user: str | None = "ada"
) -> None:
    """Say `words` in the session; each is answered with the next of `answers`, or repeated."""
    for number, word in enumerate(words):
        answer = answers[number] if number < len(answers) else say(f"re: {word}")
        steps = answer if isinstance(answer, list) else [answer]
        agent = Agent("desk", model=ScriptedModel(steps), tools=[lookup])
        await Runner.run(agent, word, session=Session(session, store=store, user_id=user))
