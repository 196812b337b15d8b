"""An adapter that a child process serves: its effects are lines of a file."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

from ekiden import (
    ForeignTurn,
    TurnAnswer,
    TurnCheckpoint,
    TurnDelta,
    TurnQuestion,
    Usage,
    current_turn,
)
from ekiden.core.integrations.foreign_agents import TurnPart, TurnUsage


class Child:
    framework = "child"
    durability = "node"

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        print("what a framework prints is no line of the protocol")
        if turn.text == "fail":
            raise ValueError("broken")
        if turn.text == "hand over":
            current_turn().hand_to("editor", reason="said the child")
            yield TurnAnswer(output="not said")
            return
        if not turn.resumes:
            seen = await turn.step("write", {"line": turn.text}, _write)
            yield TurnDelta(text="…")
            yield TurnUsage(usage=Usage(requests=1, input_tokens=2, output_tokens=3))
            yield TurnCheckpoint(data=[seen])
            if turn.text == "die":
                os.kill(os.getpid(), signal.SIGKILL)
        if not turn.answers:
            yield TurnQuestion(id="q", tool="send", arguments={"to": "ann"})
            return
        yield TurnAnswer(output=[turn.checkpoint, turn.answers["q"].approved])


async def _write(key: str) -> str:
    effects = Path(os.environ["EFFECTS"])
    effects.write_text(f"{effects.read_text()}{key}\n")
    return "written"


child = Child()
