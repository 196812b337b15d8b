"""Runs in the other process, and serves an agent of a framework over stdio.

``python -m ekiden.integrations.process.serve module:name``
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from itertools import count
from typing import Any

from ekiden.core.errors import UserError
from ekiden.core.integrations.foreign_agents import (
    Effect,
    ForeignAdapter,
    TurnAnswer,
    TurnCheckpoint,
    TurnHandoff,
    TurnPart,
    turn_entered,
)
from ekiden.core.values import dumps, loads
from ekiden.integrations.process.agents import LONGEST, part_to_json, turn_from_json
from ekiden.runtime.kinds.foreign import adapter_of


class _Link:
    """The `TurnLink` to the runtime, which is in the team's process."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._numbers = count(1)
        self._replies: dict[Any, asyncio.Future[Any]] = {}
        self._stored: asyncio.Queue[None] = asyncio.Queue()
        self._storing = asyncio.Lock()

    def write(self, line: Mapping[str, Any]) -> None:
        """Send a line to the team's process."""
        data = f"{dumps(line)}\n".encode()
        while data:  # The pipe may accept only a part of a long line.
            data = data[os.write(self._out, data) :]

    def take(self, line: Mapping[str, Any]) -> None:
        """Process a line that arrived during a turn."""
        if line["type"] == "stored":
            self._stored.put_nowait(None)
        else:
            self._replies.pop(line["id"]).set_result(line)

    async def emit(self, part: TurnPart) -> None:
        """See `TurnLink`."""
        if not isinstance(part, TurnCheckpoint):
            self.write(part_to_json(part))
            return
        async with self._storing:  # `stored` has no id: one checkpoint at a time.
            self.write(part_to_json(part))
            await self._stored.get()

    async def step(self, name: str, args: Any, fn: Effect, scope: str, is_tool: bool) -> Any:
        """See `TurnLink`."""
        number = next(self._numbers)
        step = {"name": name, "args": args, "scope": scope, "is_tool": is_tool}
        reply = await self._ask({"type": "step", "id": number, **step})
        if reply["type"] == "do":
            did: dict[str, Any] = {"type": "did", "id": number}
            try:
                did["result"] = await fn(reply["key"])
            except Exception as exc:
                await self._ask({**did, "error": f"{type(exc).__name__}: {exc}"})
                raise
            reply = await self._ask(did)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply["result"]

    async def _ask(self, line: Mapping[str, Any]) -> Any:
        reply = self._replies[line["id"]] = asyncio.get_running_loop().create_future()
        self.write(line)
        return await reply


async def _serve(adapter: ForeignAdapter, out: int) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    turn: asyncio.Task[None] | None = None
    link = _Link(out)
    while data := await reader.readline():
        line = loads(data)
        if line["type"] == "turn":
            if turn is not None:
                await turn
            turn = asyncio.create_task(_take_turn(adapter, line, link))
        else:
            link.take(line)
    if turn is not None and not turn.done():
        os._exit(1)  # The team's process is gone, so the turn's results could not be stored.


async def _take_turn(adapter: ForeignAdapter, line: Mapping[str, Any], link: _Link) -> None:
    turn = turn_from_json(line, link)
    try:
        with turn_entered(turn):
            async for part in adapter.take_turn(turn):
                if isinstance(part, TurnAnswer) and turn.handed is not None:
                    link.write({**part_to_json(turn.handed), "checkpoint": part.checkpoint})
                    return
                if isinstance(part, TurnAnswer | TurnHandoff):
                    link.write(part_to_json(part))
                    return
                await link.emit(part)
        link.write({"type": "end"})
    except Exception as exc:
        link.write({"type": "failed", "error": f"{type(exc).__name__}: {exc}"})


def _target(text: str) -> Any:
    module, _, name = text.partition(":")
    if not name:
        raise UserError(f"name an object as module:name, not {text!r}")
    sys.path.insert(0, os.getcwd())
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def main() -> None:
    """Serve the agent that the first argument names."""
    out = os.dup(1)
    os.dup2(2, 1)  # Frameworks print to standard output, which would break the protocol.
    asyncio.run(_serve(adapter_of(_target(sys.argv[1])), out))


if __name__ == "__main__":
    main()
