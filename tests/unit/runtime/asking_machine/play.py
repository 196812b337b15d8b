"""Playing a story: everything that happens to a team, and then to its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from ekiden.core.errors import EkidenError
from ekiden.core.questions import InboxItem
from ekiden.engine import Worker, submit
from ekiden.inbox import Inbox
from ekiden.runtime import HandoffController, Runner
from ekiden.runtime.questions.cancel_question import is_left
from ekiden.runtime.questions.due import run_timers
from ekiden.runtime.state.cursor import Cursor
from ekiden.sessions import Session
from ekiden.testing import ManualClock
from tests.unit.runtime.asking_machine.checks import (
    TOPS,
    all_sessions,
    check_always,
    check_end,
    check_quiet,
)
from tests.unit.runtime.asking_machine.office import NO, YES, Broken, Office
from tests.unit.runtime.asking_machine.programs import LONG_S, Act, Story
from tests.unit.runtime.asking_machine.stores import Death, MortalMemory

_MOST_ROUNDS = 60
_IN_TIME_S = 30.0


class Play:
    """One story, in a store of its own."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._clock = ManualClock()
        self.store = MortalMemory(self._clock)
        self.office = Office(story, self.store, self._clock)
        self._inbox = Inbox(self.store)
        self._messages = 0
        self.approved: set[tuple[str, str]] = set()
        """Sessions and arguments that a person allowed."""

    async def run(self) -> Counter[str]:
        """Play it; how often what came about."""
        async with asyncio.timeout(_IN_TIME_S):
            for act in self._story.acts:
                await self._act(act)
            await self._to_the_end()
        for _, session_id, at in self.office.paid:
            assert any(session_id == each and at in words for each, words in self.approved)
        return await self._seen()

    async def _act(self, act: Act) -> None:
        deeds: dict[str, Callable[[int], Awaitable[None]]] = {
            "message": self._write,
            "submit": self._submit,
            "work": self._work,
            "resume": self._resume,
            "interrupt": self._interrupt,
            "answer": self._answer,
            "time": self._pass_time,
            "undo": self._undo,
            "cancel item": self._cancel_item,
        }
        deaths = self.store.deaths
        self.store.die_in(act.dies_in)
        self.office.may_hang = act.kind != "work"
        try:
            await deeds[act.kind](act.which)
        except (EkidenError, Broken):
            pass
        except BaseExceptionGroup as group:
            _, others = group.split(Death)
            assert others is None, others
        except Death:
            pass
        await self.store.revive()
        await check_always(self.store, self.office)
        if act.kind == "work" and self.store.deaths == deaths:
            # What was due at the very end may have woken somebody.
            await self._work(0)
            await check_quiet(self.store)

    async def _write(self, which: int) -> None:
        session, team = self._top(which)
        await Runner.run(team, self._message(), session=session, run_config=self.office.config)

    async def _submit(self, which: int) -> None:
        session, team = self._top(which)
        await submit(team, self._message(), session=session, run_config=self.office.config)

    def _top(self, which: int) -> tuple[Session, Any]:
        place = which % len(TOPS)
        team = self.office.team_of(self._story.entries[place])
        return Session(TOPS[place], store=self.store), team

    def _message(self) -> str:
        self._messages += 1
        return f"<m{self._messages}>"

    async def _work(self, which: int) -> None:
        workers = [
            Worker(self.store, self.office.team, run_config=self.office.config, concurrency=8)
            for _ in range(1 + which % 2)
        ]
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker.run(until_idle=True))

    async def _resume(self, which: int) -> None:
        rows = await all_sessions(self.store)
        unfinished = [row for row in rows if row.cursor and row.cursor["p"] != "end"]
        if unfinished:
            row = unfinished[which % len(unfinished)]
            await self._go_on_with(row.id)

    async def _interrupt(self, which: int) -> None:
        """A person writes, and stops the run soon afterwards."""
        run = asyncio.create_task(self._write(which))
        for _ in range(which):
            await asyncio.sleep(0)
        self.office.interruptions += run.cancel()
        with suppress(asyncio.CancelledError):
            await run

    async def _go_on_with(self, session_id: str) -> None:
        session = Session(session_id, store=self.store)
        await Runner.resume(self.office.team, session, run_config=self.office.config)

    async def _items(self) -> list[InboxItem]:
        return sorted((await self._inbox.list(limit=1000)).items, key=lambda item: item.subject)

    async def _answer(self, which: int) -> None:
        items = await self._items()
        if items:
            await self._decide(items[which % len(items)], is_yes=which % 3 > 0)

    async def _decide(self, item: InboxItem, *, is_yes: bool) -> None:
        choice = item.options[0 if is_yes else 1]
        assert item.options in ((YES, NO), ("approve", "reject"))
        if item.kind == "confirmation" and is_yes:
            self.approved.add((item.session_id or "", item.arguments or ""))
        await self._inbox.answer(item.id, choice=choice, by="mira")

    async def _cancel_item(self, which: int) -> None:
        items = await self._items()
        if items:
            await self._inbox.cancel(items[which % len(items)].id, by="mira")

    async def _pass_time(self, which: int) -> None:
        self._clock.advance(2 * LONG_S)
        await run_timers(self.store)

    async def _undo(self, which: int) -> None:
        """A person takes a handoff back that is not confirmed."""
        for row in await all_sessions(self.store):
            pending = Cursor.from_json(row.cursor).handoffs.pending
            if pending is not None:
                controller = HandoffController(
                    self.office.team, self.store, run_config=self.office.config
                )
                await controller.cancel(pending.id)
                return

    async def _to_the_end(self) -> None:
        """Everybody does what is theirs to do, until nobody has anything left."""
        for _ in range(_MOST_ROUNDS):
            await self._act(Act(kind="work"))
            for row in await all_sessions(self.store):
                if is_left(row):
                    with suppress(EkidenError, Broken):
                        await self._go_on_with(row.id)
            for item in await self._items():
                await self._decide(item, is_yes=True)
            await self._act(Act(kind="time"))
            rows = await all_sessions(self.store)
            if all(row.status == "idle" and not is_left(row) for row in rows):
                break
        await check_end(self.store, self.office)

    async def _seen(self) -> Counter[str]:
        seen: Counter[str] = Counter()
        for states in self.store.endings.values():
            seen.update(states)
        seen["deaths"] = self.store.deaths
        seen["paid"] = len(self.office.paid)
        for row in await all_sessions(self.store):
            for event in await self.store.events(row.id):
                details = event.details or {}
                seen["rolled back"] += details.get("status") == "rolled_back"
                seen["tells"] += "tells" in details
                seen["withdrawn"] += details.get("code") == "ask.withdrawn"
                seen["people"] += event.type == "inbox" and "answer" in details
                seen["deadlocks"] += "deadlock: " in (event.error or "")
        return seen
