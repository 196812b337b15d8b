"""Ekiden in the peers' benchmark (`../shared/bench`): put its folder on PYTHONPATH.

Variants: `default` (tracing and audit events on), `quiet` (only events that carry the
conversation). S4 stores every step in one SQLite file with synchronous=FULL.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import ClassVar

from harness import DONE, ORDER, Script
from peers.base import BaseAdapter

from ekiden import Agent, Limits, RunConfig, Runner, Session, function_tool, handoff
from ekiden.core.conversation.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    assistant_message,
    function_call,
)
from ekiden.storage.base import Store


@function_tool
async def lookup_order(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: shipped"


class FakeModel:
    """Answers as scripted, looking at no more than the last item."""

    def __init__(self, script: Script, role: str) -> None:
        self.script, self.role = script, role

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        script = self.script
        if script.yielding:
            await asyncio.sleep(0)
        began = time.perf_counter_ns()
        if script.yielding:
            script.calls += 1
            last = request.input[-1]
            if self.role == "triage":
                item = self.call("transfer_to_specialist", {})
            elif last.get("type") == "function_call_output" and "shipped" in last["output"]:
                item = assistant_message(DONE)
            else:
                item = self.call("lookup_order", {"order_id": ORDER})
        elif script.step(len(request.input)):
            item = self.call("transfer_to_b" if self.role == "a" else "transfer_to_a", {})
        else:
            item = assistant_message(DONE)
        script.model_ns += time.perf_counter_ns() - began
        yield ModelResponse([item])

    def call(self, name: str, arguments: dict[str, str]) -> dict[str, str]:
        return function_call(self.script.next_id(), name, json.dumps(arguments))


class Adapter(BaseAdapter):
    dists = ("ekiden",)
    variants: ClassVar = {"default": "events on, in memory", "quiet": "events off"}
    durable = "SQLite, WAL, synchronous=FULL, every step"

    def configure(self) -> None:
        self.config = RunConfig(
            events=self.variant != "quiet", limits=Limits(turns=None, depth=None)
        )
        self.a = Agent("a", instructions="You are a.", model=FakeModel(self.script, "a"))
        self.b = Agent("b", instructions="You are b.", model=FakeModel(self.script, "b"))
        self.a.handoffs = [handoff(self.b, allow_return="always")]
        self.b.handoffs = [handoff(self.a, allow_return="always")]
        specialist = Agent(
            "specialist",
            instructions="You look orders up.",
            model=FakeModel(self.script, "specialist"),
            tools=[lookup_order],
        )
        self.triage = Agent(
            "triage",
            instructions="You route.",
            model=FakeModel(self.script, "triage"),
            handoffs=[specialist],
        )
        self.store: Store | None = None

    async def prepare_chain(
        self, handoffs: int, history: list[tuple[str, str]]
    ) -> Callable[[], Awaitable[str]]:
        items = [{"role": role, "content": text} for role, text in history]
        items.append({"role": "user", "content": "go"})

        async def run() -> str:
            result = await Runner.run(self.a, items, run_config=self.config)
            return result.final_output

        return run

    async def open_desk(self, durable_dir: Path | None) -> None:
        if durable_dir is not None:
            from ekiden.storage.sqlite import SqliteStore

            self.store = SqliteStore(durable_dir / "ekiden.db")
            await self.store.open()

    async def session(self, i: int) -> str:
        session = None if self.store is None else Session(f"s{i}", store=self.store)
        result = await Runner.run(
            self.triage, "where is my order?", session=session, run_config=self.config
        )
        return result.final_output

    async def close_desk(self) -> None:
        if self.store is not None:
            await self.store.close()
