"""Performs a plan: one instant after the other, all things of an instant at the same time.

To add a kind of event, write a method and list it in `_STEPS`, `_FAULTS` or `_FIRST`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from ekiden import InboxItemClosed
from ekiden.client import Run
from ekiden.core.questions import InboxItem

from .site import Site
from .stories import DAY_S, HOUR_S

_IN_FLIGHT = 100
"""Steps at the same time."""
_STEP_S = 180.0
"""Longer, a step is stuck."""


@dataclass(slots=True)
class Report:
    """What the driver did."""

    seconds: float = 0.0
    steps: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    """By process."""
    resumed: int = 0
    model: Mapping[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Driver:
    """Plays the customers, the people at the desk, and bad luck."""

    def __init__(self, plan: Mapping[str, Any], site: Site) -> None:
        self.report = Report()
        self._plan = plan
        self._site = site
        self._shop = site.clients["shop"]
        self._ended = 0
        """Steps of this instant."""
        self._changed = asyncio.Condition()
        self._free = asyncio.Semaphore(_IN_FLIGHT)
        self._said: Counter[str] = Counter()
        """Messages of each session."""
        self._open: dict[str, InboxItem] = {}
        """Open questions, by session."""
        self._failed: set[str] = set()
        """Sessions that failed in an outage."""
        self._is_outage = False

    async def run(self) -> Report:
        """Perform everything."""
        began = time.monotonic()
        instants: dict[int, list[dict[str, Any]]] = defaultdict(list)
        steps = [step for each in self._plan["conversations"] for step in each["steps"]]
        customers = {
            step["session"]: each["customer"]
            for each in self._plan["conversations"]
            for step in each["steps"]
        }
        for step in steps:
            step["customer"] = customers[step["session"]]
        prices = [{"do": "price", **price} for price in self._plan["prices"]]
        for event in [*self._plan["faults"], *prices, *steps]:
            instants[event["at"]].append(event)
        for at, events in sorted(instants.items()):
            await self._site.move_to(at)
            await self._instant(events)
            self.report.seconds = round(time.monotonic() - began, 1)
            self._tell(at, len(events))
        self.report.model = await self._set_outage(None)
        return self.report

    def _tell(self, at: int, events: int) -> None:
        day, hour = at // DAY_S + 1, at % DAY_S // HOUR_S
        line = f"{self._site.kind:10} day {day}, {hour:2} h: {events:4} events"
        print(f"{line}, after {self.report.seconds:6.1f} s", file=sys.stderr, flush=True)

    async def _instant(self, events: list[dict[str, Any]]) -> None:
        self._ended = 0
        await self._read_inbox()
        for event in events:
            if event["do"] in _FIRST:
                await _FIRST[event["do"]](self, event)
        async with asyncio.TaskGroup() as group:
            for event in events:
                if event["do"] in _STEPS:
                    group.create_task(self._step(event))
                elif event["do"] in _FAULTS:
                    group.create_task(_FAULTS[event["do"]](self, event))
        if not self._is_outage:
            await self._resume_failed()
        while running := [run async for run in self._shop.runs.list(status="ready")]:
            await asyncio.gather(*(self._shop.runs.wait(run.run_id) for run in running))

    async def _read_inbox(self) -> None:
        self._open = {}
        async for item in self._site.clients["anna"].inbox.list():
            self._open[item.correlation_id or item.id] = item

    # Steps

    async def _step(self, step: Mapping[str, Any]) -> None:
        async with self._free:
            try:
                async with asyncio.timeout(_STEP_S):
                    run = await _STEPS[step["do"]](self, step)
            except TimeoutError:
                self.report.problems.append(f"{step['session']}: {step['do']} did not end")
            else:
                if run is not None and run.status == "failed" and _is_models(run):
                    self._failed.add(run.session_id)
        self.report.steps += 1
        async with self._changed:
            self._ended += 1
            self._changed.notify_all()

    async def _message(self, step: Mapping[str, Any]) -> Run | None:
        session = step["session"]
        self._said[session] += 1
        run = await self._shop.runs.start(
            step["text"], session_id=session, user_id=step["customer"], agent=step["to"]
        )
        return await self._until(run.run_id, step["status"])

    async def _answer(self, step: Mapping[str, Any]) -> Run | None:
        item = self._open.get(step["session"])
        if item is None:
            self.report.problems.append(f"{step['session']}: there is no question to answer")
            return None
        person = self._site.clients[step["by"]]
        choice, text = step["choice"], step["text"]
        if step["do"] == "settle":
            choice, text = self._looked_up(item)
        try:
            await person.inbox.answer(item.id, choice, text=text)
        except InboxItemClosed as exc:
            # The server was killed after it stored the answer, so the request was repeated.
            if (await person.inbox.get(item.id)).closed_by != step["by"]:
                self.report.problems.append(f"{step['session']}: {exc}")
        return await self._deadline(step)

    def _looked_up(self, item: InboxItem) -> tuple[str, str]:
        """The answer of a person who looks into the ledger for a call whose effect is unknown."""
        assert item.context is not None
        if "repeat" in item.options:
            return "repeat", ""
        found = self._site.books.rows(
            "select order_id, cents as paid_cents, at as paid_at from payments where key = ?",
            item.context["idempotency_key"],
        )
        return ("enter a result", json.dumps(found[0])) if found else ("abandon", "")

    async def _deadline(self, step: Mapping[str, Any]) -> Run | None:
        session = step["session"]
        return await self._until(f"{session}:{self._said[session]}", step["status"])

    async def _until(self, run_id: str, status: str) -> Run:
        """The run, as soon as it waits for a person, or has an outcome if it should have one."""
        if status == "waiting":
            return await self._shop.runs.wait(run_id)
        async with self._shop.runs.follow(run_id, until="outcome") as shown:
            async for each in shown:
                if isinstance(each, Run):
                    return each
        raise RuntimeError(f"the stream of {run_id} has no end")

    # Faults

    async def _kill(self, fault: Mapping[str, Any]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._ended >= fault["after"])
        crew = sorted(self._site.crew)
        workers = [name for name in crew if name.startswith("worker")]
        kills = self.report.kills
        number = sum(kills.values())
        name = workers[number % len(workers)] if fault["what"] == "worker" and workers else "server"
        kills[name] = kills.get(name, 0) + 1
        await self._site.kill(name)

    async def _deploy(self, fault: Mapping[str, Any]) -> None:
        paying: set[bytes] = set()
        async with asyncio.timeout(_STEP_S):
            while len(paying) < fault["after"]:
                paying.add(await self._site.paying.readline())
        await self._site.deploy()

    async def _outage(self, fault: Mapping[str, Any]) -> None:
        self._is_outage = True
        await self._set_outage(fault["what"])

    async def _set_price(self, price: Mapping[str, Any]) -> None:
        self._site.books.set_price(price["order"], price["cents"])

    async def _recover(self, fault: Mapping[str, Any]) -> None:
        self._is_outage = False
        await self._set_outage(None)

    async def _set_outage(self, kind: str | None) -> Mapping[str, int]:
        async with httpx2.AsyncClient() as client:
            url = f"{self._site.model_url}/outage"
            answer = await client.post(url, content=json.dumps(kind))
            counts: Mapping[str, int] = answer.json()
            return counts

    async def _resume_failed(self) -> None:
        """Resume what the provider's outage stopped, as an operator does."""
        failed, self._failed = sorted(self._failed), set()
        self.report.resumed += len(failed)
        runs = await asyncio.gather(*(self._shop.runs.resume_and_wait(each) for each in failed))
        again = [run for run in runs if run.status == "failed"]
        self.report.problems += [f"{run.session_id} failed again: {run.error}" for run in again]


_STEPS = {
    "message": Driver._message,
    "answer": Driver._answer,
    "settle": Driver._answer,
    "deadline": Driver._deadline,
}
_FAULTS = {"kill": Driver._kill, "deploy": Driver._deploy}
"""These happen while the steps of the instant are performed."""
_FIRST = {"outage": Driver._outage, "recovery": Driver._recover, "price": Driver._set_price}
"""These happen before."""


def _is_models(run: Run) -> bool:
    return run.error is not None and run.error.code.startswith("model.")
