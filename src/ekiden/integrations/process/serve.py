"""The process's side: serves an object of a framework over stdio.

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
from ekiden.integrations.process.lines import LONGEST, part_to_json, turn_from_json
from ekiden.runtime.kinds.foreign import adapter_of


class _Link:
    """The runtime, as the process knows it."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._numbers = count(1)
        self._waiting: dict[Any, asyncio.Future[Any]] = {}
        self._stored: asyncio.Queue[None] = asyncio.Queue()
        self._storing = asyncio.Lock()

    def write(self, line: Mapping[str, Any]) -> None:
        """Send it."""
        data = f"{dumps(line)}\n".encode()
        while data:
            data = data[os.write(self._out, data) :]

    def take(self, told: Mapping[str, Any]) -> None:
        """What the runtime says during a turn."""
        if told["type"] == "stored":
            self._stored.put_nowait(None)
        else:
            self._waiting.pop(told["id"]).set_result(told)

    async def emit(self, part: TurnPart) -> None:
        """See `TurnLink`."""
        if not isinstance(part, TurnCheckpoint):
            self.write(part_to_json(part))
            return
        async with self._storing:
            self.write(part_to_json(part))
            await self._stored.get()

    async def step(self, name: str, args: Any, fn: Effect, scope: str, is_tool: bool) -> Any:
        """See `TurnLink`."""
        number = next(self._numbers)
        asked = {"name": name, "args": args, "scope": scope, "is_tool": is_tool}
        told = await self._asked({"type": "step", "id": number, **asked})
        if told["type"] == "do":
            did: dict[str, Any] = {"type": "did", "id": number}
            try:
                did["result"] = await fn(told["key"])
            except Exception as exc:
                await self._asked({**did, "error": f"{type(exc).__name__}: {exc}"})
                raise
            told = await self._asked(did)
        if "error" in told:
            raise RuntimeError(told["error"])
        return told["result"]

    async def _asked(self, line: Mapping[str, Any]) -> Any:
        answer = self._waiting[line["id"]] = asyncio.get_running_loop().create_future()
        self.write(line)
        return await answer


async def _serve(adapter: ForeignAdapter, out: int) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    turn: asyncio.Task[None] | None = None
    link = _Link(out)
    while line := await reader.readline():
        told = loads(line)
        if told["type"] == "turn":
            if turn is not None:
                await turn
            turn = asyncio.create_task(_take_turn(adapter, told, link))
        else:
            link.take(told)
    if turn is not None and not turn.done():
        os._exit(1)  # Nobody stores any more what it does.


async def _take_turn(adapter: ForeignAdapter, told: Mapping[str, Any], link: _Link) -> None:
    turn = turn_from_json(told, link)
    try:
        with turn_entered(turn):
            async for part in adapter.take_turn(turn):
                if isinstance(part, TurnAnswer) and turn.handed is not None:
                    given = {**part_to_json(turn.handed), "checkpoint": part.checkpoint}
                    link.write(given)
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
    """Serve the object that the first argument names."""
    out = os.dup(1)
    os.dup2(2, 1)  # What a framework prints is no part of the protocol.
    asyncio.run(_serve(adapter_of(_target(sys.argv[1])), out))


if __name__ == "__main__":
    main()
